//! A key as a run is given it: which secret, and to which host it is sent. No value is ever here.

use crate::error::Fault;
use crate::host::canonical_host;
use crate::secret::is_secret_name;
use crate::subject_floor;
use foreman_domain::{Host, Protocol, Subject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

const LONGEST_PATH: usize = 200;
/// Where HTTPS is, unless it is said.
const HTTPS: u16 = 443;

/// A secret that is added to what an agent asks of its model's host, outside of its cage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct KeyUse {
    /// Its name in the store.
    pub name: String,
    /// Where the model is; the agent's usual place when absent.
    #[serde(default)]
    pub to: Option<KeyPlace>,
}

/// Where a key is sent: over TLS, to this host only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct KeyPlace {
    /// The host, canonical.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What the agent puts before its own paths; empty, or with a slash before it and none behind.
    #[serde(default)]
    pub path: String,
}

/// `NAME`, or `NAME=HOST[:PORT][/PATH]`.
impl fmt::Display for KeyUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)?;
        let Some(place) = &self.to else {
            return Ok(());
        };
        write!(out, "={}", place.host)?;
        if place.port != HTTPS {
            write!(out, ":{}", place.port)?;
        }
        out.write_str(&place.path)
    }
}

/// Reads `NAME` or `NAME=HOST[:PORT][/PATH]`.
///
/// # Errors
/// A sentence for what can be neither. What was given is not repeated: it may be a value.
pub fn parse_key_use(text: &str) -> Result<KeyUse, crate::PolicyError> {
    key_use(text).map_err(|fault| fault.in_argument("--key"))
}

fn key_use(text: &str) -> Result<KeyUse, Fault> {
    let (name, place) = match text.split_once('=') {
        Some((name, place)) => (name, Some(place)),
        None => (text, None),
    };
    let unfit = || {
        Fault::new("a key is named as NAME, or as NAME=HOST[:PORT][/PATH]; this is neither").hint(
            "NAME is that of a secret (`foreman secret set NAME`), HOST is where the agent's model is, for example \
             openrouter.ai/api/v1. The value is never given here.",
        )
    };
    if !is_secret_name(name) {
        return Err(unfit());
    }
    let to = place.map(|place| read_place(place).ok_or_else(unfit));
    let to = to.transpose()?;
    if let Some(place) = &to {
        let subject = Subject::Egress {
            protocol: Protocol::Tcp,
            host: Host::Name(place.host.clone()),
            port: place.port,
            resolved: None,
        };
        if let Some(why) = subject_floor(&subject) {
            return Err(Fault::new(format!("the key cannot be sent there: {why}")));
        }
    }
    Ok(KeyUse {
        name: name.to_owned(),
        to,
    })
}

fn read_place(text: &str) -> Option<KeyPlace> {
    let (place, path) = match text.find('/') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let (host, port) = match place.split_once(':') {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port != 0)?),
        None => (place, HTTPS),
    };
    // With a dot: this machine has none, and hardly any key has one.
    let host = match canonical_host(host).ok()? {
        Host::Name(name) if name.contains('.') => name,
        Host::Name(_) | Host::Address(_) => return None,
    };
    let path = path.trim_end_matches('/');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let parts = path.split('/').skip(1);
    let leads_down = parts.clone().all(|part| !matches!(part, "" | "." | ".."));
    let fits = path.len() <= LONGEST_PATH && path.bytes().all(is_plain) && leads_down;
    fits.then(|| KeyPlace {
        host,
        port,
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_named_with_or_without_its_host() {
        let read = |text: &str| parse_key_use(text).map(|read| read.to_string());
        for text in [
            "API_KEY",
            "API_KEY=model.example",
            "A=model.example:8443/api/v1",
        ] {
            assert_eq!(read(text).unwrap(), text);
        }
        assert_eq!(
            read("A=Model.Example:443/v1/").unwrap(),
            "A=model.example/v1"
        );
        for wrong in [
            "",
            "A B",
            "A=",
            "=model.example",
            "A=host",
            "A=127.0.0.1",
            "A=[::1]",
            "A=localhost",
            "A=a.localhost",
            "A=metadata.google.internal",
            "A=model.example:0",
            "A=model.example:53",
            "A=model.example:x",
            "A=model.example/../x",
            "A=model.example//x",
            "A=model.example/a b",
            "A=model.example/a?b",
            "A=https://model.example",
            "A=user@model.example",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_value_that_was_typed_by_mistake_is_not_repeated() {
        let refused = parse_key_use("API_KEY=sk-live-12345678").unwrap_err();
        let text = format!("{refused} {:?}", refused.hint);
        assert!(!text.contains("sk-live"), "{text}");
    }
}
