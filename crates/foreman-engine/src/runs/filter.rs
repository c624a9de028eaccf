//! Which events a page lets through.

use crate::api::{EventFilter, Severity};
use foreman_domain::{
    AgentEvent, AgentOutcome, BlockState, ConnectVerdict, Decider, Event, EventKind, RunState,
    StepResult, Subject,
};

/// Kinds that say something about a host.
const ABOUT_HOSTS: [&str; 4] = ["name_looked_up", "egress", "connection_closed", "block"];

/// How much an event asks for attention.
pub(crate) fn severity_of(kind: &EventKind) -> Severity {
    match kind {
        EventKind::Output { .. } => Severity::Output,
        EventKind::Agent { event } => of_agent(event),
        EventKind::Warning { .. } | EventKind::Gap { .. } => Severity::Warning,
        EventKind::Bound { reached: true, .. } => Severity::Error,
        EventKind::Bound { .. } => Severity::Warning,
        EventKind::Probe { holds: false, .. } => Severity::Error,
        EventKind::State { to } => match to {
            RunState::Failed { .. } | RunState::Interrupted { .. } => Severity::Error,
            RunState::Review { .. } => Severity::Decision,
            _ => Severity::Info,
        },
        EventKind::StepEnded { result, .. } => of_result(result),
        EventKind::Egress { verdict, .. } | EventKind::File { verdict, .. } => match verdict {
            ConnectVerdict::Held { .. } => Severity::Decision,
            // It is expected, and nothing is to be done about it.
            ConnectVerdict::Refused {
                by: Decider::Profile,
                ..
            } => Severity::Info,
            ConnectVerdict::Refused { .. } => Severity::Error,
            ConnectVerdict::Unreachable { .. } => Severity::Warning,
            ConnectVerdict::Allowed { .. } => Severity::Info,
        },
        EventKind::Block { block } => match &block.state {
            BlockState::Open | BlockState::Amended { .. } => Severity::Decision,
            BlockState::Denied { by, .. } => match by {
                Decider::Operator => Severity::Decision,
                Decider::Unattended | Decider::Floor | Decider::Limit => Severity::Error,
                Decider::Profile => Severity::Info,
            },
            BlockState::Expired => Severity::Warning,
            BlockState::Gone => Severity::Info,
        },
        EventKind::Amendment { .. } => Severity::Decision,
        EventKind::ConnectionClosed { cut: true, .. } => Severity::Warning,
        EventKind::ConnectionClosed { .. }
        | EventKind::Progress { .. }
        | EventKind::Probe { .. }
        | EventKind::StepStarted { .. }
        | EventKind::ShellOpened { .. }
        | EventKind::ShellEnded { .. }
        | EventKind::PortOpened { .. }
        | EventKind::PortClosed { .. }
        | EventKind::NameLookedUp { .. }
        | EventKind::Exec { .. }
        | EventKind::Exit { .. }
        | EventKind::PolicyApplied { .. }
        | EventKind::Sample { .. }
        | EventKind::Commits { .. } => Severity::Info,
    }
}

fn of_agent(event: &AgentEvent) -> Severity {
    match event {
        AgentEvent::Message { .. } | AgentEvent::Thought { .. } => Severity::Output,
        AgentEvent::Problem { .. } | AgentEvent::ToolEnded { failed: true, .. } => {
            Severity::Warning
        }
        AgentEvent::Retry { .. } | AgentEvent::Limited { .. } | AgentEvent::Unreadable { .. } => {
            Severity::Warning
        }
        AgentEvent::Ended { outcome, .. } => match outcome {
            AgentOutcome::Completed => Severity::Info,
            AgentOutcome::CompletedWithDenials | AgentOutcome::Cancelled => Severity::Warning,
            AgentOutcome::AgentError
            | AgentOutcome::ModelUnreachable
            | AgentOutcome::AuthenticationFailed
            | AgentOutcome::Killed
            | AgentOutcome::Lost => Severity::Error,
        },
        AgentEvent::PermissionAsked { .. } | AgentEvent::PermissionAnswered { .. } => {
            Severity::Decision
        }
        AgentEvent::Session { .. }
        | AgentEvent::ToolStarted { .. }
        | AgentEvent::ToolEnded { .. }
        | AgentEvent::Edit { .. }
        | AgentEvent::Usage { .. }
        | AgentEvent::Told { .. }
        | AgentEvent::Given { .. }
        | AgentEvent::Replayed { .. }
        | AgentEvent::Unknown { .. } => Severity::Info,
    }
}

fn of_result(result: &StepResult) -> Severity {
    match result.is_success() {
        true => Severity::Info,
        false => Severity::Error,
    }
}

/// The kinds that can have a severity.
fn kinds_of(severity: Severity) -> &'static [&'static str] {
    match severity {
        Severity::Output => &["output"],
        Severity::Error => &[
            "bound",
            "probe",
            "state",
            "step_ended",
            "egress",
            "file",
            "block",
        ],
        Severity::Warning => &[
            "warning",
            "gap",
            "bound",
            "egress",
            "file",
            "block",
            "connection_closed",
        ],
        Severity::Decision => &["state", "egress", "file", "block", "amendment"],
        Severity::Info => &[
            "state",
            "step_ended",
            "egress",
            "file",
            "exec",
            "exit",
            "block",
            "connection_closed",
            "progress",
            "probe",
            "step_started",
            "shell_opened",
            "shell_ended",
            "port_opened",
            "port_closed",
            "name_looked_up",
            "policy_applied",
            "sample",
            "commits",
        ],
    }
}

