//! What makes a link from a notification good for one time.

use std::time::{Duration, Instant};

/// How long a notification's link is good.
pub const GOOD_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// The most links that are good at a time; the oldest go first.
const MOST: usize = 256;

/// Tokens that were given and not used yet. They live as long as the app does.
#[derive(Debug, Default)]
pub struct Tokens {
    given: Vec<Given>,
}

#[derive(Debug)]
struct Given {
    token: String,
    /// The id that it opens.
    to: String,
    until: Instant,
}

/// A token that is not good: unknown, used, expired, or of another link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unredeemed;

impl Tokens {
    /// Makes a token for one link to `to`.
    pub fn give(&mut self, to: &str, random: u128, now: Instant) -> String {
        self.given.retain(|given| given.until > now);
        if self.given.len() >= MOST {
            self.given.remove(0);
        }
        let token = format!("{random:032x}");
        self.given.push(Given {
            token: token.clone(),
            to: to.to_owned(),
            until: now + GOOD_FOR,
        });
        token
    }

    /// Uses a token up, whatever it opens.
    ///
    /// # Errors
    /// When it is not good for a link to `to`.
    pub fn redeem(&mut self, token: &str, to: &str, now: Instant) -> Result<(), Unredeemed> {
        let place = self.given.iter().position(|given| given.token == token);
        let given = self.given.remove(place.ok_or(Unredeemed)?);
        if given.to == to && given.until > now {
            Ok(())
        } else {
            Err(Unredeemed)
        }
    }
}
