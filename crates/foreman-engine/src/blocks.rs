//! Blocks as cards: what is held, and the rules that would let it go on.

use crate::api::{BlockList, BlockView, Blocks, Candidate};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::environment::Account;
use crate::failures::{OrFail, decided_in_words, join};
use crate::path_rules::{Own, look};
use crate::programs::patience::{known_host, on_card};
use crate::tokens;
use foreman_domain::{
    Amendment, Block, BlockId, BlockState, Code, Decider, Decision, Failure, FileAccess, RunId,
    RunState, Scope, Subject, sanitize_line,
};
use foreman_policy::{Ground, Offer, offers};
use foreman_store::{BlockFilter, StoredAmendment, StoredBlock, StoredRun};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

/// A block with everything that a card and a decision need.
pub(crate) struct Card {
    pub block: Block,
    pub title: String,
    pub run: StoredRun,
    pub offers: Vec<Offer>,
    /// Why there is nothing to choose, where it is not the floor.
    pub closed: Option<String>,
    /// Who decided and when, when it is decided.
    pub decided: Option<String>,
}

impl Engine {
    /// Blocks, oldest first.
    pub async fn list_blocks(&self, request: BlockList) -> Result<Blocks, Failure> {
        let run = match &request.run {
            Some(typed) => Some(self.find_run(typed).await?),
            None => None,
        };
        let filter = BlockFilter {
            run,
            asking: !request.all,
            ..BlockFilter::default()
        };
        let stored = self.store.blocks(&filter).await.or_fail()?;
        let mut blocks = Vec::with_capacity(stored.len());
        let mut contexts: HashMap<RunId, Context> = HashMap::new();
        for block in stored {
            let run = block.block.id.run();
            let context = match contexts.entry(run.clone()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(self.context(run).await?),
            };
            let grounds = self.grounds(&block.block, context).await?;
            blocks.push(context.card(block, grounds).view());
        }
        Ok(Blocks { blocks })
    }

    /// One block with its candidates.
    pub async fn show_block(&self, typed: &str) -> Result<BlockView, Failure> {
        Ok(self.find_card(typed).await?.view())
    }

    /// The block that is meant, as a card.
    pub async fn find_card(&self, typed: &str) -> Result<Card, Failure> {
        let id = self.find_block(typed).await?;
        let stored = self.store.block(&id).await.or_fail()?;
        self.card(stored).await
    }

    /// The block that is meant: an id, the beginning of a run's id with `-b1`, or `b1` alone when
    /// only one run has it open.
    async fn find_block(&self, typed: &str) -> Result<BlockId, Failure> {
        if let Ok(id) = typed.parse::<BlockId>() {
            return Ok(id);
        }
        let unknown = || {
            Failure::new(
                Code::NotFound,
                format!("there is no block \"{}\"", sanitize_line(typed)),
            )
            .hint("See `foreman blocks`.")
        };
        if let Some((run, number)) = typed.split_once("-b") {
            let number = number.parse().map_err(|_| unknown())?;
            return Ok(BlockId::new(self.find_run(run).await?, number));
        }
        let number = typed
            .strip_prefix('b')
            .unwrap_or(typed)
            .parse()
            .map_err(|_| unknown())?;
        let numbered = BlockFilter {
            number: Some(number),
            ..BlockFilter::default()
        };
        let all = self.store.blocks(&numbered).await.or_fail()?;
        let open: Vec<_> = all
            .iter()
            .filter(|stored| stored.block.state == BlockState::Open)
            .collect();
        match (open.as_slice(), all.as_slice()) {
            ([one], _) => Ok(one.block.id.clone()),
            ([], [one]) => Ok(one.block.id.clone()),
            ([], []) => Err(unknown()),
            ([], several) => Err(ambiguous(typed, several.iter().rev())),
            (several, _) => Err(ambiguous(typed, several.iter().copied())),
        }
    }

    async fn card(&self, stored: StoredBlock) -> Result<Card, Failure> {
        let context = self.context(stored.block.id.run()).await?;
        let grounds = self.grounds(&stored.block, &context).await?;
        Ok(context.card(stored, grounds))
    }

    /// What is at the places that a block of files could be answered with. Looked at anew for each card: a
    /// decision is bound to what it showed.
    async fn grounds(&self, block: &Block, context: &Context) -> Result<Grounds, Failure> {
        let (Subject::File { access, path }, Some(facts)) = (&block.subject, &block.file) else {
            return Ok(Grounds::default());
        };
        let (access, places) = (*access, [path.to_path(), facts.folder.to_path()]);
        let details = RunDetails::of(&context.run)?;
        let busy = [details.repo, details.worktree.path];
        let home = Account::of_this_process(|name| std::env::var_os(name)).home;
        let layout = self.layout.clone();
        let watched = self.watched_places().await?;
        let looking = tokio::task::spawn_blocking(move || {
            let own = Own {
                home: &home,
                data: &layout.data,
                sockets: &layout.sockets,
                watched: &watched,
            };
            let mut grounds = Grounds::default();
            for place in places {
                let ground = look(&place, access, &own, &busy);
                grounds.0.insert((place, access), ground);
            }
            grounds
        });
        looking.await.map_err(join)
    }

