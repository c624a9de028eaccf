//! What a card of held files offers: the narrowest first, and what each opens in words.

use super::{Ground, Offer, also_opens, elsewhere, origin};
use crate::judge::doing;
use crate::quantity::counted;
use crate::{Layer, PathRule, Rule, Use};
use foreman_domain::{Block, FileAccess, FileFacts, FileTarget, PathText, Scope, Subject};
use std::path::Path;

/// A folder with fewer parts than this below the root is a wide one: `/data`, `/srv`.
const NARROW: usize = 2;

pub(super) fn offers(
    block: &Block,
    access: FileAccess,
    path: &PathText,
    past: &[Subject],
    look: &dyn Fn(&Path, FileAccess) -> Ground,
) -> Vec<Offer> {
    let Some(facts) = &block.file else {
        return Vec::new();
    };
    let card = Card {
        block,
        access,
        facts,
        past,
    };
    let mut offers = Vec::new();
    offers.extend(card.once());
    if facts.different == 1
        && facts.target == FileTarget::File
        && facts.alone
        && let Ground::Open { .. } = look(&path.to_path(), access)
    {
        offers.push(card.lasting(Scope::Run, Place::File(path)));
    }
    if let Ground::Open { socket, large } = look(&facts.folder.to_path(), access) {
        let scopes: &[Scope] = match socket {
            // Later runs are not started over a folder with a socket in it.
            Some(_) => &[Scope::Run],
            None => &[Scope::Run, Scope::Order, Scope::Project],
        };
        for scope in scopes {
            let folder = Place::Folder(Folder {
                path: &facts.folder,
                socket: socket.as_deref(),
                large,
            });
            // A path that is no plain text could not be written into the project's file.
            if *scope != Scope::Project
                || facts.folder.to_path().to_str() == Some(facts.folder.as_str())
            {
                offers.push(card.lasting(*scope, folder));
            }
        }
    }
    offers
}

struct Card<'a> {
    block: &'a Block,
    access: FileAccess,
    facts: &'a FileFacts,
    past: &'a [Subject],
}

#[derive(Clone, Copy)]
enum Place<'a> {
    File(&'a PathText),
    Folder(Folder<'a>),
}

#[derive(Clone, Copy)]
struct Folder<'a> {
    path: &'a PathText,
    socket: Option<&'a str>,
    large: bool,
}

