//! Following links: navigation, and nothing else.

use super::{Shell, lock};
use crate::app::Navigation;
use crate::link::{self, Link};
use foreman_domain::{Code, Failure, sanitize_line};
use foreman_engine::api::{BlockRef, Commands, Remote, RunRef};
use std::time::Instant;

/// Said of a link whose token is not good.
const NOT_GOOD: &str =
    "That notification was followed before, or is too old. What is held now is here.";

impl Shell {
    /// Follows the first link among the arguments of a start, if there is one.
    pub async fn open_arguments(&self, arguments: &[String]) {
        let link = arguments
            .iter()
            .find(|argument| link::looks_like_one(argument));
        if let Some(link) = link {
            self.open_link(link).await;
        }
    }

    /// Follows a link, or says in the inbox why not.
    pub async fn open_link(&self, text: &str) {
        // Looking it up may take a while where the engine is only being opened.
        self.show();
        let to = match link::parse(text) {
            Ok(link) => self.place_of(link).await,
            Err(bad) => inbox(bad.sentence()),
        };
        self.navigate(to);
    }

    async fn place_of(&self, link: Link) -> Navigation {
        let (found, to, what) = match link {
            Link::NewOrder(draft) => return Navigation::Order { draft },
            Link::Block { id, token } => {
                if !self.is_good(token.as_deref(), &id.to_string()) {
                    return inbox(NOT_GOOD);
                }
                let block = id.to_string();
                let what = format!("block {block}");
                let found = async {
                    let engine = Remote(self.engines.current().await?);
                    engine.block_show(BlockRef { block }).await.map(drop)
                };
                (found.await, Navigation::Block { id }, what)
            }
            Link::Run { id, token } => {
                if !self.is_good(token.as_deref(), id.as_str()) {
                    return inbox(NOT_GOOD);
                }
                let run = id.to_string();
                let what = format!("run {run}");
                let found = async {
                    let engine = Remote(self.engines.current().await?);
                    engine.run_show(RunRef { run }).await.map(drop)
                };
                (found.await, Navigation::Run { id }, what)
            }
        };
        match found {
            Ok(()) => to,
            Err(failure) => inbox(&not_followed(&what, &failure)),
        }
    }

    fn is_good(&self, token: Option<&str>, to: &str) -> bool {
        token.is_none_or(|token| lock(&self.tokens).redeem(token, to, Instant::now()).is_ok())
    }
}

fn not_followed(what: &str, failure: &Failure) -> String {
    if failure.code == Code::NotFound {
        return format!("A link was opened to {what}, which is not here.");
    }
    format!(
        "A link to {what} could not be followed: {}.",
        sanitize_line(&failure.message)
    )
}

fn inbox(sentence: &str) -> Navigation {
    Navigation::Inbox {
        sentence: Some(sentence.to_owned()),
    }
}
