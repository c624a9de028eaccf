//! Measurements, against direct connections in the same run. Not a test: `--figures` prints them.

use super::{Case, Run, server};
use crate::cage::Cage;
use crate::servers::{ECHO, SINK, SOURCE};
use crate::table::Rule;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub fn case() -> Case {
    Case::Queue(|cage| Box::pin(measured(cage)))
}

const LENGTH: u64 = 256 << 20;
const ROUNDS: usize = 5;

async fn measured(cage: Cage) {
    let rules = [ECHO, SOURCE, SINK].map(|port| format!("tcp 203.0.113.10:{port}"));
    let rules = rules
        .each_ref()
        .map(|subject| (subject.as_str(), Rule::Allow));
    println!("gate: {}", cage.gate().name());
    let run = Run::start(cage, &rules);
    let mut rows: [Vec<f64>; 8] = Default::default();
    for _ in 0..ROUNDS {
        rows[0].push(get(TcpStream::connect(server(SOURCE)).await.unwrap()).await);
        rows[1].push(get(run.cage.connect(server(SOURCE)).await.unwrap()).await);
        rows[2].push(put(TcpStream::connect(server(SINK)).await.unwrap()).await);
        rows[3].push(put(run.cage.connect(server(SINK)).await.unwrap()).await);
        for _ in 0..100 {
            let start = Instant::now();
            let direct = TcpStream::connect(server(ECHO)).await.unwrap();
            rows[4].push(micros(start.elapsed()));
            rows[6].push(round_trip(direct).await);
            let start = Instant::now();
            let caged = run.cage.connect(server(ECHO)).await.unwrap();
            rows[5].push(micros(start.elapsed()));
            rows[7].push(round_trip(caged).await);
        }
    }
    let names = [
        "get, direct, MiB/s",
        "get, caged, MiB/s",
        "put, direct, MiB/s",
        "put, caged, MiB/s",
        "connect, direct, us",
        "connect, caged, us",
        "round trip, direct, us",
        "round trip, caged, us",
    ];
    for (name, row) in names.iter().zip(&mut rows) {
        row.sort_by(f64::total_cmp);
        println!(
            "{name:24} median {:8.0}  best {:8.0}",
            row[row.len() / 2],
            best(name, row)
        );
    }
    run.stop().await;
}

fn best(name: &str, sorted: &[f64]) -> f64 {
    if name.contains("MiB") {
        sorted[sorted.len() - 1]
    } else {
        sorted[0]
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn rate(start: Instant) -> f64 {
    LENGTH as f64 / (1 << 20) as f64 / start.elapsed().as_secs_f64()
}

async fn get(mut stream: TcpStream) -> f64 {
    stream.write_u64(LENGTH).await.unwrap();
    let start = Instant::now();
    let mut buffer = vec![0; 256 << 10];
    while stream.read(&mut buffer).await.unwrap() > 0 {}
    rate(start)
}

async fn put(mut stream: TcpStream) -> f64 {
    let mut pattern = crate::servers::Pattern::default();
    let start = Instant::now();
    let mut left = LENGTH;
    while left > 0 {
        let piece = pattern.piece(left);
        stream.write_all(piece).await.unwrap();
        left -= piece.len() as u64;
    }
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read_u64().await.unwrap(), LENGTH);
    rate(start)
}

async fn round_trip(mut stream: TcpStream) -> f64 {
    let start = Instant::now();
    stream.write_all(b"x").await.unwrap();
    stream.read_u8().await.unwrap();
    micros(start.elapsed())
}
