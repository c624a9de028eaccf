//! A ruling in words. Sentences without a final period; texts of rules were made safe when parsed.

use super::unresolved;
use crate::{Denial, EgressRule, HostPattern, Origin, Policy, THIS_MACHINE, Use};
use foreman_domain::{At, FileAccess, PathText, Protocol, Subject};
use std::fmt;

/// Why no rule allows it: what comes nearest, else that there is none.
pub(super) fn why_not(policy: &Policy, subject: &Subject, now: At) -> String {
    let (protocol, host, port, resolved) = match subject {
        Subject::Egress {
            protocol,
            host,
            port,
            resolved,
        } => (protocol, host, port, resolved),
        Subject::File { .. } => return why_no_path(policy, subject, now),
        Subject::Socket { .. } => return why_no_socket(policy, subject, now),
        Subject::Bound { bound } => return format!("The bound of {bound} is reached"),
        Subject::Question { agent, .. } => {
            return format!(
                "{agent} asks before it does this, by its own rules. A yes opens no wall: what no rule of this \
                 run allows is held all the same"
            );
        }
    };
    let about = || policy.egress.iter().filter(|rule| rule.host.matches(host));
    let exact = || about().filter(|rule| rule.protocol == *protocol && rule.port == *port);
    let expired = |rule: &&EgressRule| rule.expires.is_some_and(|end| end <= now);
    if let Some(address) = resolved
        && exact().any(|rule| !expired(&rule))
    {
        return format!(
            "{host} may be reached, but it resolves to {address}, a private address that no rule \
             names"
        );
    }
    if let Some(end) = exact()
        .filter(expired)
        .filter_map(|rule| rule.expires)
        .max()
    {
        return format!("The rule for {} ended at {end}", shown(subject));
    }
    let others: Vec<String> = {
        let mut others: Vec<_> = about()
            .filter(|rule| rule.applies == Use::Always && !expired(rule))
            .filter(|rule| rule.protocol != *protocol || rule.port != *port)
            .map(|rule| (rule.protocol, rule.port))
            .collect();
        others.sort_unstable();
        others.dedup();
        others
            .iter()
            .take(3)
            .map(|(protocol, port)| format!("{protocol} port {port}"))
            .collect()
    };
    if others.is_empty() {
        format!("No rule allows {}", shown(subject))
    } else {
        format!(
            "No rule allows {}; rules for that host open {}",
            shown(subject),
            others.join(", ")
        )
    }
}

fn why_no_path(policy: &Policy, subject: &Subject, now: At) -> String {
    let covering = || policy.paths.iter().filter(|rule| rule.covers(subject));
    let ended = covering().filter(|rule| rule.applies == Use::Always);
    if let Some((rule, end)) = ended
        .filter_map(|rule| Some((rule, rule.expires.filter(|end| *end <= now)?)))
        .max_by_key(|(_, end)| *end)
    {
        let path = PathText::of(&rule.path);
        return format!("The rule for {} {path} ended at {end}", doing(rule.access));
    }
    let as_read = match subject {
        Subject::File {
            access: FileAccess::Write,
            path,
        } => Some(Subject::File {
            access: FileAccess::Read,
            path: path.clone(),
        }),
        Subject::File { .. }
        | Subject::Socket { .. }
        | Subject::Egress { .. }
        | Subject::Bound { .. }
        | Subject::Question { .. } => None,
    };
    let readable = as_read.and_then(|subject| {
        let mut rules = policy.paths.iter().filter(|rule| rule.stands(now));
        rules.find(|rule| rule.covers(&subject))
    });
    match readable {
        None => format!("No rule allows {}", shown(subject)),
        Some(rule) => format!(
            "No rule allows {}; a rule opens {} for reading only",
            shown(subject),
            PathText::of(&rule.path)
        ),
    }
}

fn why_no_socket(policy: &Policy, subject: &Subject, now: At) -> String {
    let covering = policy.sockets.iter().filter(|rule| rule.covers(subject));
    let ended = covering.filter(|rule| rule.applies == Use::Always);
    match ended.filter_map(|rule| rule.expires).max() {
        Some(end) if end <= now => format!("The rule for {} ended at {end}", shown(subject)),
        _ => format!("No rule allows {}", shown(subject)),
    }
}

/// `reading`, `writing`.
pub(crate) fn doing(access: FileAccess) -> &'static str {
    match access {
        FileAccess::Read => "reading",
        FileAccess::Write => "writing",
    }
}

/// `registry.example:443`, `UDP time.example:123`: the protocol only where it is not TCP; `writing /srv/x`.
pub(crate) fn shown(subject: &Subject) -> String {
    let text = unresolved(subject).to_string();
    match subject {
        Subject::Egress {
            protocol: Protocol::Tcp,
            ..
        } => text.replacen("tcp ", "", 1),
        Subject::Egress {
            protocol: Protocol::Udp,
            ..
        } => text.replacen("udp ", "UDP ", 1),
        Subject::File { access, path } => format!("{} {path}", doing(*access)),
        Subject::Socket { path } => format!("connecting to {path}"),
        Subject::Bound { .. } | Subject::Question { .. } => text,
    }
}

pub(super) fn opened(rule: &dyn fmt::Display, origin: &Origin, expires: Option<At>) -> String {
    let mut words = format!(
        "Allowed by the {} rule \"{rule}\" ({})",
        origin.layer, origin.source
    );
    if let Some(end) = expires {
        words.push_str(&format!(" until {end}"));
    }
    let reason = origin.reason.as_deref();
    if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
        words.push_str(&format!(": {reason}"));
    }
    words
}

pub(super) fn allowed(rule: &EgressRule) -> String {
    let mut words = opened(rule, &rule.origin, rule.expires);
    if matches!(&rule.host, HostPattern::Name(name) if name == THIS_MACHINE) {
        words.push_str("; this machine's own loopback");
    }
    words.push_str("; an opaque tunnel: what goes through it is not looked into");
    words
}

pub(super) fn denied(denial: &Denial) -> String {
    let mut words = format!(
        "{} was denied ({})",
        shown(&denial.subject),
        denial.origin.source
    );
    if !denial.reason.is_empty() {
        words.push_str(&format!(": {}", denial.reason));
    }
    words
}
