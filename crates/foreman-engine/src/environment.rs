//! The environment of a run's steps: an allow-list, never the operator's whole environment.
//!
//! What enters: where programs are, who and where home is, language and time zone, the terminal's
//! kind, and what the caller named. What never does: proxy variables (the gateway dials through the
//! operator's proxy by itself), and anything of sockets, agents, tokens.

use foreman_domain::{Code, Failure, sanitize_line};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Taken from the operator's environment as they are.
const FROM_OPERATOR: &[&str] = &["SHELL", "LANG", "TZ", "COLORTERM"];
/// Most variables that a caller may add, and their longest name and value.
const MOST: usize = 256;
const LONGEST: usize = 128 << 10;
/// A home for accounts without one.
const NO_HOME: &str = "/home/agent";

/// Who the steps are, and where home is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub home: PathBuf,
    pub user: String,
}

impl Account {
    /// The account of this process.
    pub fn of_this_process(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let entry = nix::unistd::User::from_uid(nix::unistd::geteuid())
            .ok()
            .flatten();
        let given = variable("HOME")
            .map(PathBuf::from)
            .filter(|home| is_plain_home(home));
        let registered = entry.as_ref().map(|entry| entry.dir.clone());
        let home = given.or(registered.filter(|home| is_plain_home(home)));
        let user = entry
            .map(|entry| entry.name)
            .filter(|name| !name.is_empty());
        Self {
            home: home.unwrap_or_else(|| PathBuf::from(NO_HOME)),
            user: user.unwrap_or_else(|| "agent".to_owned()),
        }
    }
}

/// A private directory is put there, so it must not be a place that the system needs.
fn is_plain_home(home: &Path) -> bool {
    let mut parts = home.components();
    let plain = home.is_absolute()
        && home
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let system = [
        "/proc", "/sys", "/dev", "/etc", "/run", "/usr", "/bin", "/sbin", "/lib", "/nix",
    ];
    parts.next();
    plain
        && parts.next().is_some()
        && !system.iter().any(|place| home.starts_with(place))
        && home.as_os_str().to_str().is_some()
}

/// The whole environment of every step; `path` is where programs are looked up.
pub(crate) fn of_steps(
    account: &Account,
    path: &str,
    variable: impl Fn(&str) -> Option<OsString>,
    operator: impl Iterator<Item = (OsString, OsString)>,
    has_terminal: bool,
    asked: &[(String, String)],
    git: &[(String, String)],
) -> Result<Vec<(String, String)>, Failure> {
    let mut env = Vec::new();
    put(&mut env, "PATH", path);
    put(&mut env, "HOME", &account.home.to_string_lossy());
    put(&mut env, "USER", &account.user);
    put(&mut env, "LOGNAME", &account.user);
    let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
    for name in FROM_OPERATOR {
        if let Some(value) = text(name) {
            put(&mut env, name, &value);
        }
    }
    for (name, value) in operator {
        let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else {
            continue;
        };
        if name.starts_with("LC_") && is_name(&name) {
            put(&mut env, &name, &value);
        }
    }
    let kind = if has_terminal {
        text("TERM").unwrap_or_else(|| "xterm-256color".into())
    } else {
        "dumb".into()
    };
    put(&mut env, "TERM", &kind);
    for (name, value) in git {
        put(&mut env, name, value);
    }
    check_asked(asked)?;
    for (name, value) in asked {
        match name.as_str() {
            "PATH" => put(&mut env, name, &format!("/run/foreman/bin:{value}")),
            name => put(&mut env, name, value),
        }
    }
    Ok(env)
}

/// Refuses variables that no step may be given.
pub(crate) fn check_asked(asked: &[(String, String)]) -> Result<(), Failure> {
    if asked.len() > MOST {
        return Err(Failure::new(
            Code::BadInput,
            format!("at most {MOST} variables can be given"),
        ));
    }
    asked
        .iter()
        .try_for_each(|(name, value)| check(name, value))
}

/// Sets a variable; the last one counts.
fn put(env: &mut Vec<(String, String)>, name: &str, value: &str) {
    env.retain(|(known, _)| known != name);
    env.push((name.to_owned(), value.to_owned()));
}

fn check(name: &str, value: &str) -> Result<(), Failure> {
    let refuse = |why: &str, hint: &str| {
        let name: String = name.chars().take(40).collect();
        let message = format!("the variable \"{}\" {why}", sanitize_line(&name));
        Err(Failure::new(Code::BadInput, message).hint(hint))
    };
    if !is_name(name) {
        return refuse(
            "has a name that no variable can have",
            "A name has letters, digits and underscores, and does not begin with a digit.",
        );
    }
    if value.contains('\0') || name.len() + value.len() > LONGEST {
        return refuse(
            "has a value that no program can be given",
            "At most 128 KiB fit, without NUL bytes; put more into a file of the repository.",
        );
    }
    if is_proxy(name) {
        return refuse(
            "would send the agent past the gateway",
            "Leave it out: the gateway uses your own proxy settings by itself.",
        );
    }
    if name == "HOME" {
        return refuse("is the cage's own", "Leave it out.");
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `http_proxy`, `ALL_PROXY`, `no_proxy` and their like.
fn is_proxy(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with("_proxy")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account {
            home: "/home/op".into(),
            user: "op".into(),
        }
    }

    fn built(
        operator: &[(&str, &str)],
        asked: &[(&str, &str)],
    ) -> Result<Vec<(String, String)>, Failure> {
        let own = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
        let asked: Vec<_> = asked.iter().map(own).collect();
        let all: Vec<(OsString, OsString)> = operator
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let lookup = |name: &str| {
            operator
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        of_steps(
            &account(),
            "/usr/bin",
            lookup,
            all.into_iter(),
            false,
            &asked,
            &[],
        )
    }

    #[test]
    fn only_the_allow_list_of_the_operators_environment_enters() {
        let env = built(
            &[
                ("LANG", "C.UTF-8"),
                ("LC_TIME", "de_DE.UTF-8"),
                ("SSH_AUTH_SOCK", "/run/agent"),
                ("AWS_SECRET_ACCESS_KEY", "x"),
                ("https_proxy", "http://proxy.example:3128"),
                ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x"),
            ],
            &[],
        )
        .unwrap();
        let names: Vec<_> = env.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_TIME", "TERM"]
        );
    }

    #[test]
    fn what_the_caller_names_enters_and_our_programs_stay_first() {
        let env = built(&[], &[("CI", "1"), ("PATH", "/opt/bin")]).unwrap();
        assert!(env.contains(&("CI".into(), "1".into())));
        assert!(env.contains(&("PATH".into(), "/run/foreman/bin:/opt/bin".into())));
        assert_eq!(env.iter().filter(|(name, _)| name == "PATH").count(), 1);
    }

    #[test]
    fn proxy_variables_and_names_that_are_none_are_refused() {
        for name in [
            "HTTPS_PROXY",
            "all_proxy",
            "No_Proxy",
            "",
            "A=B",
            "1A",
            "A\nB",
            "HOME",
        ] {
            assert!(built(&[], &[(name, "x")]).is_err(), "{name:?}");
        }
        assert!(built(&[], &[("A", "nul\0")]).is_err());
    }

    #[test]
    fn a_home_that_the_system_needs_is_never_covered() {
        for home in [
            "/",
            "",
            "relative",
            "/usr/share",
            "/proc/self",
            "/home/../etc",
        ] {
            let account = Account::of_this_process(|_| Some(OsString::from(home)));
            assert_ne!(account.home, PathBuf::from(home), "{home}");
        }
    }
}
