//! Repositories: one looked at before anything is run in it, and those that had runs.

use crate::api::{ImportView, KnownRepo, ProjectView, RepoRequest, RepoView, Repos};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, join};
use crate::policies::open_repository;
use crate::project_file::ProjectFile;
use crate::runs::name_of;
use foreman_domain::{Code, Failure};
use std::path::PathBuf;

/// Repositories that are listed.
const MOST: u32 = 500;

impl Engine {
    /// Looks at a repository. Nothing of it is run.
    pub async fn inspect_repository(&self, request: RepoRequest) -> Result<RepoView, Failure> {
        if !request.path.is_absolute() {
            return Err(Failure::new(
                Code::Usage,
                "the repository must be named by an absolute path",
            ));
        }
        let repo = open_repository(&request.path).await?;
        let looked_at = repo.clone();
        let looking = tokio::task::spawn_blocking(move || looked_at.look());
        let looks = looking.await.map_err(join)??;
        let mut warnings = looks.warnings;
        let project = match self.project_of(&repo).await {
            Ok(project) => project,
            Err(failure) => {
                warnings.push(failure.message.clone());
                unreadable(repo.root().to_owned())
            }
        };
        let policy_file = match self.project_file(&repo).await {
            Ok(file) => standing(file.as_ref()),
            Err(failure) => {
                warnings.push(failure.message);
                "untrusted".to_owned()
            }
        };
        let imports = project
            .sources
            .iter()
            .filter(|source| source.file != crate::provision::project::OWN)
            .map(|source| ImportView {
                file: source.file.clone(),
                would_run: source.setup.iter().cloned().collect(),
                would_copy: source.copy.clone(),
            })
            .collect();
        Ok(RepoView {
            name: name_of(repo.root()),
            root: repo.root().to_owned(),
            branch: looks.branch,
            branches: looks.branches,
            submodules: looks.submodules,
            lfs: looks.lfs,
            sparse: looks.sparse,
            hooks: looks.hooks,
            size_bytes: looks.size_bytes,
            commits: looks.commits,
            dirty_files: looks.dirty_files,
            remote: looks.remote,
            imports,
            project,
            policy_file,
            warnings,
        })
    }

    /// Repositories that had runs, the one used last first.
    pub async fn list_repositories(&self) -> Result<Repos, Failure> {
        let mut repos = Vec::new();
        for used in self.store.used_repositories(MOST).await.or_fail()? {
            let details = RunDetails::of(&self.store.run(&used.newest).await.or_fail()?)?;
            let reachable = !details.repo_is_away();
            let (mut policy_file, mut project_file) = (None, None);
            if reachable && let Ok(repo) = open_repository(&details.repo).await {
                policy_file = match self.project_file(&repo).await {
                    Ok(file) => Some(standing(file.as_ref())),
                    Err(_) => None,
                };
                project_file = match self.project(&repo).await {
                    Ok(project) => Some(project.standing.to_owned()),
                    Err(_) => None,
                };
            }
            repos.push(KnownRepo {
                name: name_of(&details.repo),
                path: details.repo,
                reachable,
                runs: used.runs,
                last_used: used.last_used,
                policy_file,
                project_file,
            });
        }
        Ok(Repos { repos })
    }
}

fn standing(file: Option<&ProjectFile>) -> String {
    file.map_or("absent", ProjectFile::standing).to_owned()
}

/// What is shown of files that cannot be read: nothing of them counts.
fn unreadable(repo: PathBuf) -> ProjectView {
    ProjectView {
        repo,
        sources: Vec::new(),
        copies: Vec::new(),
        more: 0,
        warnings: Vec::new(),
        setup: None,
        standing: "untrusted".to_owned(),
        expect: String::new(),
    }
}
