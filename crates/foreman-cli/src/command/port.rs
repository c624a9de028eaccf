//! `foreman port`: publishes ports of a live run's cage.

use super::{Done, reference};
use crate::answer::Answer;
use crate::args::PortArgs;
use crate::words;
use foreman_domain::ExitCode;
use foreman_engine::api::{Commands, PortOpen, PortRef, PortView};
use foreman_policy::bytes_in_words;

/// Publishes, lists or closes.
pub async fn port(args: PortArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let Some(port) = args.port else {
        let list = engine.port_list(reference(args.run)).await?;
        if answer.is_json() {
            answer.object(&list)?;
            return Ok(ExitCode::Ok);
        }
        if list.ports.is_empty() {
            answer.line("No port of this run is published.")?;
        }
        for port in &list.ports {
            answer.line(&format!("{}  {}", port.url, figures(port)))?;
        }
        return Ok(ExitCode::Ok);
    };
    if args.close {
        let closed = engine
            .port_close(PortRef {
                run: args.run,
                port,
            })
            .await?;
        if answer.is_json() {
            answer.object(&closed)?;
        } else {
            answer.line(&format!(
                "Port {port} is closed; it had {}.",
                traffic(&closed)
            ))?;
        }
        return Ok(ExitCode::Ok);
    }
    let request = PortOpen {
        run: args.run,
        port,
        to: args.to,
        bind: args.bind,
    };
    let opened = engine.port_open(request).await?;
    if answer.is_json() {
        answer.object(&opened)?;
        return Ok(ExitCode::Ok);
    }
    answer.line(&opened.url)?;
    if !opened.listening {
        answer.line(&format!(
            "Nothing listens on port {port} in the run yet; the address works as soon as something does."
        ))?;
    }
    Ok(ExitCode::Ok)
}

fn figures(port: &PortView) -> String {
    let listens = match port.listening {
        true => "",
        false => ", where nothing listens now",
    };
    format!("port {} of the run{listens}; {}", port.port, traffic(port))
}

fn traffic(port: &PortView) -> String {
    let open = match port.open {
        0 => String::new(),
        open => format!(" ({open} open)"),
    };
    format!(
        "{}{open}, {} out, {} in",
        words::count(port.connections, "connection"),
        bytes_in_words(port.sent),
        bytes_in_words(port.received)
    )
}
