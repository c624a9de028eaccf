//! Scope declared against scope touched: what a run changed outside of the paths that its order means
//! to change. Told, not refused: by a warning among its events, and where the run is shown.

use super::record::decode;
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, join};
use crate::gate::scope::covers;
use foreman_domain::{EventKind, Failure, OrderId, Outcome, sanitize_line};
use foreman_schedule::ScopeClaim;
use foreman_store::{StoreError, StoredRun};

/// Files that a warning names.
const NAMED: usize = 10;
/// Files that are kept with the run.
const KEPT: usize = 200;

impl Engine {
    /// The paths that an order means to change; nothing for a single run, or where none are declared.
    pub(crate) async fn claim_of(&self, order: &OrderId) -> Result<Option<ScopeClaim>, Failure> {
        match self.store.order(order).await {
            Ok(order) => Ok(decode(&order)?.scope),
            Err(StoreError::NoOrder(_)) => Ok(None),
            Err(error) => Err(error).or_fail(),
        }
    }

    /// Keeps with a run that ends what its order needs to know: that nothing of it was started, and
    /// what it changed outside of the declared scope, which is a warning among its events too.
    pub async fn note_for_order(
        &self,
        run: &StoredRun,
        mut details: RunDetails,
        outcome: &Outcome,
        is_undone: bool,
        events: &mut Vec<EventKind>,
    ) -> Result<(), Failure> {
        if let Outcome::Changes { head, .. } = outcome {
            match self.outside_scope(&run.order, &details, head).await {
                Ok(outside) => {
                    let redactor = self.secrets_of(&details).await.redactor;
                    let paths = outside.iter();
                    details.outside_scope =
                        paths.map(|path| redactor.text(path).into_owned()).collect();
                }
                // Nothing is kept from its end by a comparison.
                Err(failure) => {
                    let message =
                        format!("the changes were not compared with the declared scope: {failure}");
                    events.push(EventKind::Warning { message });
                }
            }
        }
        if !details.outside_scope.is_empty() {
            let message = in_words(&details.outside_scope);
            events.push(EventKind::Warning { message });
        }
        details.undone = is_undone;
        (details.spent, details.limited) = self.spent_in_all(&run.id, &details).await?;
        let is_changed = matches!(outcome, Outcome::Changes { .. });
        if details.undone || is_changed || details.spent.is_some() {
            let fence = self.fence(&run.id).await?;
            let record = details.encode()?;
            self.store
                .set_details(fence, &run.id, &record)
                .await
                .or_fail()?;
        }
        Ok(())
    }

    /// Files that the commits up to `head` change outside of what the order declares.
    async fn outside_scope(
        &self,
        order: &OrderId,
        details: &RunDetails,
        head: &str,
    ) -> Result<Vec<String>, Failure> {
        let Some(claim) = self.claim_of(order).await? else {
            return Ok(Vec::new());
        };
        let (details, head) = (details.clone(), head.to_owned());
        let looking = tokio::task::spawn_blocking(move || {
            let diff = details.repository()?.diff(&details.worktree, &head)?;
            let changed = diff.files.into_iter().map(|file| file.path);
            Ok::<_, Failure>(changed.collect::<Vec<_>>())
        });
        let changed = looking.await.map_err(join)??;
        Ok(outside(&claim, &changed))
    }
}

/// Those of the paths that no pattern of the claim matches.
fn outside(claim: &ScopeClaim, changed: &[String]) -> Vec<String> {
    changed
        .iter()
        .filter(|path| !covers(&claim.patterns, path))
        .take(KEPT)
        .cloned()
        .collect()
}

/// The warning that a run's feed gets.
fn in_words(outside: &[String]) -> String {
    let named: Vec<String> = outside
        .iter()
        .take(NAMED)
        .map(|path| sanitize_line(path))
        .collect();
    let more = match outside.len() {
        many if many > NAMED => format!(", and {} more", many - NAMED),
        _ => String::new(),
    };
    format!(
        "changed outside of the order's declared scope: {}{more}",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(patterns: &[&str]) -> ScopeClaim {
        ScopeClaim {
            patterns: patterns
                .iter()
                .map(|pattern| (*pattern).to_owned())
                .collect(),
            enforcement: Default::default(),
            strict: false,
        }
    }

    fn drift(patterns: &[&str], changed: &[&str]) -> Vec<String> {
        let changed: Vec<String> = changed.iter().map(|path| (*path).to_owned()).collect();
        outside(&claim(patterns), &changed)
    }

    #[test]
    fn what_no_pattern_matches_is_outside() {
        let changed = ["src/a.rs", "src/deep/b.rs", "docs/x.md", "README"];
        assert_eq!(drift(&["src/**", "docs/"], &changed), ["README"]);
        assert_eq!(
            drift(&["*.md"], &changed),
            ["src/a.rs", "src/deep/b.rs", "README"]
        );
        assert!(drift(&["**"], &changed).is_empty());
    }

    #[test]
    fn a_file_whose_name_looks_like_a_pattern_is_taken_by_its_letters() {
        assert_eq!(
            drift(&["src/**"], &["*", "[s]rc/x", "src/[x]"]),
            ["*", "[s]rc/x"]
        );
        assert!(drift(&["docs/"], &["docs/a b#!.md"]).is_empty());
    }

    #[test]
    fn a_warning_names_a_few_and_counts_the_rest() {
        let many: Vec<String> = (0..12).map(|number| format!("f{number}")).collect();
        let words = in_words(&many);
        assert!(words.ends_with("f9, and 2 more"), "{words}");
        assert!(
            in_words(&["a\u{1b}[2Jb".into()]).contains("a␛"),
            "unsafe text"
        );
    }
}
