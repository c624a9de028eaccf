//! Saying something to the agent of a run.
//!
//! To one that works it is passed on by the run's shim, which keeps it until the agent's turn ends; nothing of it is kept
//! here, so an engine that dies takes none with it. To one that came to its end it is the prompt of a new attempt, which
//! goes on with the agent's own session where there is one.

use crate::api::{RunCreate, Said, SaidHow, Say, Talks};
use crate::create::Memory;
use crate::details::{Resumes, RunDetails};
use crate::engine::Engine;
use crate::environment::Account;
use crate::failures::{OrFail, refused_by_its_supervisor};
use crate::live::LiveRun;
use crate::provision::check_message;
use crate::shells::over_a_line;
use crate::spec::has_namespaces;
use foreman_agent::{LONGEST_TEXT, profile};
use foreman_domain::{
    AgentEvent, Code, EventKind, EventSeq, Failure, MessageId, RunId, RunState, sanitize_line,
};
use foreman_shim::client::ShimClient;
use foreman_shim::wire::Refusal;
use foreman_store::{RequestKey, StoredRun, Way};
use futures::FutureExt;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Pages of events that are looked through for a session.
const PAGES: usize = 64;
/// The longest name of a session that an agent is given back.
const LONGEST_SESSION: usize = 200;

impl Engine {
    /// Says something to the agent of a run.
    pub async fn say(self: &Arc<Self>, asked: Say, key: &RequestKey) -> Result<Said, Failure> {
        // The same request, asked again by a caller that lost its engine.
        if let Some(view) = self.created_before(key).await? {
            let how = self.how_it_began(&view.id).await?;
            return Ok(Said { run: view, how });
        }
        check_message(&asked.message)?;
        let id = self.find_run(&asked.run).await?;
        let run = self.store.run(&id).await.or_fail()?;
        if run.state.is_live() {
            return self.say_now(&id, asked.message, key).await;
        }
        let view = self
            .go_on_from(run, &asked.message, asked.afresh, key)
            .await?;
        let how = self.how_it_began(&view.id).await?;
        Ok(Said { run: view, how })
    }

    async fn say_now(
        &self,
        id: &RunId,
        message: String,
        key: &RequestKey,
    ) -> Result<Said, Failure> {
        if message.len() > LONGEST_TEXT {
            return Err(Failure::new(
                Code::BadInput,
                "the message is longer than 16 KiB, which is the most that a working agent is told",
            )
            .hint("Put it into a file of the run's worktree, and name that."));
        }
        let Some(live) = self.live.get(id) else {
            return Err(not_now(id));
        };
        let by = Account::of_this_process(|name| std::env::var_os(name)).user;
        let named = message_of(key)?;
        let ask = |line: Arc<ShimClient>| {
            let (named, by, message) = (named.clone(), by.clone(), message.clone());
            async move { line.say(named, &by, &message).await }.boxed()
        };
        over_a_line(&live, refused, ask).await?;
        Ok(Said {
            run: self.view_of(id).await?,
            how: SaidHow::Waits,
        })
    }

    async fn how_it_began(&self, id: &RunId) -> Result<SaidHow, Failure> {
        let details = RunDetails::of(&self.store.run(id).await.or_fail()?)?;
        Ok(match details.resumes {
            Some(_) => SaidHow::Resumes,
            None => SaidHow::Afresh,
        })
    }

    /// What the agent of a follow-up remembers of the run before it.
    pub(crate) async fn memory_of(
        &self,
        first: &StoredRun,
        details: &RunDetails,
        request: &RunCreate,
        afresh: bool,
    ) -> Result<Memory, Failure> {
        let Some(choice) = &request.agent else {
            return Ok(Memory::None);
        };
        let forgets = |why: &str| Ok(Memory::Afresh(why.to_owned()));
        if afresh {
            return forgets("it was asked to");
        }
        if !profile(&choice.name).is_ok_and(|profile| profile.can_resume()) {
            return forgets("it cannot go on with a session");
        }
        let home = details.agent_home.clone().filter(|home| home.is_dir());
        let Some(home) = home.filter(|_| has_namespaces(details.confinement)) else {
            return forgets("nothing of its session was kept");
        };
        match self.session_in(&first.id).await? {
            Some(session) => Ok(Memory::Resumes(Resumes {
                session,
                run: first.id.clone(),
                home,
            })),
            None => forgets("it did not say which session it had"),
        }
    }