/// True when it lets everything through.
pub(super) fn is_empty(filter: &EventFilter) -> bool {
    *filter == EventFilter::default()
}

/// The kinds that can be let through: all when empty. None at all is one that there is not.
pub(super) fn kinds(asked: &[String], filter: &EventFilter) -> Vec<String> {
    let lists = [asked.to_vec(), filter.kinds.clone()];
    let mut lists: Vec<Vec<String>> = lists.into_iter().filter(|list| !list.is_empty()).collect();
    let owned = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect();
    if !filter.severities.is_empty() {
        let all = filter.severities.iter();
        let kinds: Vec<&str> = all.flat_map(|one| kinds_of(*one)).copied().collect();
        lists.push(owned(&kinds));
    }
    if filter.host.is_some() {
        lists.push(owned(&ABOUT_HOSTS));
    }
    let Some(mut first) = lists.pop() else {
        return Vec::new();
    };
    first.retain(|kind| lists.iter().all(|list| list.contains(kind)));
    first.sort();
    first.dedup();
    if first.is_empty() {
        first.push("none".to_owned());
    }
    first
}

/// Whether an event is let through; its kind is one of [`kinds`].
pub(super) fn lets_through(filter: &EventFilter, event: &Event) -> bool {
    let is_step = filter.steps.is_empty()
        || event
            .step
            .as_ref()
            .is_some_and(|step| filter.steps.contains(&step.0));
    let is_severe =
        filter.severities.is_empty() || filter.severities.contains(&severity_of(&event.kind));
    is_step
        && is_severe
        && filter.process.is_none_or(|pid| is_of(event, pid))
        && filter
            .host
            .as_deref()
            .is_none_or(|host| is_about(&event.kind, host))
}

fn is_of(event: &Event, pid: u32) -> bool {
    let is_holder = match &event.kind {
        EventKind::Block { block } => block.holders.iter().any(|holder| holder.pid == pid),
        _ => false,
    };
    is_holder
        || event
            .process
            .as_ref()
            .is_some_and(|process| process.pid == pid)
}

fn is_about(kind: &EventKind, host: &str) -> bool {
    let named = match kind {
        EventKind::NameLookedUp { name } => Some(name.clone()),
        EventKind::Egress { subject, .. } | EventKind::ConnectionClosed { subject, .. } => {
            host_of(subject)
        }
        EventKind::Block { block } => host_of(&block.subject),
        _ => None,
    };
    let Some(named) = named else { return false };
    named.to_lowercase().contains(&host.trim().to_lowercase())
}

fn host_of(subject: &Subject) -> Option<String> {
    match subject {
        Subject::Egress { host, .. } => Some(host.to_string()),
        Subject::File { .. }
        | Subject::Socket { .. }
        | Subject::Bound { .. }
        | Subject::Question { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{At, EventSeq, RunId, StepName, WIRE_VERSION};

    fn event(kind: EventKind) -> Event {
        Event {
            v: WIRE_VERSION,
            run: RunId::from_random(1),
            seq: EventSeq(1),
            at: At::from_millis(0),
            step: Some(StepName("agent".into())),
            process: None,
            kind,
        }
    }

    #[test]
    fn every_kind_has_a_severity_whose_kinds_name_it() {
        for kind in [
            EventKind::Warning {
                message: "x".into(),
            },
            EventKind::NameLookedUp {
                name: "a.example".into(),
            },
            EventKind::StepEnded {
                result: StepResult::Exited { code: 2 },
                millis: 1,
            },
            EventKind::State {
                to: RunState::NoChanges,
            },
        ] {
            assert!(
                kinds_of(severity_of(&kind)).contains(&kind.tag()),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn lists_are_cut_with_each_other_and_nothing_left_is_nothing() {
        let filter = EventFilter {
            severities: vec![Severity::Output],
            ..EventFilter::default()
        };
        assert_eq!(kinds(&[], &filter), ["output"]);
        assert_eq!(kinds(&["state".to_owned()], &filter), ["none"]);
        assert!(kinds(&[], &EventFilter::default()).is_empty());
    }

    #[test]
    fn a_host_is_found_by_a_part_of_its_name_and_steps_by_theirs() {
        let looked_up = event(EventKind::NameLookedUp {
            name: "a.registry.example".into(),
        });
        let by = |host: Option<&str>, step: Option<&str>| EventFilter {
            host: host.map(str::to_owned),
            steps: step.map(str::to_owned).into_iter().collect(),
            ..EventFilter::default()
        };
        assert!(lets_through(&by(Some("Registry"), None), &looked_up));
        assert!(!lets_through(&by(Some("other"), None), &looked_up));
        assert!(lets_through(&by(None, Some("agent")), &looked_up));
        assert!(!lets_through(&by(None, Some("setup")), &looked_up));
    }
}
