//! The internet of a world: name servers, web servers, echo, sink and source, over TCP, TLS and UDP,
//! on every address of the far side. Records whatever reaches it, one JSON line each.
//!
//! `serve CONFIG` runs the servers and prints `ready`; `hold` keeps a world up until its standard
//! input ends; `relay SOCKET PORT` passes what comes to a Unix socket on to a port of its own world.
#![forbid(unsafe_code)]

mod config;
mod names;
mod record;
mod relay;
mod secure;
mod stream;
mod web;

use anyhow::{Context, Result, bail};
use config::Config;
use record::Recorder;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use stream::Service;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["hold"] => {
            println!("held");
            let mut rest = Vec::new();
            std::io::stdin().read_to_end(&mut rest)?;
            Ok(())
        }
        ["serve", config] => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?
            .block_on(serve(Config::read(config.as_ref())?)),
        ["relay", socket, port] => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(relay::run(socket.as_ref(), port.parse()?)),
        _ => bail!("usage: fm-test-server serve CONFIG | hold | relay SOCKET PORT"),
    }
}

async fn serve(config: Config) -> Result<()> {
    let recorder = Arc::new(Recorder::open(&config.log)?);
    let shared = Arc::new(stream::Shared {
        secure: secure::acceptor(&config.authority)?,
        site: config.site.clone(),
        names: names::Names::new(config.main.clone()),
        recorder,
    });
    let mut bound = 0;
    for wildcard in [
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    ] {
        for &(port, service) in config::STREAMS {
            match stream::listen(SocketAddr::new(wildcard, port)) {
                Ok(listener) => {
                    bound += 1;
                    tokio::spawn(stream::accept_all(listener, service, shared.clone()));
                }
                Err(error) if wildcard.is_ipv6() => eprintln!("no IPv6 on {port}: {error}"),
                Err(error) => return Err(error).with_context(|| format!("listen on {port}")),
            }
        }
        for &port in config::DATAGRAMS {
            match stream::bind_datagrams(SocketAddr::new(wildcard, port)) {
                Ok(socket) => {
                    bound += 1;
                    tokio::spawn(stream::answer_datagrams(socket, port, shared.clone()));
                }
                Err(error) if wildcard.is_ipv6() => eprintln!("no IPv6 on {port}: {error}"),
                Err(error) => return Err(error).with_context(|| format!("bind {port}")),
            }
        }
    }
    let mut programs = Vec::new();
    for argv in &config.programs {
        let (program, rest) = argv.split_first().context("a program without a name")?;
        programs.push(
            tokio::process::Command::new(program)
                .args(rest)
                .kill_on_drop(true)
                .spawn()
                .with_context(|| format!("start {program}"))?,
        );
    }
    eprintln!("{bound} sockets, {} programs", programs.len());
    println!("ready");
    std::future::pending::<()>().await;
    Ok(())
}

/// A service for a port, by what it does.
pub(crate) const fn is_secure(service: Service) -> bool {
    matches!(service, Service::SecureWeb)
}
