//! Judging an action on a file: by the narrowest rule whose path it is, or lies in.

use super::{Found, Opening, Question};
use crate::{PathRule, Policy, Use};
use foreman_domain::{At, FileAccess, PathText, Subject};
use std::cmp::Reverse;

impl Policy {
    pub(super) fn find_path(&self, question: Question<'_>, now: At) -> Found<'_> {
        self.paths
            .iter()
            .filter(|rule| rule.counts(question, now))
            .max_by_key(|rule| {
                (
                    // What is open for longer than this once needs no descriptor of its own.
                    rule.applies == Use::Always,
                    rule.origin.layer,
                    rule.path.components().count(),
                    Reverse((&rule.origin.id, &rule.origin.amendment, &rule.path)),
                )
            })
            .map_or(Found::Nothing, Found::Opened)
    }
}

impl PathRule {
    /// True when the rule allows the subject, its time and its "once" aside. The floor and denials are not
    /// looked at. A path that still begins with `~` covers nothing: only its reader knows whose home is
    /// meant ([`PathRule::rooted_in`]).
    #[must_use]
    pub fn covers(&self, subject: &Subject) -> bool {
        match subject {
            Subject::File { access, path } => {
                *access <= self.access && path.to_path().starts_with(&self.path)
            }
            Subject::Egress { .. }
            | Subject::Socket { .. }
            | Subject::Bound { .. }
            | Subject::Question { .. } => false,
        }
    }

    /// True when it is in force for all that it covers at the time `now`.
    #[must_use]
    pub fn stands(&self, now: At) -> bool {
        self.applies == Use::Always && self.expires.is_none_or(|end| now < end)
    }

    fn counts(&self, question: Question<'_>, now: At) -> bool {
        let in_time = self.expires.is_none_or(|end| now < end);
        in_time && self.applies.to(question) && self.covers(question.subject)
    }

