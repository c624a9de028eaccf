//! A ruling in words. Sentences without a final period; texts of rules were made safe when parsed.

use super::unresolved;
use crate::{Denial, EgressRule, Policy, Use};
use foreman_domain::{At, Protocol, Subject};

/// Why no rule allows it: what comes nearest, else that there is none.
pub(super) fn why_not(policy: &Policy, subject: &Subject, now: At) -> String {
    let Subject::Egress {
        protocol,
        host,
        port,
        resolved,
    } = subject;
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

/// `registry.example:443`, `UDP time.example:123`: the protocol only where it is not TCP.
pub(crate) fn shown(subject: &Subject) -> String {
    let text = unresolved(subject).to_string();
    let Subject::Egress { protocol, .. } = subject;
    match protocol {
        Protocol::Tcp => text.replacen("tcp ", "", 1),
        Protocol::Udp => text.replacen("udp ", "UDP ", 1),
    }
}

pub(super) fn allowed(rule: &EgressRule) -> String {
    let mut words = format!(
        "Allowed by the {} rule \"{rule}\" ({})",
        rule.origin.layer, rule.origin.source
    );
    if let Some(end) = rule.expires {
        words.push_str(&format!(" until {end}"));
    }
    if let Some(reason) = rule
        .origin
        .reason
        .as_deref()
        .filter(|reason| !reason.is_empty())
    {
        words.push_str(&format!(": {reason}"));
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
