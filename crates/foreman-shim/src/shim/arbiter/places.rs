//! Shows in the running cage what rules of paths open, and hides what none opens any more.
//!
//! A rule that cannot be shown opens nothing: what waits under it goes on waiting, and a new action is
//! refused with the reason. What policy files open is part of the cage from its start, and is left as it
//! is.

use super::{Arbiter, Inner, State};
use crate::ground;
use crate::shim::arbiter::FileFloor;
use crate::shim::arbiter::files::Ground;
use foreman_cage::{Bind, Cage};
use foreman_domain::{At, EventKind, FileAccess, PathText, sanitize_line};
use foreman_policy::{Policy, RuleId, path_floor, write_floor};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Weak};

/// What a running cage is asked to do; the error is a sentence.
pub(in crate::shim) type Doing<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Shows and hides places of the host in a running cage.
pub(in crate::shim) trait Places: Send + Sync {
    /// Shows a folder or file; `sockets` whether also when sockets of the host are in it.
    fn show<'a>(&'a self, root: &'a Path, access: FileAccess, sockets: bool) -> Doing<'a, ()>;

    /// Hides what was shown; false when it was not shown but is part of the cage.
    fn hide<'a>(&'a self, root: &'a Path) -> Doing<'a, bool>;
}

impl Places for Weak<Cage> {
    fn show<'a>(&'a self, root: &'a Path, access: FileAccess, sockets: bool) -> Doing<'a, ()> {
        Box::pin(async move {
            let Some(cage) = self.upgrade() else {
                return Err("the cage has ended".to_owned());
            };
            let shown = match sockets {
                true => cage.show_with_sockets(root, access).await,
                false => cage.show(root, access).await,
            };
            shown.map_err(|error| in_words(&error))
        })
    }

    fn hide<'a>(&'a self, root: &'a Path) -> Doing<'a, bool> {
        Box::pin(async move {
            match self.upgrade() {
                // With the cage everything in it is gone.
                None => Ok(true),
                Some(cage) => cage.hide(root).await.map_err(|error| in_words(&error)),
            }
        })
    }
}

fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        words.push_str(&format!(": {error}"));
        source = error.source();
    }
    foreman_domain::without_error_numbers(&sanitize_line(&words))
}

/// What of the rules of paths is in the cage.
#[derive(Debug, Default)]
pub(super) struct Shown {
    mounted: BTreeMap<PathBuf, FileAccess>,
    failed: HashMap<RuleId, String>,
    /// The cage is about to end.
    closed: bool,
}

impl Shown {
    /// Why a rule is not shown.
    pub(super) fn why_not(&self, rule: &RuleId) -> Option<String> {
        self.failed.get(rule).cloned()
    }

    /// How a place is shown.
    pub(super) fn access(&self, root: &Path) -> Option<FileAccess> {
        self.mounted.get(root).copied()
    }
}

/// A place that rules open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    access: FileAccess,
    sockets: bool,
    rules: Vec<RuleId>,
}

/// The places that the rules of a policy open at a time, those above others first.
fn wanted(policy: &Policy, at: At) -> BTreeMap<PathBuf, Wanted> {
    let mut wanted = BTreeMap::<PathBuf, Wanted>::new();
    let standing = policy.paths.iter().filter(|rule| rule.stands(at));
    // What files say is part of the cage from the start.
    let standing = standing.filter(|rule| rule.origin.amendment.is_some());
    for rule in standing.filter(|rule| rule.path.is_absolute()) {
        let place = wanted.entry(rule.path.clone()).or_insert_with(|| Wanted {
            access: rule.access,
            sockets: false,
            rules: Vec::new(),
        });
        place.access = place.access.max(rule.access);
        place.sockets |= rule.sockets;
        place.rules.push(rule.origin.id.clone());
    }
    wanted
}

impl Arbiter {
    /// From here on files are judged. `binds` are what the cage was built with. Shows what rules open
    /// beside that.
    pub(in crate::shim) async fn hold_files(
        &self,
        floor: FileFloor,
        places: Arc<dyn Places>,
        binds: &[Bind],
    ) {
        if self.0.files.set(Ground { floor, places }).is_err() {
            return;
        }
        let _one_at_a_time = self.0.applying.lock().await;
        let policy = {
            let mut state = self.0.lock();
            for bind in binds {
                let access = match bind.writable {
                    true => FileAccess::Write,
                    false => FileAccess::Read,
                };
                state.shown.mounted.insert(bind.target.clone(), access);
            }
            let State { policy, shown, .. } = &mut *state;
            for rule in &policy.paths {
                let is_missing = shown.access(&rule.path).is_none();
                if is_missing && rule.origin.amendment.is_none() {
                    let path = PathText::of(&rule.path);
                    let why = format!("{path} was not there when the run started");
                    shown.failed.insert(rule.origin.id.clone(), why);
                }
            }
            state.policy.clone()
        };
        self.0.show_wanted(&policy, At::now()).await;
    }
}

