//! Hosts the engine of a data directory until it is killed: what the engine's tests kill.
//! Arguments: data directory, directory for sockets, supervisor's program; `dispatch` where orders are
//! to be dispatched.

use foreman_engine::{Host, HostOptions};
use std::error::Error;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let mut next = || args.next().ok_or("three arguments are wanted");
    let options = HostOptions {
        data_dir: next()?.into(),
        runtime_dir: Some(next()?.into()),
        shim_program: Some(next()?.into()),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let host = Host::open(options).await?;
        if args.next().is_some_and(|word| word == "dispatch") {
            host.dispatch_orders();
        }
        writeln!(
            std::io::stdout(),
            "{}",
            if host.is_hosting() {
                "hosting"
            } else {
                "joined"
            }
        )?;
        std::future::pending::<Result<(), Box<dyn Error>>>().await
    })
}