    async fn context(&self, run: &RunId) -> Result<Context, Failure> {
        let filter = BlockFilter {
            run: Some(run.clone()),
            ..BlockFilter::default()
        };
        let past = self.store.blocks(&filter).await.or_fail()?;
        Ok(Context {
            run: self.store.run(run).await.or_fail()?,
            past: past
                .into_iter()
                .map(|stored| stored.block.subject)
                .collect(),
            amendments: self.store.amendments_of_run(run).await.or_fail()?,
        })
    }
}

/// What was found at paths.
#[derive(Default)]
struct Grounds(HashMap<(PathBuf, FileAccess), Ground>);

impl Grounds {
    fn at(&self, path: &Path, access: FileAccess) -> Ground {
        let found = self.0.get(&(path.to_owned(), access)).cloned();
        found.unwrap_or_else(|| Ground::Closed("it was not looked at".to_owned()))
    }
}

/// What the cards of one run share.
struct Context {
    run: StoredRun,
    /// What was held or refused in it so far.
    past: Vec<Subject>,
    amendments: Vec<StoredAmendment>,
}

impl Context {
    fn card(&self, stored: StoredBlock, grounds: Grounds) -> Card {
        let StoredBlock { block, title } = stored;
        let offers = offers(&block, &self.past, &|path, access| grounds.at(path, access));
        let closed = match &block.file {
            Some(facts) if offers.is_empty() => match &block.subject {
                Subject::File { access, .. } => {
                    match grounds.at(&facts.folder.to_path(), *access) {
                        Ground::Closed(why) => Some(format!("its folder {}: {why}", facts.folder)),
                        Ground::Open { .. } => None,
                    }
                }
                Subject::Egress { .. }
                | Subject::Socket { .. }
                | Subject::Bound { .. }
                | Subject::Question { .. } => None,
            },
            Some(_) | None => None,
        };
        let decided = self.decided(&block);
        Card {
            block,
            title,
            run: self.run.clone(),
            offers,
            closed,
            decided,
        }
    }

    /// Who decided about a block, and when.
    fn decided(&self, block: &Block) -> Option<String> {
        let decided = match &block.state {
            BlockState::Open | BlockState::Gone => return None,
            BlockState::Amended { amendment } => self.decision(|known| known.id == *amendment),
            BlockState::Denied {
                by: Decider::Operator,
                ..
            } => self.decision(|known| {
                known.block == block.id && matches!(known.decision, Decision::Deny { .. })
            }),
            BlockState::Denied { .. } | BlockState::Expired => None,
        };
        Some(decided_in_words(block, decided))
    }

    fn decision(&self, wanted: impl Fn(&Amendment) -> bool) -> Option<&Amendment> {
        let mut known = self.amendments.iter().map(|stored| &stored.amendment);
        known.find(|amendment| wanted(amendment))
    }
}

impl Card {
    /// Whether it is a question to the operator: of what a run was, nothing is asked once that is settled.
    fn asks(&self) -> bool {
        let settled = matches!(
            self.run.state,
            RunState::Merged { .. } | RunState::Discarded { .. }
        );
        self.block.asks() && (self.block.state == BlockState::Open || !settled)
    }

    /// As a surface shows it.
    pub fn view(&self) -> BlockView {
        let details = RunDetails::of(&self.run).ok();
        let agent = details
            .as_ref()
            .and_then(|details| details.agent.as_deref());
        let waits = self.block.state == BlockState::Open;
        BlockView {
            gives_up: agent
                .filter(|_| waits)
                .and_then(|agent| on_card(agent, &self.block)),
            by_itself: agent.and_then(|agent| known_host(agent, &self.block)),
            block: self.block.clone(),
            asks: self.asks(),
            title: self.title.clone(),
            expect: tokens::of_block(&self.block, self.run.revision, &self.offers),
            candidates: candidates(&self.offers),
            decided: self.decided.clone(),
            secrets_notice: details
                .and_then(|details| details.notice_about(Some(&self.block.subject))),
        }
    }
}

/// Candidates with their numbers. "Once" is number 1 also while it is not there, because it comes and
/// goes with what waits: a number that was read stays the same rule.
pub(crate) fn candidates(offers: &[Offer]) -> Vec<Candidate> {
    let first_lasting = 2;
    let mut lasting = first_lasting..;
    offers
        .iter()
        .map(|offer| Candidate {
            number: match offer.scope {
                Scope::Once => 1,
                Scope::Run | Scope::Order | Scope::Project => lasting.next().unwrap_or(u32::MAX),
            },
            words: offer.words.clone(),
            scope: offer.scope,
            rule: offer.rule.clone(),
            also_opens: offer.also_opens,
            needs_confirmation: offer.needs_confirmation,
            opens: offer.opens.clone(),
        })
        .collect()
}

fn ambiguous<'a>(typed: &str, blocks: impl Iterator<Item = &'a StoredBlock>) -> Failure {
    let ids: Vec<_> = blocks
        .take(5)
        .map(|stored| stored.block.id.to_string())
        .collect();
    Failure::new(
        Code::BadInput,
        format!(
            "several runs have a block \"{}\": {}",
            sanitize_line(typed),
            ids.join(", ")
        ),
    )
    .hint("Type the whole id of the one that you mean.")
}
