//! `foreman-shim world`: runs a command inside a private world (see [`foreman_cage::world`]).
//! For `foreman demo` and the suites; hidden, because no operator needs it.

use anyhow::{Context, Result, bail};
use clap::Parser;
use foreman_cage::world::{self, WorldSpec};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs a command in namespaces with a network, an internet and a resolver of their own.
#[derive(Debug, Parser)]
#[command(name = "foreman-shim world", no_binary_name = true)]
struct WorldArgs {
    /// Address of the far side, with its prefix length. Can be given several times.
    #[arg(long = "address", value_name = "IP/LEN", value_parser = parse_address)]
    addresses: Vec<(IpAddr, u8)>,
    /// What /etc/resolv.conf names inside.
    #[arg(long, value_name = "IP")]
    resolver: Option<IpAddr>,
    /// Program and arguments of the far side, as a JSON array of strings.
    #[arg(long, value_name = "JSON")]
    serve: Option<String>,
    /// Folder that is empty inside. Can be given several times.
    #[arg(long = "cover", value_name = "DIR")]
    cover: Vec<PathBuf>,
    /// Folder that is seen inside although one above it is covered. Can be given several times.
    #[arg(long = "show", value_name = "DIR")]
    show: Vec<PathBuf>,
    /// Program and arguments of the near side.
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Runs `world` with the arguments behind that word. Must be called while there is one thread.
///
/// # Errors
/// When the arguments do not parse or the world cannot be made.
pub fn run(args: Vec<OsString>) -> Result<ExitCode> {
    let args = WorldArgs::parse_from(args);
    if args.command.is_empty() {
        bail!("name a command behind `--`");
    }
    let serve = match &args.serve {
        Some(json) => serde_json::from_str::<Vec<String>>(json)
            .context("--serve takes a JSON array of strings")?,
        None => Vec::new(),
    };
    let spec = WorldSpec {
        addresses: args.addresses,
        resolver: args.resolver,
        serve: serve.into_iter().map(OsString::from).collect(),
        command: args.command,
        cover: args.cover,
        show: args.show,
    };
    Ok(ExitCode::from(world::enter(&spec)?))
}

fn parse_address(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, prefix) = text
        .split_once('/')
        .ok_or("write IP/LEN, for example 203.0.113.10/32")?;
    let address: IpAddr = address
        .parse()
        .map_err(|_| format!("\"{address}\" is not an address"))?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    match prefix.parse::<u8>() {
        Ok(prefix) if prefix <= longest => Ok((address, prefix)),
        _ => Err(format!(
            "\"{prefix}\" is not a prefix length of 0 to {longest}"
        )),
    }
}
