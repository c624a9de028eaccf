//! The operator's proxies: which destination goes through which, and how a proxy is asked.
//!
//! A setting that is not understood is not skipped: whatever it would apply to is refused, because
//! going around an operator's proxy can be worse than not going at all. Credentials never appear in
//! a message.

mod handshake;

pub(crate) use handshake::open;

use super::ProxyConfig;
use foreman_domain::Host;
use ipnet::IpNet;
use std::net::IpAddr;

/// The operator's proxies, understood.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    https: Option<Setting>,
    all: Option<Setting>,
    exceptions: Vec<Exception>,
}

/// How a destination is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// By ourselves.
    Direct,
    /// Through this proxy.
    Proxy(Endpoint),
    /// Not at all: a setting that applies is not understood. Why, as a sentence.
    Broken(String),
}

/// One setting: a proxy, or why it is none.
type Setting = Result<Endpoint, String>;

/// A proxy.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// What it speaks.
    pub speaks: Speaks,
    /// Where it is; resolved by the system, and trusted as the operator's own choice.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// User and password.
    pub credentials: Option<(String, String)>,
}

/// What a proxy speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// HTTP with CONNECT.
    Http,
    /// SOCKS version 5.
    Socks5,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Endpoint({self})")
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

impl Proxies {
    /// Understands the settings. Empty ones count as absent, as usual.
    pub fn new(config: &ProxyConfig) -> Self {
        let setting = |name: &str, text: &Option<String>| {
            let text = text
                .as_deref()
                .map(str::trim)
                .filter(|text| !text.is_empty())?;
            Some(parse(text).map_err(|what| {
                format!("the operator's {name} setting {what}; correct it, or unset it")
            }))
        };
        Self {
            https: setting("https_proxy", &config.https),
            all: setting("all_proxy", &config.all),
            exceptions: config
                .no_proxy
                .as_deref()
                .map(exceptions)
                .unwrap_or_default(),
        }
    }

    /// How a destination is reached. A proxy for HTTPS is asked first for port 443 only: many refuse
    /// to connect to anything else.
    pub fn way(&self, host: &Host, port: u16) -> Way {
        if self
            .exceptions
            .iter()
            .any(|exception| exception.covers(host, port))
        {
            return Way::Direct;
        }
        let (first, second) = if port == 443 {
            (&self.https, &self.all)
        } else {
            (&self.all, &self.https)
        };
        match first.as_ref().or(second.as_ref()) {
            None => Way::Direct,
            Some(Ok(endpoint)) => Way::Proxy(endpoint.clone()),
            Some(Err(why)) => Way::Broken(why.clone()),
        }
    }
}