impl Arbiter {
    /// The cage is about to end: nothing is shown or hidden from now on, nor being so when this returns.
    pub(in crate::shim) async fn let_go_of_cage(&self) {
        let _one_at_a_time = self.0.applying.lock().await;
        self.0.lock().shown.closed = true;
    }
}

impl Inner {
    /// The way to show and hide, as long as there is one.
    fn ground(&self) -> Option<&Ground> {
        let is_closed = self.lock().shown.closed;
        self.files.get().filter(|_| !is_closed)
    }

    /// Shows what a policy opens and is not there yet. One at a time.
    pub(super) async fn show_wanted(&self, policy: &Policy, at: At) {
        let Some(ground) = self.ground() else {
            return;
        };
        for (root, place) in wanted(policy, at) {
            let there = self.lock().shown.access(&root);
            if there.is_none_or(|there| there < place.access) {
                self.show(ground, &root, &place).await;
            }
        }
    }

    /// Hides what no rule in force opens any more. One at a time.
    pub(super) async fn hide_unwanted(&self, before: &Policy, at: At) {
        let Some(ground) = self.ground() else {
            return;
        };
        let wanted = wanted(&self.lock().policy, at);
        // Only what a rule had opened: the rest is the cage's own.
        let rules = before.paths.iter().map(|rule| rule.path.clone());
        let mut places: Vec<PathBuf> = rules.filter(|path| path.is_absolute()).collect();
        places.sort();
        places.dedup();
        let mut hidden: Vec<PathBuf> = Vec::new();
        for root in places {
            let Some(there) = self.lock().shown.access(&root) else {
                continue;
            };
            let still = wanted.get(&root).map(|place| place.access);
            if still.is_some_and(|still| still >= there) {
                continue;
            }
            match ground.places.hide(&root).await {
                Ok(was_shown) => {
                    self.lock().shown.mounted.remove(&root);
                    if was_shown {
                        hidden.push(root);
                    } else {
                        self.warn(format!(
                            "{} was in the cage from the start, and is seen until the run ends",
                            PathText::of(&root)
                        ));
                    }
                }
                Err(why) => self.warn(format!(
                    "{} is still seen in the cage: {why}",
                    PathText::of(&root)
                )),
            }
        }
        // What lies on what was hidden went with it.
        for (root, place) in wanted {
            if !hidden.iter().any(|above| root.starts_with(above)) {
                continue;
            }
            if let Err(why) = ground.places.hide(&root).await {
                self.warn(format!("{} may not be seen: {why}", PathText::of(&root)));
            }
            self.lock().shown.mounted.remove(&root);
            self.show(ground, &root, &place).await;
        }
    }

    async fn show(&self, ground: &Ground, root: &Path, place: &Wanted) {
        let shown = match refusal(&ground.floor, root, place).await {
            None => ground.places.show(root, place.access, place.sockets).await,
            Some(why) => Err(why),
        };
        let mut state = self.lock();
        match shown {
            Ok(()) => {
                state.shown.mounted.insert(root.to_owned(), place.access);
                for rule in &place.rules {
                    state.shown.failed.remove(rule);
                }
            }
            Err(why) => {
                let path = PathText::of(root);
                let message = format!("{path} could not be shown in the cage: {why}");
                for rule in &place.rules {
                    state.shown.failed.insert(rule.clone(), message.clone());
                }
                drop(state);
                self.warn(message);
            }
        }
    }

    fn warn(&self, message: String) {
        self.feed.tell(EventKind::Warning { message });
    }
}

/// Why a place must not be shown, looked at once more: it may have changed since it was decided about.
async fn refusal(floor: &FileFloor, root: &Path, place: &Wanted) -> Option<String> {
    let is_write = place.access == FileAccess::Write;
    let on_floor = floor
        .own
        .iter()
        .find_map(|own| path_floor(root, &floor.home, own))
        .or_else(|| path_floor(root, &floor.home, Path::new("/proc")))
        .or_else(|| is_write.then(|| write_floor(root, &floor.home)).flatten());
    if let Some(why) = on_floor {
        return Some(format!("it is {why}"));
    }
    let root = root.to_owned();
    let looking = tokio::task::spawn_blocking(move || ground::contents(&root, is_write));
    match looking.await {
        Ok(Ok(_)) => None,
        Ok(Err(why)) => Some(why),
        Err(error) => Some(format!("it could not be looked at ({error})")),
    }
}
