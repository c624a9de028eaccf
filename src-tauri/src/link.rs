//! Links of the scheme `sdf`: what they may say, and nothing else.
//!
//! Any web page can fire a link, so a link only ever goes somewhere: it opens a card, a run, or a form
//! that is filled in. It approves nothing, starts nothing and is never handed to a program. What does
//! not have exactly the expected form is no link.

mod tokens;

#[cfg(test)]
mod tests;

pub use tokens::{Tokens, Unredeemed};

use crate::app::LinkedOrder;
use foreman_domain::{BlockId, RunId, sanitize_text};
use percent_encoding::percent_decode_str;
use std::str::FromStr;

/// Longest link, in bytes.
pub const LONGEST: usize = 8192;
/// Longest title in a link, in characters.
pub const LONGEST_TITLE: usize = 200;
/// Longest prompt in a link, in characters.
pub const LONGEST_PROMPT: usize = 4000;
/// Longest path of a repository in a link, in bytes.
pub const LONGEST_PATH: usize = 1024;
/// Longest token, in bytes.
const LONGEST_TOKEN: usize = 64;

/// A well-formed link. Whether what it names exists is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// To a block's card.
    Block {
        /// Which.
        id: BlockId,
        /// What a notification gave it; good for one time.
        token: Option<String>,
    },
    /// To a run.
    Run {
        /// Which.
        id: RunId,
        /// What a notification gave it; good for one time.
        token: Option<String>,
    },
    /// To a new work order's form.
    NewOrder(LinkedOrder),
}

/// Why a text is no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadLink {
    /// Longer than any link.
    TooLong,
    /// Of another scheme.
    Foreign,
    /// Characters that no link has, or text that does not decode.
    Garbled,
    /// To a kind of place that there is not.
    UnknownPlace,
    /// What stands for an id has not the form of one.
    NotAnId,
    /// A field of the form has a value that it cannot have.
    BadField,
}

impl BadLink {
    /// What to say of it. Nothing of the link itself is in it.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::TooLong => {
                "A link was opened that is too long to be one of this app. It was ignored."
            }
            Self::Foreign => "A link was opened that is not one of this app. It was ignored.",
            Self::Garbled => {
                "A link was opened that has characters no link of this app has. It was ignored."
            }
            Self::UnknownPlace => {
                "A link was opened to a place that this app does not have. It was ignored."
            }
            Self::NotAnId => "A link was opened that names no block and no run. It was ignored.",
            Self::BadField => {
                "A link was opened that fills a work order in with text it cannot have. It was ignored."
            }
        }
    }
}

/// True for what may be meant as a link, among the arguments of a program.
#[must_use]
pub fn looks_like_one(argument: &str) -> bool {
    without_scheme(argument).is_some()
}

/// Reads a link.
///
/// # Errors
/// Says in which way it is none.
pub fn parse(text: &str) -> Result<Link, BadLink> {
    if text.len() > LONGEST {
        return Err(BadLink::TooLong);
    }
    let rest = without_scheme(text).ok_or(BadLink::Foreign)?;
    let rest = rest.strip_prefix("//").ok_or(BadLink::UnknownPlace)?;
    // What is not ASCII has to be encoded; a fragment means nothing here.
    if !rest
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#')
    {
        return Err(BadLink::Garbled);
    }
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (rest, None),
    };
    // Some launchers put a slash behind it.
    let place = place.strip_suffix('/').unwrap_or(place);
    let (kind, name) = place.split_once('/').ok_or(BadLink::UnknownPlace)?;
    match (kind, name) {
        ("block", id) => Ok(Link::Block {
            id: exact(id)?,
            token: token(query)?,
        }),
        ("run", id) => Ok(Link::Run {
            id: exact(id)?,
            token: token(query)?,
        }),
        ("order", "new") => order(query).map(Link::NewOrder),
        _ => Err(BadLink::UnknownPlace),
    }
}

fn without_scheme(text: &str) -> Option<&str> {
    let scheme = text.get(..4)?;
    scheme.eq_ignore_ascii_case("sdf:").then(|| &text[4..])
}

/// An id in the one form in which it is written.
fn exact<T: FromStr + ToString>(text: &str) -> Result<T, BadLink> {
    match text.parse::<T>() {
        Ok(id) if id.to_string() == text => Ok(id),
        Ok(_) | Err(_) => Err(BadLink::NotAnId),
    }
}

fn token(query: Option<&str>) -> Result<Option<String>, BadLink> {
    let token = field(query, "t")?;
    match token {
        Some(token) if token.is_empty() || token.len() > LONGEST_TOKEN => Err(BadLink::Garbled),
        token => Ok(token),
    }
}

fn order(query: Option<&str>) -> Result<LinkedOrder, BadLink> {
    let filled = |name: &str| -> Result<Option<String>, BadLink> {
        Ok(field(query, name)?.filter(|text| !text.trim().is_empty()))
    };
    let title = filled("title")?;
    let prompt = filled("prompt")?;
    let repo = filled("repo")?;
    let is_longer = |text: &Option<String>, most| {
        text.as_ref()
            .is_some_and(|text| text.chars().count() > most)
    };
    let one_line = |text: &Option<String>| {
        text.as_ref()
            .is_none_or(|text| !text.contains(['\n', '\t']))
    };
    let good = !is_longer(&title, LONGEST_TITLE)
        && !is_longer(&prompt, LONGEST_PROMPT)
        && one_line(&title)
        && one_line(&repo)
        && repo
            .as_ref()
            .is_none_or(|path| path.starts_with('/') && path.len() <= LONGEST_PATH)
        && [&title, &prompt, &repo]
            .into_iter()
            .flatten()
            .all(|text| is_plain(text));
    good.then_some(LinkedOrder {
        title,
        prompt,
        repo,
    })
    .ok_or(BadLink::BadField)
}

/// True for text in which nothing hides: no control, direction or invisible characters.
fn is_plain(text: &str) -> bool {
    let without_tabs = text.replace('\t', " ");
    sanitize_text(&without_tabs) == without_tabs
}

/// The value of a field of the query; a field that is there twice makes the link garbled.
fn field(query: Option<&str>, name: &str) -> Result<Option<String>, BadLink> {
    let mut found = None;
    for pair in query.unwrap_or_default().split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key != name {
            continue;
        }
        let value = value.replace('+', " ");
        let value = percent_decode_str(&value)
            .decode_utf8()
            .map_err(|_| BadLink::Garbled)?
            .replace("\r\n", "\n");
        if found.replace(value).is_some() {
            return Err(BadLink::Garbled);
        }
    }
    Ok(found)
}
