//! The rules that would unblock a block, narrowest first: what a card offers.
//!
//! Every offer opens the block's subject and says in words what else it opens and for how long. What is
//! on the floor gets no offer. The engine fills in the rule's origin when an offer is taken.

mod bounds;
mod files;
mod questions;
mod sockets;

use crate::address::{AddressClass, classify};
use crate::floor::subject_floor;
use crate::host::is_shared_suffix;
use crate::judge::{shown, unresolved};
use crate::own_machine::{is_this_machine, port_gives_away};
use crate::quantity::counted;
use crate::{EgressRule, HostPattern, Layer, Origin, Rule, RuleId, Use};
use foreman_domain::{Block, FileAccess, Host, Protocol, Scope, Subject};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

/// Subjects of the past that are named.
const NAMED: usize = 10;

/// A rule that would unblock a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// How far it reaches.
    pub scope: Scope,
    /// What it opens and for how long: "Let this run connect to a.example:443 until it ends".
    pub words: String,
    /// The rule; its origin is a placeholder.
    pub rule: Rule,
    /// Different past subjects beside the block's own that it would also have allowed.
    pub also_opens: u32,
    /// True for wildcards, bare addresses, wide folders and whole-project scope.
    pub needs_confirmation: bool,
    /// What it opens beside what is held, in words.
    pub opens: Vec<String>,
}

/// What was found of a path that a rule could open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ground {
    /// No rule can open it, because it is this: "a store of credentials".
    Closed(String),
    /// A rule can open it.
    Open {
        /// A socket in it, through which whoever listens there could be talked to.
        socket: Option<String>,
        /// Whether it is too large to have been looked through for sockets and git directories.
        large: bool,
    },
}

/// Rules that would unblock `block`, narrowest first: once (while something waits), this run, this work
/// order, this project; then, where the name has three labels or more, its siblings for this run. For
/// files: once (what is the opening of a file), the file where it is there, its folder.
///
/// `past` are the subjects that were held or refused in this run before. `look` says what is at a path; it
/// is asked for blocks of files only, about the file and its folder.
#[must_use]
pub fn offers(
    block: &Block,
    past: &[Subject],
    look: &dyn Fn(&Path, FileAccess) -> Ground,
) -> Vec<Offer> {
    let subject = &block.subject;
    if subject_floor(subject).is_some() {
        return Vec::new();
    }
    match subject {
        Subject::Egress {
            protocol,
            host,
            port,
            resolved,
        } => {
            let destination = Destination {
                subject,
                protocol: *protocol,
                host,
                port: *port,
                resolved: *resolved,
            };
            of_egress(block, &destination, past)
        }
        Subject::File { access, path } => files::offers(block, *access, path, past, look),
        Subject::Socket { path } => sockets::offers(block, path, past),
        Subject::Bound { bound } => bounds::offers(block, *bound),
        Subject::Question {
            agent,
            tool,
            arguments,
        } => questions::offers(block, agent, tool, arguments),
    }
}

/// Where a connection wants to.
struct Destination<'a> {
    subject: &'a Subject,
    protocol: Protocol,
    host: &'a Host,
    port: u16,
    /// An address of the name that needs a rule of its own.
    resolved: Option<IpAddr>,
}

