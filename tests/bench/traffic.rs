//! Bulk transfer, its price in processor time, and connect latency: in a cage, directly, and through the
//! peer where it is there.

use crate::Size;
use crate::peer::Peer;
use crate::table::{Row, median};
use anyhow::{Context, Result, ensure};
use foreman_testkit::{Arena, MAIN_V4, PATIENCE, Stage};
use serde_json::{Value, json};
use std::time::Instant;

pub const HOST: &str = "bulk.amended.example";

pub struct Sample {
    pub mib_per_second: f64,
    pub cpu_seconds: f64,
}

/// What processes of the bench's user other than the servers have used so far, in seconds: the shims,
/// the cages and what they run. Ended children count in their parents. Without names: our own ended
/// children.
fn cpu_of(names: &[&str]) -> f64 {
    if names.is_empty() {
        return children_cpu();
    }
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return 0.0;
    };
    let mut ticks = 0_u64;
    for entry in entries.flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let Some((head, tail)) = stat.split_once(") ") else {
            continue;
        };
        let name = head.split_once('(').map_or("", |(_, name)| name);
        if names.contains(&name) {
            let fields: Vec<u64> = tail
                .split(' ')
                .skip(11)
                .take(4)
                .filter_map(|field| field.parse().ok())
                .collect();
            ticks += fields.iter().sum::<u64>();
        }
    }
    ticks as f64 / 100.0
}

/// Runs `work` and gives how long it took and the processor time of these programs meanwhile.
fn measured(
    names: &[&str],
    bytes: usize,
    work: impl FnOnce() -> Result<Option<Value>>,
) -> Result<Sample> {
    let before = cpu_of(names);
    let begin = Instant::now();
    let saw = work()?;
    let micros = saw.as_ref().and_then(|saw| saw["micros"].as_f64());
    let seconds = micros.map_or_else(|| begin.elapsed().as_secs_f64(), |micros| micros / 1e6);
    Ok(Sample {
        mib_per_second: bytes as f64 / f64::from(1 << 20) / seconds,
        cpu_seconds: (cpu_of(names) - before).max(0.0),
    })
}

fn arena(stage: &Stage) -> Result<Arena<'_>> {
    let mut options = Vec::new();
    for port in ["7009", "7019", "7007", "8080"] {
        options.push("--allow".to_owned());
        options.push(format!("{HOST}:{port}"));
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Arena::new(stage.product()?, &options)
}

/// Get and put, and a download by curl that the peer can do as well.
pub fn bulk(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let arena = arena(stage)?;
    let peer = Peer::find(stage)?;
    let text = size.bytes.to_string();
    let (mut get, mut put, mut direct_get, mut direct_put) = (vec![], vec![], vec![], vec![]);
    let (mut curl, mut direct_curl, mut peer_curl) = (vec![], vec![], vec![]);
    let ours = ["foreman-shim", "fm-attack", "curl"];
    for _ in 0..size.rounds {
        for (port, way, caged, direct) in [
            ("7019", "get", &mut get, &mut direct_get),
            ("7009", "put", &mut put, &mut direct_put),
        ] {
            let attack = ["transfer", HOST, port, way, &text];
            direct.push(measured(&[], size.bytes, || {
                arena.control(&attack).map(Some)
            })?);
            caged.push(measured(&ours, size.bytes, || {
                let saw = arena.start_attack(&attack)?.wait(PATIENCE * 3)?.json()?;
                ensure!(saw["ok"] == true, "{saw}");
                Ok(Some(saw))
            })?);
        }
        let url = format!("http://{HOST}:8080/bytes/{}", size.bytes / 4);
        let fetch = [
            "curl",
            "-sS",
            "-o",
            "/dev/null",
            "-w",
            "{\"micros\":%{time_total}}",
            url.as_str(),
        ];
        direct_curl.push(measured(&[], size.bytes / 4, || {
            let out = arena.product().program("curl").args(&fetch[1..]).output()?;
            in_micros(&String::from_utf8_lossy(&out.stdout))
        })?);
        curl.push(measured(&ours, size.bytes / 4, || {
            in_micros(&arena.start(&fetch)?.wait(PATIENCE * 3)?.stdout)
        })?);
        if let Ok(peer) = &peer {
            peer_curl.push(peer.fetch(stage, &fetch, size.bytes / 4)?);
        }
    }
    arena.finish()?;
    let gib = size.bytes as f64 / f64::from(1 << 30);
    let mut rows = Vec::new();
    for (way, caged, direct) in [
        ("from the cage's view: get", &get, &direct_get),
        ("put", &put, &direct_put),
    ] {
        let (inside, outside) = (speed(caged), speed(direct));
        rows.push(Row::plain(
            format!("direct, {way}"),
            format!("{outside:.0} MiB/s, {:.2} CPU s/GiB", cpu(direct) / gib),
        ));
        rows.push(Row::plain(
            format!("cage, {way}"),
            format!("{inside:.0} MiB/s, {:.2} CPU s/GiB", cpu(caged) / gib),
        ));
        rows.push(Row::at_least(
            format!("cage against direct, {way}"),
            inside / outside,
            0.8,
            "times",
        ));
    }
    let (inside, outside) = (speed(&curl), speed(&direct_curl));
    rows.push(Row::plain(
        "curl: direct / cage",
        format!("{outside:.0} / {inside:.0} MiB/s"),
    ));
    match peer {
        Ok(_) => {
            let other = speed(&peer_curl);
            let price = cpu(&peer_curl) / (gib / 4.0);
            rows.push(Row::plain(
                "curl: sandbox-runtime",
                format!("{other:.0} MiB/s, {price:.2} CPU s/GiB with its start"),
            ));
            rows.push(Row::at_least(
                "curl: cage against sandbox-runtime",
                inside / other,
                5.0,
                "times",
            ));
        }
        Err(why) => rows.push(Row::absent("sandbox-runtime", format!("{why:#}"))),
    }
    Ok(rows)
}

