//! Where the window is to go: told by an event while the page listens, kept for it until then.

use crate::app::Navigation;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The most that are kept; the oldest are dropped, for only the last place matters.
const MOST: usize = 16;

/// What was not told yet.
#[derive(Debug, Default)]
pub struct Navigations(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    listens: bool,
    waiting: VecDeque<Navigation>,
}

impl Navigations {
    /// Hands over what the page was not told. From now on it listens.
    pub fn take(&self) -> Vec<Navigation> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.listens = true;
        kept.waiting.drain(..).collect()
    }

    /// The page is loaded anew and does not listen yet.
    pub fn deafen(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .listens = false;
    }

    /// Gives it back when the page listens and is to be told at once; else it is kept.
    pub fn add(&self, to: Navigation) -> Option<Navigation> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.listens {
            return Some(to);
        }
        if kept.waiting.len() == MOST {
            kept.waiting.pop_front();
        }
        kept.waiting.push_back(to);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_or_told_twice_around_the_loading_of_the_page() {
        let all = Navigations::default();
        let to = |text: &str| Navigation::Inbox {
            sentence: Some(text.into()),
        };
        assert_eq!(all.add(to("a")), None);
        assert_eq!(all.take(), [to("a")]);
        assert_eq!(all.add(to("b")), Some(to("b")));
        assert_eq!(all.take(), []);
        all.deafen();
        assert_eq!(all.add(to("c")), None);
        assert_eq!(all.take(), [to("c")]);
    }

    #[test]
    fn a_page_that_never_comes_costs_little() {
        let all = Navigations::default();
        for _ in 0..100 {
            all.add(Navigation::Inbox { sentence: None });
        }
        assert_eq!(all.take().len(), MOST);
    }
}