    /// The newest session that the agent of a run named.
    async fn session_in(&self, run: &RunId) -> Result<Option<String>, Failure> {
        let kinds = ["agent".to_owned()];
        let is_one = |event: &foreman_domain::Event| session_of(&event.kind).is_some();
        let mut before = EventSeq(i64::MAX as u64);
        for _ in 0..PAGES {
            let way = Way::Before(before);
            let page = self
                .store
                .events_where(run, way, 1, &kinds, is_one)
                .await
                .or_fail()?;
            let found = page
                .events
                .iter()
                .rev()
                .find_map(|event| session_of(&event.kind));
            if let Some(session) = found {
                return Ok(Some(session.to_owned()).filter(|session| is_plain(session)));
            }
            if page.cursor.0 <= 1 {
                break;
            }
            before = page.cursor;
        }
        Ok(None)
    }
}

fn session_of(kind: &EventKind) -> Option<&str> {
    match kind {
        EventKind::Agent {
            event: AgentEvent::Session { session, .. },
        } => Some(session),
        _ => None,
    }
}

/// A session's name comes from inside a cage, and becomes an argument: it is no option and no path.
fn is_plain(session: &str) -> bool {
    let letter =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    let starts = session
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    starts && session.len() <= LONGEST_SESSION && session.bytes().all(letter)
}

/// Whether something can be said to the agent of a run.
pub(crate) fn talks(run: &StoredRun, agent: Option<&str>, is_of_an_order: bool) -> Talks {
    match &run.state {
        state if state.is_live() => match agent.and_then(|agent| profile(agent).ok()) {
            Some(profile) if profile.wire().hears() => Talks::Now,
            _ => Talks::Later,
        },
        RunState::Review { .. } => Talks::GoesOn,
        RunState::NoChanges if !is_of_an_order => Talks::GoesOn,
        _ => Talks::No,
    }
}

/// The message's own name: the same for the same request, whoever asks it again.
fn message_of(key: &RequestKey) -> Result<MessageId, Failure> {
    let digest = Sha256::digest(key.0.as_bytes());
    let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    MessageId::of(&text).ok_or_else(|| crate::failures::internal("a digest is no plain word"))
}

fn not_now(id: &RunId) -> Failure {
    Failure::new(
        Code::Conflict,
        format!("the agent of run {id} cannot be told anything now"),
    )
    .hint("Wait until the run is in review, and say it then: a new run goes on from there with it.")
}

fn refused(live: &LiveRun, reason: Refusal, message: String) -> Failure {
    let message = sanitize_line(message.trim_end_matches('.'));
    match reason {
        Refusal::NotHeard => not_now(&live.run),
        _ => refused_by_its_supervisor(reason, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_could_be_an_option_or_a_path_is_not_given_back() {
        for good in ["ses_4f", "0198c2d1-7e5f-7c31-b1a2-9f0e6d3c2b1a", "s1"] {
            assert!(is_plain(good), "{good}");
        }
        for bad in [
            "",
            "-c",
            "--model=x",
            "../x",
            "/etc/passwd",
            "a b",
            "a\n",
            &"x".repeat(201),
        ] {
            assert!(!is_plain(bad), "{bad:?}");
        }
    }

    #[test]
    fn the_same_request_says_the_same_message() {
        let id = |key: &str| message_of(&RequestKey(key.to_owned())).unwrap();
        assert_eq!(id("a key"), id("a key"));
        assert_ne!(id("a key"), id("another"));
    }
}
