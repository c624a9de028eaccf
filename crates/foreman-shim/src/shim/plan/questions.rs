//! Questions of an agent that wait for the operator, beside its conversation: each holds a block, and gives it up
//! when it is taken back or the conversation is over.

use crate::shim::arbiter::{Arbiter, Asked, Asking, Reply};
use foreman_domain::QuestionOption;
use std::collections::HashMap;
use tokio::task::{AbortHandle, JoinSet};

pub(super) struct Questions {
    arbiter: Arbiter,
    agent: String,
    waiting: JoinSet<(String, Reply)>,
    by_request: HashMap<String, AbortHandle>,
}

impl Questions {
    pub(super) fn new(arbiter: Arbiter, agent: &str) -> Self {
        Self {
            arbiter,
            agent: agent.to_owned(),
            waiting: JoinSet::new(),
            by_request: HashMap::new(),
        }
    }

    /// Puts a question to the operator; gives the answer where it is known at once.
    pub(super) fn ask(
        &mut self,
        request: &str,
        tool: &str,
        arguments: &str,
        options: &[QuestionOption],
    ) -> Option<Reply> {
        let asked = Asked {
            agent: &self.agent,
            tool,
            arguments,
            options,
        };
        let mut waiting = match self.arbiter.question(asked) {
            Asking::Now(reply) => return Some(reply),
            Asking::Wait(waiting) => waiting,
        };
        let request = request.to_owned();
        let name = request.clone();
        let wait = async move { (name, waiting.answer().await) };
        let handle = self.waiting.spawn(wait);
        self.by_request.insert(request, handle);
        None
    }

    /// The next answer; waits for ever where nothing waits.
    pub(super) async fn answered(&mut self) -> (String, Reply) {
        loop {
            match self.waiting.join_next().await {
                Some(Ok((request, reply))) => {
                    self.by_request.remove(&request);
                    return (request, reply);
                }
                // It was taken back.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Gives a question up.
    pub(super) fn withdraw(&mut self, request: &str) {
        if let Some(handle) = self.by_request.remove(request) {
            handle.abort();
        }
    }

    /// Gives all of them up: nobody hears an answer any more.
    pub(super) fn withdraw_all(&mut self) {
        self.by_request.clear();
        self.waiting.abort_all();
    }

    /// Whether something of the run waits for the operator.
    pub(super) fn holds_the_run(&self) -> bool {
        self.arbiter.is_holding()
    }
}
