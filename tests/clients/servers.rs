//! What clients need: servers beside those of the world (sshd, a database, a repository to clone) and
//! files that the cage may read (a key, a certificate, a static program, a Java source).

use anyhow::{Context, Result};
use foreman_testkit::{Bench, Binaries, World, repos, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All of it, as paths inside the cage (which are the same as outside).
pub struct Kit {
    pub authority: String,
    pub key: String,
    pub dialler: String,
    pub java: String,
    pub served: String,
    pub user: String,
    pub programs: Vec<Vec<String>>,
    /// Stops the database in good order, so that it leaves no shared memory behind.
    stop: Vec<String>,
    /// `host-part: why` of what could not be made.
    pub missing: Vec<String>,
}

const JAVA: &str = r#"
import java.net.URI;
import java.net.http.*;
public class Client {
    public static void main(String[] arguments) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://java.clients.example/")).build();
        System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
}
"#;

impl Kit {
    pub fn make(bench: &Bench) -> Result<Self> {
        let tools = bench.bin();
        let mut missing = Vec::new();
        bench.write(&tools.join("Client.java"), JAVA)?;
        let served = bench.scratch("served")?.join("served.git");
        let repo = repos::plain(bench, "served")?;
        bench.shell(
            &repo,
            &format!(
                "git clone -q --bare . '{0}'; git -C '{0}' update-server-info",
                served.display()
            ),
        )?;
        let mut programs = Vec::new();
        match sshd(bench, &tools) {
            Ok(argv) => programs.push(argv),
            Err(error) => missing.push(format!("ssh.clients: {error:#}")),
        }
        let mut stop = Vec::new();
        match database(bench) {
            Ok(argv) => {
                stop = [
                    &argv[0].replace("/postgres", "/pg_ctl"),
                    "-D",
                    &argv[2],
                    "-m",
                    "fast",
                    "stop",
                ]
                .map(str::to_owned)
                .to_vec();
                programs.push(argv);
            }
            Err(error) => missing.push(format!("psql.clients: {error:#}")),
        }
        let dialler = tools.join("static-dialler");
        if let Err(error) = static_dialler(&dialler) {
            missing.push(format!("static.clients: {error:#}"));
        }
        let text = |path: &Path| path.display().to_string();
        Ok(Self {
            authority: text(&tools.join("authority.pem")),
            key: text(&tools.join("client-key")),
            dialler: text(&dialler),
            java: text(&tools.join("Client.java")),
            served: text(&served),
            user: bench.user(),
            programs,
            stop,
            missing,
        })
    }

    /// Ends what must not just be killed.
    pub fn stop(&self, bench: &Bench, world: &World) -> Result<()> {
        if let Some((program, arguments)) = self.stop.split_first() {
            run(world.command(bench, program).args(arguments))?;
        }
        Ok(())
    }

    /// Puts what the world made, and what it serves, in place.
    pub fn publish(&self, bench: &Bench, world: &World) -> Result<()> {
        fs::copy(world.authority(), &self.authority)?;
        bench.shell(
            &world.site(),
            &format!(
                "cp -r '{}' served.git; git -C served.git update-server-info",
                self.served
            ),
        )?;
        Ok(())
    }
}

fn sshd(bench: &Bench, tools: &Path) -> Result<Vec<String>> {
    let program = ["/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .context("sshd is not on this machine")?;
    let folder = bench.scratch("sshd")?;
    let key = tools.join("client-key");
    bench.shell(
        &folder,
        &format!(
            "ssh-keygen -q -t ed25519 -N '' -f host-key; ssh-keygen -q -t ed25519 -N '' -f '{0}'
             cp '{0}.pub' authorized_keys; chmod 600 '{0}' authorized_keys",
            key.display()
        ),
    )?;
    let config = format!(
        "Port 22\nListenAddress 0.0.0.0\nHostKey {0}/host-key\nAuthorizedKeysFile {0}/authorized_keys\n\
         PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nAllowUsers {1}\n",
        folder.display(),
        bench.user()
    );
    bench.write(&folder.join("sshd_config"), config)?;
    let config = folder.join("sshd_config").display().to_string();
    Ok([
        "/bin/sh",
        "-c",
        &format!(
            "exec {program} -D -e -f '{config}' 2>>'{}/log'",
            folder.display()
        ),
    ]
    .map(str::to_owned)
    .to_vec())
}

fn database(bench: &Bench) -> Result<Vec<String>> {
    let mut places: Vec<PathBuf> = vec!["/usr/local/bin".into(), "/usr/bin".into()];
    places.extend(
        fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().join("bin")),
    );
    let place = places
        .into_iter()
        .find(|place| place.join("initdb").exists() && place.join("postgres").exists())
        .context("the PostgreSQL server is not on this machine")?;
    let folder = bench.scratch("database")?;
    bench.shell(
        &folder,
        &format!(
            "'{}/initdb' -D data -U postgres --auth=trust --no-sync --locale=C -E UTF8 >log 2>&1
             echo 'host all all 0.0.0.0/0 trust' >> data/pg_hba.conf
             echo 'dynamic_shared_memory_type = mmap' >> data/postgresql.conf",
            place.display()
        ),
    )?;
    Ok([
        format!("{}/postgres", place.display()),
        "-D".to_owned(),
        folder.join("data").display().to_string(),
        "-h".to_owned(),
        "0.0.0.0".to_owned(),
        "-p".to_owned(),
        "5432".to_owned(),
        "-k".to_owned(),
        folder.display().to_string(),
        "-F".to_owned(),
    ]
    .to_vec())
}

/// Built once and kept: a program without any shared library.
fn static_dialler(to: &Path) -> Result<()> {
    let source = crate::dialler_source();
    let built = Binaries::tools()?.join("static-dialler");
    let is_older = |one: &Path, other: &Path| -> Option<bool> {
        Some(fs::metadata(one).ok()?.modified().ok()? < fs::metadata(other).ok()?.modified().ok()?)
    };
    if is_older(&built, &source).unwrap_or(true) {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        run(Command::new(rustc)
            .args([
                "--edition",
                "2024",
                "-O",
                "-C",
                "target-feature=+crt-static",
                "-o",
            ])
            .arg(&built)
            .arg(&source))
        .context("build the static client")?;
    }
    fs::copy(&built, to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