/// curl's seconds as micro-seconds.
pub fn in_micros(out: &str) -> Result<Option<Value>> {
    let value: Value =
        serde_json::from_str(out.trim()).with_context(|| format!("curl said {out:?}"))?;
    let seconds = value["micros"].as_f64().context("a time")?;
    Ok(Some(json!({"micros": seconds * 1e6})))
}

fn speed(samples: &[Sample]) -> f64 {
    median(
        &mut samples
            .iter()
            .map(|sample| sample.mib_per_second)
            .collect::<Vec<_>>(),
    )
}

fn cpu(samples: &[Sample]) -> f64 {
    median(
        &mut samples
            .iter()
            .map(|sample| sample.cpu_seconds)
            .collect::<Vec<_>>(),
    )
}

/// Processor time of all ended children, in seconds.
pub fn children_cpu() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |usage| {
        (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6
    })
}

/// What a connect costs more in the cage.
pub fn latency(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let arena = arena(stage)?;
    let count = size.connects.to_string();
    let attack = ["latency", HOST, "7007", &count];
    let direct_attack = ["latency", MAIN_V4, "7007", &count];
    let (mut caged, mut direct) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        let saw = arena.control(&direct_attack)?;
        direct.push(saw["median_micros"].as_f64().context("a median")?);
        let saw = arena.attack(&attack)?;
        caged.push(
            saw["median_micros"]
                .as_f64()
                .with_context(|| saw.to_string())?,
        );
    }
    arena.finish()?;
    let (caged, direct) = (median(&mut caged), median(&mut direct));
    Ok(vec![
        Row::plain("connect, direct, p50 of p50", format!("{direct:.0} µs")),
        Row::plain(
            "connect from the cage, p50 of p50",
            format!("{caged:.0} µs"),
        ),
        Row::at_most(
            "connect latency added by the cage",
            caged - direct,
            200.0,
            "µs",
        ),
    ])
}

/// A tiny fetch by curl, as often as there are rounds and three times that: until it is connected, and
/// until it has the answer. Through a proxy the first is the way to the proxy only.
pub fn fetches(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let arena = arena(stage)?;
    let peer = Peer::find(stage)?;
    let url = format!("http://{HOST}:8080/");
    let form = "{\"connect\":%{time_connect},\"total\":%{time_total}}";
    let fetch = ["curl", "-sS", "-o", "/dev/null", "-w", form, url.as_str()];
    let (mut direct, mut caged, mut others) =
        (Times::default(), Times::default(), Times::default());
    for _ in 0..size.rounds * 3 {
        let mut command = arena.product().program("curl");
        let out = command.args(&fetch[1..]).output()?;
        direct.add(&String::from_utf8_lossy(&out.stdout))?;
        caged.add(&arena.start(&fetch)?.wait(PATIENCE)?.stdout)?;
        if let Ok(peer) = &peer {
            peer.run(stage, &fetch, |said| others.add(said))?;
        }
    }
    arena.finish()?;
    let (direct_connect, direct_total) = direct.medians();
    let (connect, total) = caged.medians();
    let mut rows = vec![
        Row::plain(
            "curl, tiny fetch: connected, direct / cage",
            format!("{direct_connect:.2} / {connect:.2} ms"),
        ),
        Row::plain(
            "curl, tiny fetch: answered, direct / cage",
            format!("{direct_total:.2} / {total:.2} ms"),
        ),
    ];
    match peer {
        Ok(_) => {
            let (other_connect, other_total) = others.medians();
            rows.push(Row::plain(
                "curl, tiny fetch: sandbox-runtime, connected (to its proxy) / answered",
                format!("{other_connect:.2} / {other_total:.2} ms"),
            ));
            rows.push(Row::plain(
                "curl, tiny fetch: answered, cage against sandbox-runtime",
                format!("{:.2} times as long", total / other_total),
            ));
        }
        Err(why) => rows.push(Row::absent(
            "curl, tiny fetch: sandbox-runtime",
            format!("{why:#}"),
        )),
    }
    Ok(rows)
}

/// Milliseconds until curl was connected and until it had the answer.
#[derive(Default)]
struct Times(Vec<f64>, Vec<f64>);

impl Times {
    fn add(&mut self, said: &str) -> Result<()> {
        let value: Value =
            serde_json::from_str(said.trim()).with_context(|| format!("curl said {said:?}"))?;
        let of = |key: &str| value[key].as_f64().filter(|seconds| *seconds > 0.0);
        let connect = of("connect").context("not connected")?;
        let total = of("total").context("not answered")?;
        self.0.push(connect * 1e3);
        self.1.push(total * 1e3);
        Ok(())
    }

    fn medians(mut self) -> (f64, f64) {
        (median(&mut self.0), median(&mut self.1))
    }
}