fn parse(text: &str) -> Setting {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let (speaks, usual_port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (Speaks::Http, 80),
        "socks5" | "socks5h" => (Speaks::Socks5, 1080),
        "https" => {
            return Err(
                "is an https:// proxy, and only http:// and socks5:// are supported".into(),
            );
        }
        _ => return Err("is neither an http:// nor a socks5:// proxy".into()),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, authority),
    };
    let credentials = user.map(|user| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        (percent_decoded(name), percent_decoded(password))
    });
    let (host, port) = host_and_port(place).ok_or("does not name a host and a port")?;
    let bad = |c: char| !c.is_ascii_graphic();
    if host.is_empty() || host.chars().any(bad) {
        return Err("does not name a host".into());
    }
    let too_long = |text: &String| text.len() > 255;
    if credentials
        .as_ref()
        .is_some_and(|(name, password)| too_long(name) || too_long(password))
    {
        return Err("has a user name or password that is too long".into());
    }
    Ok(Endpoint {
        speaks,
        host: host.to_owned(),
        port: port.unwrap_or(usual_port),
        credentials,
    })
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`.
fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => match text.find(':') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        },
    };
    match rest.strip_prefix(':') {
        Some("") | None if rest.len() <= 1 => Some((host, None)),
        Some(port) => Some((host, Some(port.parse().ok()?))),
        None => None,
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after
            .get(..2)
            .and_then(|pair| std::str::from_utf8(pair).ok());
        let decoded = digits.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (byte, decoded) {
            (b'%', Some(decoded)) => {
                bytes.push(decoded);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A destination that is dialled directly.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Exception {
    place: Place,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Everywhere,
    Range(IpNet),
    /// The name itself and all names under it.
    Suffix(String),
}

impl Exception {
    fn covers(&self, host: &Host, port: u16) -> bool {
        if self.port.is_some_and(|only| only != port) {
            return false;
        }
        match (&self.place, host) {
            (Place::Everywhere, _) => true,
            (Place::Range(range), Host::Address(address)) => range.contains(address),
            (Place::Suffix(suffix), Host::Name(name)) => name
                .strip_suffix(suffix.as_str())
                .is_some_and(|head| head.is_empty() || head.ends_with('.')),
            (Place::Range(_), Host::Name(_)) | (Place::Suffix(_), Host::Address(_)) => false,
        }
    }
}

fn exceptions(text: &str) -> Vec<Exception> {
    text.split(|c: char| c == ',' || c.is_whitespace())
        .filter_map(exception)
        .collect()
}

fn exception(text: &str) -> Option<Exception> {
    if text.is_empty() {
        return None;
    }
    if text == "*" {
        return Some(Exception {
            place: Place::Everywhere,
            port: None,
        });
    }
    if let Some(range) = range(text) {
        return Some(Exception {
            place: Place::Range(range),
            port: None,
        });
    }
    let (host, port) = host_and_port(text)?;
    if let Some(range) = range(host) {
        return Some(Exception {
            place: Place::Range(range),
            port,
        });
    }
    let suffix = host
        .trim_start_matches('*')
        .trim_start_matches('.')
        .trim_end_matches('.');
    let place = Place::Suffix(suffix.to_ascii_lowercase());
    (!suffix.is_empty()).then_some(Exception { place, port })
}

fn range(text: &str) -> Option<IpNet> {
    let alone = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(alone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn proxies(https: &str, all: &str, no_proxy: &str) -> Proxies {
        Proxies::new(&ProxyConfig {
            https: Some(https.into()),
            all: Some(all.into()),
            no_proxy: Some(no_proxy.into()),
        })
    }

    fn name(text: &str) -> Host {
        Host::Name(text.into())
    }

    #[test]
    fn each_form_of_a_proxy_is_understood() {
        let parsed = parse("http://us%40er:p%3Aw@proxy.example:3128/").unwrap();
        assert_eq!(parsed.to_string(), "proxy.example:3128");
        assert_eq!(parsed.credentials, Some(("us@er".into(), "p:w".into())));
        let parsed = parse("socks5h://[2001:db8::1]").unwrap();
        assert_eq!(
            (parsed.speaks, parsed.to_string()),
            (Speaks::Socks5, "[2001:db8::1]:1080".into())
        );
        assert_eq!(parse("proxy.example").unwrap().port, 80);
        for bad in [
            "https://proxy.example",
            "ftp://a",
            "http://",
            "http://a:b:c",
            "http://a:99999",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_setting_that_is_not_understood_closes_what_it_applies_to() {
        let proxies = proxies("https://user:secret@proxy.example", "", "direct.example");
        let Way::Broken(why) = proxies.way(&name("a.example"), 443) else {
            panic!()
        };
        assert!(!why.contains("secret"));
        assert_eq!(proxies.way(&name("direct.example"), 443), Way::Direct);
    }

    #[test]
    fn exceptions_cover_names_under_them_ranges_and_ports() {
        let list = ".corp.example, 10.0.0.0/8 ,host.example:8080 *.wild.example";
        let proxies = proxies("http://proxy.example:3128", "", list);
        let direct = |host: Host, port| proxies.way(&host, port) == Way::Direct;
        assert!(direct(name("corp.example"), 443) && direct(name("a.b.corp.example"), 443));
        assert!(!direct(name("notcorp.example"), 443));
        assert!(direct(Host::Address("10.1.2.3".parse().unwrap()), 5432));
        assert!(direct(name("host.example"), 8080) && !direct(name("host.example"), 443));
        assert!(direct(name("a.wild.example"), 22));
    }

    #[test]
    fn the_proxy_for_https_is_first_for_its_port_only() {
        let proxies = proxies("http://one.example", "socks5://two.example", "");
        let host = |port| match proxies.way(&name("a.example"), port) {
            Way::Proxy(endpoint) => endpoint.host,
            way => panic!("{way:?}"),
        };
        assert_eq!(
            (host(443).as_str(), host(22).as_str()),
            ("one.example", "two.example")
        );
        assert_eq!(Proxies::default().way(&name("a.example"), 443), Way::Direct);
    }

    proptest! {
        #[test]
        fn any_setting_can_be_read(text: String, host: String) {
            let _ = parse(&text);
            for exception in exceptions(&text) {
                let _ = exception.covers(&Host::Name(host.clone()), 1);
            }
        }
    }
}
