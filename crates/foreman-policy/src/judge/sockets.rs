//! Judging a connection to a Unix socket of the host: by the rule that names it.

use super::{Found, Question};
use crate::{Policy, SocketRule, Use};
use foreman_domain::{At, PathText, Subject};
use std::cmp::Reverse;

impl Policy {
    pub(super) fn find_socket(&self, question: Question<'_>, now: At) -> Found<'_> {
        self.sockets
            .iter()
            .filter(|rule| rule.counts(question, now))
            .max_by_key(|rule| {
                (
                    rule.applies == Use::Always,
                    rule.origin.layer,
                    Reverse((&rule.origin.id, &rule.origin.amendment)),
                )
            })
            .map_or(Found::Nothing, Found::Connected)
    }
}

impl SocketRule {
    /// True when the rule allows the subject, its time and its "once" aside: the very path, and nothing
    /// below or beside it. The floor and denials are not looked at.
    #[must_use]
    pub fn covers(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::Socket { path } if *path == PathText::of(&self.socket))
    }

    fn counts(&self, question: Question<'_>, now: At) -> bool {
        let in_time = self.expires.is_none_or(|end| now < end);
        in_time && self.applies.to(question) && self.covers(question.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Denial, Layer, Origin, RuleId, Ruling};
    use foreman_domain::{Decider, HoldId};
    use std::path::Path;

    fn now() -> At {
        At::from_millis(1_000)
    }

    fn rule(path: &str) -> SocketRule {
        SocketRule {
            origin: Origin {
                id: RuleId("order:1".into()),
                layer: Layer::Order,
                source: "policy.toml line 1".into(),
                amendment: None,
                reason: None,
            },
            socket: path.into(),
            applies: Use::Always,
            expires: None,
        }
    }

    fn socket(path: &str) -> Subject {
        Subject::Socket {
            path: PathText::of(Path::new(path)),
        }
    }

    fn policy(sockets: Vec<SocketRule>) -> Policy {
        Policy {
            sockets,
            ..Policy::default()
        }
    }

    fn ask(policy: &Policy, path: &str) -> Ruling {
        policy.judge(Question::of(&socket(path)), now())
    }

    #[test]
    fn a_rule_opens_its_very_path_and_nothing_below_or_beside_it() {
        let policy = policy(vec![rule("/run/x"), rule("~/y.sock")]);
        assert!(matches!(ask(&policy, "/run/x"), Ruling::Allow { .. }));
        for path in ["/run/x/y", "/run/xy", "/run", "/home/op/y.sock"] {
            assert!(matches!(ask(&policy, path), Ruling::Ask { .. }), "{path}");
        }
    }

    #[test]
    fn a_file_rule_opens_no_socket_and_a_socket_rule_no_file() {
        let mut policy = policy(vec![rule("/srv/x")]);
        policy.paths.push(crate::PathRule {
            origin: rule("/srv").origin,
            path: "/srv".into(),
            access: crate::Access::Write,
            applies: Use::Always,
            expires: None,
            sockets: true,
        });
        assert!(matches!(ask(&policy, "/srv/y"), Ruling::Ask { .. }));
        policy.paths.clear();
        let file = Subject::File {
            access: crate::Access::Write,
            path: PathText::of(Path::new("/srv/x")),
        };
        let ruling = policy.judge(Question::of(&file), now());
        assert!(matches!(ruling, Ruling::Ask { .. }));
    }

    #[test]
    fn the_floor_and_denials_beat_rules() {
        let keyring = "/run/user/1000/keyring/control";
        let mut policy = policy(vec![rule(keyring), rule("/run/x")]);
        let Ruling::Refuse { by, why, .. } = ask(&policy, keyring) else {
            panic!("not refused");
        };
        assert_eq!(by, Decider::Floor);
        assert!(why.contains("keyring"), "{why}");
        policy.denials.push(Denial {
            origin: rule("/run/x").origin,
            subject: socket("/run/x"),
            reason: "use TCP".into(),
        });
        let Ruling::Refuse { by, reason, .. } = ask(&policy, "/run/x") else {
            panic!("not refused");
        };
        assert_eq!((by, reason.as_str()), (Decider::Operator, "use TCP"));
    }

    #[test]
    fn once_is_for_the_holds_that_were_counted() {
        let mut once = rule("/run/x");
        once.applies = Use::Holds {
            subject: socket("/run/x"),
            through: HoldId(4),
        };
        let policy = policy(vec![once]);
        let subject = socket("/run/x");
        let judge = |hold| {
            let question = Question {
                subject: &subject,
                hold,
                under: None,
            };
            policy.judge(question, now())
        };
        assert!(matches!(judge(Some(HoldId(4))), Ruling::Allow { .. }));
        assert!(matches!(judge(Some(HoldId(5))), Ruling::Ask { .. }));
        assert!(matches!(judge(None), Ruling::Ask { .. }));
    }
}
