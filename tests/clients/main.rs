//! Ordinary clients in a cage, each unmodified: every one is held, then allowed, and then works against
//! a server of a private internet. Prints the table.

mod servers;

use anyhow::{Result, ensure};
use foreman_testkit::suite::{Case, Tally, Verdict, Wanted};
use foreman_testkit::{Arena, Bench, Binaries, PATIENCE, Product, Who, World, run};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// One client: what it runs in the cage, whom it reaches, and what it must print.
struct Client {
    name: &'static str,
    /// Programs that must be on the machine.
    needs: &'static [&'static str],
    /// The block's subject.
    subject: &'static str,
    script: String,
    prints: &'static str,
}

#[derive(Debug)]
struct Row {
    name: &'static str,
    held: Duration,
    after: Duration,
}

fn clients(kit: &servers::Kit) -> Vec<Client> {
    let (ca, key, dialler) = (&kit.authority, &kit.key, &kit.dialler);
    let ssh = format!(
        "ssh -F /dev/null -i {key} -o BatchMode=yes -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o LogLevel=ERROR"
    );
    let user = &kit.user;
    let client = |name, needs, subject, script: String, prints| Client {
        name,
        needs,
        subject,
        script,
        prints,
    };
    vec![
        client(
            "curl, https",
            &["curl"],
            "tcp curl.clients.example:443",
            format!("curl -sS -m 90 --cacert {ca} https://curl.clients.example/"),
            "hello from the far side",
        ),
        client(
            "wget, https",
            &["wget"],
            "tcp wget.clients.example:443",
            format!("wget -q -O- --ca-certificate={ca} https://wget.clients.example/"),
            "hello from the far side",
        ),
        client(
            "busybox wget, http",
            &["busybox"],
            "tcp busybox.clients.example:80",
            "busybox wget -q -O- http://busybox.clients.example/".to_owned(),
            "hello from the far side",
        ),
        client(
            "git, https",
            &["git"],
            "tcp git.clients.example:443",
            format!("rm -rf /tmp/c1; git -c http.sslCAInfo={ca} clone -q https://git.clients.example/served.git /tmp/c1 && cat /tmp/c1/file.txt"),
            "two",
        ),
        client(
            "git, ssh",
            &["git", "ssh", "sshd"],
            "tcp gitssh.clients.example:22",
            format!("rm -rf /tmp/c2; GIT_SSH_COMMAND='{ssh}' git clone -q {user}@gitssh.clients.example:{} /tmp/c2 && cat /tmp/c2/file.txt", kit.served),
            "two",
        ),
        client(
            "ssh",
            &["ssh", "sshd"],
            "tcp ssh.clients.example:22",
            format!("{ssh} {user}@ssh.clients.example 'echo signed in as $USER'"),
            "signed in as",
        ),
        client(
            "node, fetch over https",
            &["node"],
            "tcp node.clients.example:443",
            format!("NODE_EXTRA_CA_CERTS={ca} node -e \"fetch('https://node.clients.example/').then(r => r.text()).then(console.log)\""),
            "hello from the far side",
        ),
        client(
            "python, urllib over https",
            &["python3"],
            "tcp python.clients.example:443",
            format!("python3 -c \"import ssl, urllib.request as u; print(u.urlopen('https://python.clients.example/', timeout=90, context=ssl.create_default_context(cafile='{ca}')).read())\""),
            "hello from the far side",
        ),
        client(
            "static binary, own DNS, raw dial",
            &["rustc"],
            "tcp static.clients.example:7007",
            format!("{dialler} static.clients.example 7007 'static says hello'"),
            "static says hello",
        ),
        client(
            "java, HttpClient",
            &["java", "javac"],
            "tcp java.clients.example:80",
            format!("java -Djava.io.tmpdir=/tmp {}", kit.java),
            "hello from the far side",
        ),
        client(
            "psql",
            &["psql"],
            "tcp psql.clients.example:5432",
            "psql -X -A -t -h psql.clients.example -U postgres -c \"select 'answer ' || (40 + 2)\"".to_owned(),
            "answer 42",
        ),
        client(
            "python, UDP",
            &["python3"],
            "udp udp.clients.example:7007",
            "python3 -c \"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(90); s.connect(('udp.clients.example', 7007)); s.send(b'datagram'); print(s.recv(100))\"".to_owned(),
            "datagram",
        ),
    ]
}

