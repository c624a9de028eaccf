//! The commits of a run, in pages, and one of them by itself.
//!
//! What is shown of a single commit has a token of its own, which only reads more of that commit: it never
//! stands for having seen the whole, so nothing is merged by it.

use crate::api::{CommitPage, CommitView, CommitsRequest, DiffView};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use crate::review::{git, moved, reviewable_head, view};
use crate::tokens;
use foreman_domain::Failure;
use foreman_git::FileDiff;
use foreman_store::StoredRun;

/// Commits of one page, when nobody says.
const USUAL: u32 = 100;
/// The most commits of one page.
const MOST: u32 = 200;

impl Engine {
    /// A page of the commits that a merge of a run would bring.
    pub(crate) async fn commits(&self, request: CommitsRequest) -> Result<CommitPage, Failure> {
        let id = self.find_run(&request.run).await?;
        let run = self.store.run(&id).await.or_fail()?;
        let details = RunDetails::of(&run)?;
        let head = reviewable_head(&run, &details).await?;
        let limit = request.limit.unwrap_or(USUAL).clamp(1, MOST);
        let skip = request.skip;
        let found = git(&details, move |repo, details| {
            repo.commits(&details.worktree, &head, skip as usize, limit as usize)
        })
        .await?;
        let expect = tokens::of_diff(&found.head, &found.base_now, run.revision);
        if request.expect.is_some_and(|expected| expected != expect) {
            return Err(moved(&id));
        }
        let given = u32::try_from(found.commits.len()).unwrap_or(u32::MAX);
        let next = skip.saturating_add(given);
        let commits = found.commits.into_iter().map(|commit| CommitView {
            sha: commit.id,
            subject: commit.subject,
            authored_at: commit.authored_at,
            parents: commit.parents,
            files: commit.files,
            added: commit.added,
            removed: commit.removed,
        });
        let page = CommitPage {
            expect,
            head: found.head,
            total: found.listed,
            truncated: found.truncated,
            commits: commits.collect(),
            next: (given > 0 && next < found.listed).then_some(next),
        };
        self.without_secrets(page, &details).await
    }

    /// What one commit of the run up to `head` changes.
    pub(crate) async fn diff_of_commit(
        &self,
        run: &StoredRun,
        details: &RunDetails,
        (commit, head): (String, String),
        with_patch: bool,
    ) -> Result<DiffView, Failure> {
        let (tip, named) = (head.clone(), commit.clone());
        let (diff, base) = git(details, move |repo, details| {
            let diff = repo.diff_commit(&details.worktree, &tip, &named, with_patch)?;
            Ok((diff, repo.base_now(&details.worktree)?))
        })
        .await?;
        let mut shown = view(diff, None, run);
        let whole = tokens::of_diff(&head, &base, run.revision);
        shown.expect = tokens::of_commit(&whole, &commit);
        self.without_secrets(shown, details).await
    }

    /// What one commit of the run up to `head` changes in one file.
    pub(crate) async fn file_of_commit(
        &self,
        details: &RunDetails,
        (commit, head): (String, String),
        path: String,
    ) -> Result<FileDiff, Failure> {
        git(details, move |repo, details| {
            repo.diff_commit_file(&details.worktree, &head, &commit, &path)
        })
        .await
    }
}