impl Card<'_> {
    /// Exactly what waits, as far as it is the opening of a file: a descriptor can be handed over then.
    fn once(&self) -> Option<Offer> {
        let (waiting, once) = (self.block.waiting, self.facts.once);
        if waiting == 0 || once == 0 {
            return None;
        }
        let what = match self.access {
            FileAccess::Read => "waiting read",
            FileAccess::Write => "waiting write",
        };
        let what = match once {
            1 => format!("the {what}"),
            many => format!("the {}", counted(u64::from(many), what)),
        };
        let place = match self.facts.paths.first() {
            Some(path) if self.facts.different == 1 => format!("of {path}"),
            _ => format!("in {}", self.facts.folder),
        };
        let mut words = format!("Let {what} {place} go on, once");
        let others = waiting.saturating_sub(once);
        if others > 0 {
            let others = match others {
                1 => "1 other opens no file and goes on waiting".to_owned(),
                many => format!("{many} others open no file and go on waiting"),
            };
            words.push_str(&format!(" ({others})"));
        }
        let mut rule = self.rule(&self.facts.folder, Layer::Amendment);
        rule.applies = Use::Holds {
            subject: self.block.subject.clone(),
            through: self.block.last_hold,
        };
        Some(Offer {
            scope: Scope::Once,
            words,
            rule: Rule::Path(rule),
            also_opens: 0,
            needs_confirmation: false,
            opens: Vec::new(),
        })
    }

    fn lasting(&self, scope: Scope, place: Place<'_>) -> Offer {
        let (path, what) = match place {
            Place::File(path) => (path, path.to_string()),
            Place::Folder(Folder { path, .. }) => (path, format!("everything in {path}")),
        };
        let verb = match self.access {
            FileAccess::Read => "read",
            FileAccess::Write => "read and write",
        };
        let (layer, words) = match scope {
            Scope::Once | Scope::Run => (
                Layer::Amendment,
                format!("Let this run {verb} {what} until it ends"),
            ),
            Scope::Order => (
                Layer::Order,
                format!("Let every run of this work order {verb} {what}"),
            ),
            Scope::Project => (
                Layer::Project,
                format!("Let every run in this project {verb} {what}"),
            ),
        };
        let mut rule = self.rule(path, layer);
        rule.sockets = matches!(
            place,
            Place::Folder(Folder {
                socket: Some(_),
                ..
            })
        );
        let rule = Rule::Path(rule);
        let (also_opens, mut opens) = also_opens(&rule, &self.block.subject, self.past);
        let mut is_wide = false;
        match place {
            Place::File(_) => {
                if self.access == FileAccess::Write {
                    opens.push(
                        "this one file only: a program that puts a new file in its place is refused"
                            .to_owned(),
                    );
                }
            }
            Place::Folder(Folder { socket, large, .. }) => {
                opens.push(format!(
                    "{} every file and folder below it, those that come later too",
                    doing(self.access)
                ));
                if let Some(socket) = socket {
                    opens.push(format!("talking to whoever listens at {socket}"));
                }
                if large {
                    opens.push(
                        "more than was looked through for sockets and git directories".to_owned(),
                    );
                }
                let is_high = path.to_path().components().count() <= NARROW;
                is_wide = is_high || large || socket.is_some();
            }
        }
        opens.extend(elsewhere(scope));
        Offer {
            scope,
            words,
            rule,
            also_opens,
            needs_confirmation: is_wide || scope == Scope::Project,
            opens,
        }
    }

    fn rule(&self, path: &PathText, layer: Layer) -> PathRule {
        PathRule {
            origin: origin(layer),
            path: path.to_path(),
            access: self.access,
            applies: Use::Always,
            expires: None,
            sockets: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Question, Ruling};
    use foreman_domain::{At, BlockId, BlockState, HoldId, Revision, RunId};

    fn text(path: &str) -> PathText {
        PathText::of(Path::new(path))
    }

    fn subject(access: FileAccess, path: &str) -> Subject {
        Subject::File {
            access,
            path: text(path),
        }
    }

    fn block(access: FileAccess, path: &str, target: FileTarget) -> Block {
        let folder = Path::new(path).parent().unwrap();
        Block {
            id: BlockId::new(RunId::from_random(1), 1),
            subject: subject(access, path),
            state: BlockState::Open,
            why: "No rule allows it".into(),
            address_vetted: true,
            waiting: 1,
            seen: 1,
            last_hold: HoldId(7),
            revision: Revision(1),
            first_at: At::from_millis(0),
            last_at: At::from_millis(0),
            holders: Vec::new(),
            socket: None,
            breach: None,
            question: None,
            file: Some(FileFacts {
                folder: PathText::of(folder),
                paths: vec![text(path)],
                different: 1,
                target,
                call: "openat".into(),
                once: 1,
                alone: true,
            }),
        }
    }

    fn open(_: &Path, _: FileAccess) -> Ground {
        Ground::Open {
            socket: None,
            large: false,
        }
    }

    fn words(offers: &[Offer]) -> Vec<&str> {
        offers.iter().map(|offer| offer.words.as_str()).collect()
    }

    use FileAccess::{Read, Write};

    #[test]
    fn a_file_that_is_there_is_offered_before_its_folder() {
        let block = block(Write, "/srv/data/a.txt", FileTarget::File);
        let offers = crate::offers(&block, &[], &open);
        assert_eq!(
            words(&offers),
            [
                "Let the waiting write of /srv/data/a.txt go on, once",
                "Let this run read and write /srv/data/a.txt until it ends",
                "Let this run read and write everything in /srv/data until it ends",
                "Let every run of this work order read and write everything in /srv/data",
                "Let every run in this project read and write everything in /srv/data",
            ]
        );
        let confirm: Vec<bool> = offers.iter().map(|one| one.needs_confirmation).collect();
        assert_eq!(confirm, [false, false, false, false, true]);
    }

    #[test]
    fn what_is_not_there_yet_is_offered_by_its_nearest_folder() {
        let mut block = block(Write, "/srv/data/new/a.txt", FileTarget::Absent);
        let facts = block.file.as_mut().unwrap();
        facts.folder = text("/srv/data");
        facts.once = 0;
        let offers = crate::offers(&block, &[], &open);
        assert_eq!(
            words(&offers)[0],
            "Let this run read and write everything in /srv/data until it ends"
        );
        assert_eq!(offers.len(), 3);
    }

    #[test]
    fn a_card_of_many_files_offers_their_folder_and_those_that_can_go_on_once() {
        let mut block = block(Write, "/srv/data/a.txt", FileTarget::File);
        block.waiting = 5;
        let facts = block.file.as_mut().unwrap();
        (facts.different, facts.once) = (5, 3);
        let past = [
            block.subject.clone(),
            subject(Write, "/srv/data/b.txt"),
            subject(Read, "/srv/data/c.txt"),
            subject(Write, "/srv/other"),
        ];
        let offers = crate::offers(&block, &past, &open);
        assert_eq!(
            words(&offers)[..2],
            [
                "Let the 3 waiting writes in /srv/data go on, once (2 others open no file and go on \
                 waiting)",
                "Let this run read and write everything in /srv/data until it ends",
            ]
        );
        assert_eq!(offers[1].also_opens, 2);
        let names = |path: &str| offers[1].opens.iter().any(|one| one.starts_with(path));
        assert!(names("writing /srv/data/b.txt") && names("reading /srv/data/c.txt"));
    }

    #[test]
    fn a_wide_folder_and_one_with_a_socket_ask_again() {
        let block_of = |path| block(Read, path, FileTarget::File);
        let offers = crate::offers(&block_of("/data/a.txt"), &[], &open);
        let folder = &offers[2];
        assert!(folder.needs_confirmation, "{}", folder.words);
        let socket = |path: &Path, _| Ground::Open {
            socket: (path == Path::new("/srv/data")).then(|| "/srv/data/agent.sock".to_owned()),
            large: false,
        };
        let offers = crate::offers(&block_of("/srv/data/a.txt"), &[], &socket);
        let last = offers.last().unwrap();
        assert_eq!((last.scope, last.needs_confirmation), (Scope::Run, true));
        assert!(last.opens.iter().any(|one| one.contains("agent.sock")));
    }

    #[test]
    fn what_cannot_be_opened_is_not_offered() {
        let closed = |_: &Path, _: FileAccess| Ground::Closed("a store of credentials".into());
        let block = block(Write, "/srv/data/a.txt", FileTarget::File);
        let offers = crate::offers(&block, &[], &closed);
        assert_eq!(
            words(&offers),
            ["Let the waiting write of /srv/data/a.txt go on, once"]
        );
        let mut floor = block;
        floor.subject = subject(Write, "/home/other/.ssh/id");
        assert!(crate::offers(&floor, &[], &open).is_empty());
    }

    #[test]
    fn every_offer_unblocks_its_block_and_the_first_is_the_narrowest() {
        let block = block(Write, "/srv/data/a.txt", FileTarget::File);
        for offer in crate::offers(&block, &[], &open) {
            let Rule::Path(rule) = offer.rule else {
                panic!("no rule of a path");
            };
            let policy = Policy {
                paths: vec![rule],
                ..Policy::default()
            };
            let judge = |hold| {
                let question = Question {
                    subject: &block.subject,
                    hold,
                    under: Some(&block.subject),
                };
                policy.judge(question, At::from_millis(0))
            };
            assert!(matches!(judge(Some(HoldId(7))), Ruling::Allow { .. }));
            let once = matches!(judge(None), Ruling::Ask { .. });
            assert_eq!(once, offer.scope == Scope::Once);
        }
    }
}