fn main() -> ExitCode {
    let wanted = Wanted::from_arguments();
    let mut tally = Tally::default();
    if wanted.lists() {
        return tally.close(&wanted);
    }
    let rows = Mutex::new(Vec::new());
    if let Err(error) = all(&mut tally, &wanted, &rows) {
        tally.fail("clients::stage", &error);
    }
    let mut rows = rows.into_inner().unwrap();
    rows.sort_by_key(|row: &Row| row.name);
    println!("\n| client | held for | finished after the amend in |\n|---|---|---|");
    for row in rows {
        let (held, after) = (row.held.as_millis(), row.after.as_millis());
        println!("| {} | {held} ms | {after} ms |", row.name);
    }
    tally.close(&wanted)
}

fn all(tally: &mut Tally, wanted: &Wanted, rows: &Mutex<Vec<Row>>) -> Result<()> {
    let bench = Bench::new(Who::Ordinary)?;
    let kit = servers::Kit::make(&bench)?;
    let world = World::with_programs(&bench, &kit.programs)?;
    kit.publish(&bench, &world)?;
    let data = bench.scratch("data")?;
    let arena = Arena::new(Product::in_world(&bench, &world).with_data(&data), &[])?;
    let missing = kit.missing.clone();
    let cases = clients(&kit)
        .into_iter()
        .map(|client| {
            let (arena, world, missing) = (&arena, &world, &missing);
            Case::new(format!("clients::{}", client.name), move || {
                match absent(&client, missing) {
                    Some(why) => Ok(Verdict::Skipped(why)),
                    None => {
                        held_then_allowed(&client, arena, world, rows).map(|()| Verdict::Passed)
                    }
                }
            })
        })
        .collect();
    tally.run(wanted, 4, cases);
    kit.stop(&bench, &world)?;
    let code = arena.finish()?;
    ensure!(code == 0, "exit code {code}");
    Ok(())
}

fn absent(client: &Client, missing: &[String]) -> Option<String> {
    let has = |program: &&str| {
        run(Command::new("sh").args(["-c", &format!("PATH=$PATH:/usr/sbin command -v {program}")]))
            .is_ok()
    };
    let absent: Vec<&str> = client
        .needs
        .iter()
        .filter(|program| !has(program))
        .copied()
        .collect();
    if !absent.is_empty() {
        return Some(format!("{} is not on this machine", absent.join(", ")));
    }
    missing
        .iter()
        .find(|what| {
            client
                .subject
                .contains(what.split(':').next().unwrap_or_default())
        })
        .map(|what| {
            what.split_once(':')
                .map_or(what.as_str(), |(_, why)| why)
                .trim()
                .to_owned()
        })
}

fn held_then_allowed(
    client: &Client,
    arena: &Arena<'_>,
    world: &World,
    rows: &Mutex<Vec<Row>>,
) -> Result<()> {
    let begin = Instant::now();
    let job = arena.shell_job(&client.script)?;
    let block = arena
        .block(client.subject)
        .map_err(|error| error.context(format!("the client said {:?}", job.reply())))?;
    let host = client
        .subject
        .trim_start_matches("tcp ")
        .trim_start_matches("udp ");
    let host = host.split(':').next().unwrap_or_default();
    ensure!(
        !world.names_asked()?.iter().any(|name| name == host),
        "{host} was looked up before the amend"
    );
    ensure!(job.reply()?.is_none(), "it did not wait: {:?}", job.reply());
    let held = begin.elapsed();
    arena.product().amend(&block, &[])?;
    let amended = Instant::now();
    let reply = job.wait(PATIENCE)?;
    ensure!(
        reply.code == 0 && reply.stdout.contains(client.prints),
        "{reply:?}"
    );
    rows.lock().unwrap().push(Row {
        name: client.name,
        held,
        after: amended.elapsed(),
    });
    Ok(())
}

/// Where the static client's source is.
fn dialler_source() -> std::path::PathBuf {
    Binaries::checkout().join("tests/clients/static_dialler.rs")
}