fn of_egress(block: &Block, destination: &Destination<'_>, past: &[Subject]) -> Vec<Offer> {
    let Destination {
        subject,
        protocol,
        host,
        port,
        resolved,
    } = destination;
    let to = place_words(destination);
    let verb = match protocol {
        Protocol::Tcp => "connect to",
        Protocol::Udp => "send UDP to",
    };
    let exact = HostPattern::exactly(host);
    let gives_away = is_this_machine(host).then(|| match port_gives_away(*port) {
        Some(what) => what.to_owned(),
        None => format!(
            "whatever the program that listens on port {port} of this machine does for those that come \
             from the machine itself"
        ),
    });
    let is_way_out = is_this_machine(host) && port_gives_away(*port).is_some();
    let asks_again = is_way_out || matches!(host, Host::Address(_));
    let mut offers = Vec::new();
    if block.waiting > 0 {
        let mut rule = rule_for(destination, exact.clone(), Layer::Amendment);
        rule.applies = Use::Holds {
            subject: (*subject).clone(),
            through: block.last_hold,
        };
        let words = format!(
            "Let {} to {to} go on, once",
            waiting_words(block, *protocol)
        );
        offers.push(Offer {
            scope: Scope::Once,
            words,
            rule: Rule::Egress(rule),
            also_opens: 0,
            needs_confirmation: asks_again,
            opens: gives_away.iter().cloned().collect(),
        });
    }
    let lasting = [
        (
            Scope::Run,
            Layer::Amendment,
            format!("Let this run {verb} {to} until it ends"),
        ),
        (
            Scope::Order,
            Layer::Order,
            format!("Let every run of this work order {verb} {to}"),
        ),
        (
            Scope::Project,
            Layer::Project,
            format!("Let every run in this project {verb} {to}"),
        ),
    ];
    for (scope, layer, words) in lasting {
        let rule = Rule::Egress(rule_for(destination, exact.clone(), layer));
        let (also_opens, also) = also_opens(&rule, subject, past);
        let mut opens: Vec<String> = gives_away.iter().cloned().chain(also).collect();
        opens.extend(elsewhere(scope));
        offers.push(Offer {
            scope,
            words,
            also_opens,
            opens,
            rule,
            needs_confirmation: asks_again || scope == Scope::Project,
        });
    }
    // A private address that was found for one name is no reason to open it to others.
    if let Some(suffix) = sibling_suffix(host)
        && resolved.is_none()
    {
        let words = format!(
            "Let this run {verb} any name directly under {suffix}, port {port} (*.{suffix}:{port}), \
             until it ends"
        );
        let rule = Rule::Egress(rule_for(
            destination,
            HostPattern::OneLabelUnder(suffix),
            Layer::Amendment,
        ));
        let (also_opens, mut opens) = also_opens(&rule, subject, past);
        opens.push("every name of that form that it looks up later".to_owned());
        offers.push(Offer {
            scope: Scope::Run,
            words,
            also_opens,
            opens,
            rule,
            needs_confirmation: true,
        });
    }
    offers
}

/// What a scope beyond the run opens beside it.
fn elsewhere(scope: Scope) -> Option<String> {
    match scope {
        Scope::Order => Some("the same in every other run of this work order".to_owned()),
        Scope::Project => Some("the same in every other run in this project".to_owned()),
        Scope::Once | Scope::Run => None,
    }
}

fn origin(layer: Layer) -> Origin {
    Origin {
        id: RuleId("offer".into()),
        layer,
        source: "amended by you".into(),
        amendment: None,
        reason: None,
    }
}

fn rule_for(destination: &Destination<'_>, host: HostPattern, layer: Layer) -> EgressRule {
    EgressRule {
        origin: origin(layer),
        protocol: destination.protocol,
        host,
        port: destination.port,
        resolves_to: destination
            .resolved
            .map(|address| IpNet::from(address.to_canonical())),
        applies: Use::Always,
        expires: None,
    }
}

/// `registry.example:443`, with the address where it is a private one.
fn place_words(destination: &Destination<'_>) -> String {
    let plain = Subject::Egress {
        protocol: Protocol::Tcp,
        host: destination.host.clone(),
        port: destination.port,
        resolved: None,
    };
    let place = shown(&plain);
    match (destination.resolved, destination.host) {
        _ if is_this_machine(destination.host) => format!("{place} (this machine's own loopback)"),
        (Some(address), _) => format!("{place} at {address} (a private address)"),
        (None, Host::Address(address)) if classify(*address) == AddressClass::Private => {
            format!("{place} (a private address)")
        }
        (None, _) => place,
    }
}

/// "the waiting connection", "the 3 waiting UDP packets".
fn waiting_words(block: &Block, protocol: Protocol) -> String {
    let what = match protocol {
        Protocol::Tcp => "waiting connection",
        Protocol::Udp => "waiting UDP packet",
    };
    match block.waiting {
        1 => format!("the {what}"),
        count => format!("the {}", counted(u64::from(count), what)),
    }
}

/// What a name of three labels or more has after its first one, where that is one owner's.
fn sibling_suffix(host: &Host) -> Option<String> {
    let Host::Name(name) = host else { return None };
    let (_, suffix) = name.split_once('.')?;
    (suffix.contains('.') && !is_shared_suffix(suffix)).then(|| suffix.to_owned())
}

/// How many other subjects of the past a rule covers, and the first of them in words.
fn also_opens(rule: &Rule, own: &Subject, past: &[Subject]) -> (u32, Vec<String>) {
    // The same name before it was resolved was allowed already: not news.
    let before = unresolved(own);
    let others: BTreeSet<&Subject> = past
        .iter()
        .filter(|subject| **subject != *own && **subject != before)
        .filter(|subject| rule.covers(subject) && subject_floor(subject).is_none())
        .collect();
    let named = others.iter().take(NAMED);
    let words = named.map(|subject| format!("{} (held or refused before)", shown(subject)));
    (
        u32::try_from(others.len()).unwrap_or(u32::MAX),
        words.collect(),
    )
}

#[cfg(test)]
#[path = "offer/tests.rs"]
mod tests;