    pub(super) fn opening(&self) -> Opening {
        Opening {
            root: self.path.clone(),
            access: self.access,
            once: self.applies != Use::Always,
        }
    }
}

/// Whether an action lies at or below a path, with this access or one that includes it.
pub(super) fn is_in(access: FileAccess, path: &PathText, subject: &Subject) -> bool {
    match subject {
        Subject::File {
            access: wanted,
            path: at,
        } => access <= *wanted && at.to_path().starts_with(path.to_path()),
        Subject::Egress { .. }
        | Subject::Socket { .. }
        | Subject::Bound { .. }
        | Subject::Question { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Denial, Layer, Origin, RuleId, Ruling, Verdict};
    use foreman_domain::{Decider, HoldId};
    use std::path::Path;

    fn now() -> At {
        At::from_millis(1_000)
    }

    fn origin(layer: Layer) -> Origin {
        Origin {
            id: RuleId(format!("{layer}:1")),
            layer,
            source: "policy.toml line 1".into(),
            amendment: None,
            reason: None,
        }
    }

    fn rule(access: FileAccess, path: &str) -> PathRule {
        PathRule {
            origin: origin(Layer::Order),
            path: path.into(),
            access,
            applies: Use::Always,
            expires: None,
            sockets: false,
        }
    }

    fn file(access: FileAccess, path: &str) -> Subject {
        Subject::File {
            access,
            path: PathText::of(Path::new(path)),
        }
    }

    fn policy(paths: Vec<PathRule>) -> Policy {
        Policy {
            paths,
            ..Policy::default()
        }
    }

    fn allows(policy: &Policy, subject: &Subject) -> bool {
        matches!(
            policy.judge(Question::of(subject), now()),
            Ruling::Allow { .. }
        )
    }

    use FileAccess::{Read, Write};

    #[test]
    fn a_rule_opens_its_path_and_what_is_in_it_and_no_sibling() {
        let policy = policy(vec![rule(Write, "/srv/data")]);
        for path in ["/srv/data", "/srv/data/a/b"] {
            assert!(allows(&policy, &file(Write, path)), "{path}");
            assert!(allows(&policy, &file(Read, path)), "{path}");
        }
        for path in ["/srv/database", "/srv", "/srv/other"] {
            assert!(!allows(&policy, &file(Write, path)), "{path}");
        }
    }

    #[test]
    fn reading_is_not_writing() {
        let policy = policy(vec![rule(Read, "/srv/data")]);
        assert!(allows(&policy, &file(Read, "/srv/data/x")));
        let Ruling::Ask { why } = policy.judge(Question::of(&file(Write, "/srv/data/x")), now())
        else {
            panic!("not asked");
        };
        assert_eq!(
            why,
            "No rule allows writing /srv/data/x; a rule opens /srv/data for reading only"
        );
    }

    #[test]
    fn the_rule_that_explains_is_what_is_to_be_shown() {
        let policy = policy(vec![rule(Write, "/srv"), rule(Write, "/srv/data")]);
        let Ruling::Allow { opens, .. } =
            policy.judge(Question::of(&file(Write, "/srv/data/x")), now())
        else {
            panic!("not allowed");
        };
        assert_eq!(
            opens,
            Some(Opening {
                root: "/srv/data".into(),
                access: Write,
                once: false
            })
        );
    }

    #[test]
    fn once_means_the_holds_of_that_block_up_to_the_last_that_was_counted() {
        let card = file(Write, "/srv/data/a");
        let mut once = rule(Write, "/srv/data");
        once.applies = Use::Holds {
            subject: card.clone(),
            through: HoldId(4),
        };
        let policy = policy(vec![once]);
        let other = file(Write, "/srv/data/b");
        let judge = |hold, under| {
            let question = Question {
                subject: &other,
                hold: Some(HoldId(hold)),
                under,
            };
            policy.judge(question, now())
        };
        assert!(
            matches!(judge(4, Some(&card)), Ruling::Allow { opens: Some(Opening { once, .. }), .. } if once)
        );
        assert!(matches!(judge(5, Some(&card)), Ruling::Ask { .. }));
        // Of another block, though in the same folder.
        assert!(matches!(judge(3, Some(&other)), Ruling::Ask { .. }));
        assert!(matches!(judge(3, None), Ruling::Ask { .. }));
    }

    #[test]
    fn a_denied_folder_is_refused_with_all_that_is_in_it() {
        let mut policy = policy(vec![rule(Write, "/srv/data")]);
        policy.denials.push(Denial {
            origin: origin(Layer::Amendment),
            subject: file(Write, "/srv/data"),
            reason: "use the worktree".into(),
        });
        let Ruling::Refuse { by, reason, .. } =
            policy.judge(Question::of(&file(Write, "/srv/data/x")), now())
        else {
            panic!("not refused");
        };
        assert_eq!(
            (by, reason.as_str()),
            (Decider::Operator, "use the worktree")
        );
        // Reading was not denied; and who denied reading denied writing.
        assert!(allows(&policy, &file(Read, "/srv/data/x")));
        policy.denials[0].subject = file(Read, "/srv/data");
        assert!(!allows(&policy, &file(Write, "/srv/data/x")));
    }

    #[test]
    fn the_floor_beats_every_rule() {
        let policy = policy(vec![rule(Write, "/home/other"), rule(Read, "/")]);
        for subject in [
            file(Read, "/home/other/.ssh/id"),
            file(Write, "/home/other/.bashrc"),
            file(Read, "/proc/1/environ"),
        ] {
            let explained = policy.explain(&subject, now());
            assert_eq!(explained.verdict, Verdict::Refused, "{subject}");
            assert_eq!(explained.layer, Some(Layer::Floor));
        }
    }

    #[test]
    fn a_rule_that_ended_says_so() {
        let mut ended = rule(Write, "/srv/data");
        ended.expires = Some(At::from_millis(500));
        let words = policy(vec![ended]).explain(&file(Write, "/srv/data/x"), now());
        assert_eq!(words.verdict, Verdict::Held);
        assert!(
            words
                .words
                .starts_with("The rule for writing /srv/data ended at"),
            "{}",
            words.words
        );
    }
}
