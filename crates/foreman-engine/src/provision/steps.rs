//! What each step does, for the run of a request that was looked at before.

use super::copying::{Found, Item, Wanted, anchored, copy};
use super::project::{Project, select};
use super::{Cut, Saga, Step};
use crate::api::RunCreate;
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::environment::{Account, of_steps};
use crate::failures::{OrFail, internal, join};
use crate::gate::check_plan::CheckPlan;
use crate::layout::private_dir;
use crate::log::RunLog;
use crate::policies::Layers;
use crate::programs::handed_on::hand_on;
use crate::programs::search_path;
use crate::spec::{Parts, Work, give_away, has_namespaces, spec, with_private_places};
use crate::toolchains::Toolchains;
use crate::words::count;
use foreman_cage::Bind;
use foreman_domain::{Code, EventKind, Failure, RunId};
use foreman_git::{Preflight, Repository, Shadow};
use foreman_policy::Policy;
use foreman_shim::protocol::handed_over;
use std::path::PathBuf;
use std::sync::Arc;

/// How often a repository that somebody else works on is waited for again.
const TRIES: u32 = 3;
/// Paths that are named in a line of progress.
const NAMED: usize = 10;

/// Everything that was found out before anything was made.
#[derive(Debug)]
pub(crate) struct Plan {
    pub repo: Repository,
    pub pre: Preflight,
    pub layers: Layers,
    pub account: Account,
    /// What path rules and toolchains show.
    pub path_binds: Vec<Bind>,
    pub toolchains: Toolchains,
    pub shim: PathBuf,
    pub work: Work,
    pub project: Project,
}

/// One run that is being made ready.
pub(crate) struct Provisioning<'a> {
    pub engine: &'a Arc<Engine>,
    pub id: RunId,
    pub details: RunDetails,
    pub plan: &'a Plan,
    pub request: &'a RunCreate,
    pub policy: Policy,
    /// Let go of when the supervisor takes over.
    log: Option<RunLog>,
    shadow: Option<Shadow>,
    /// The step that goes on.
    now: Step,
    /// Told when the run is brought to rest: the log may not take them any more before.
    pub untold: Vec<EventKind>,
}

impl<'a> Provisioning<'a> {
    /// Of a run that is recorded; `log` is open for writing.
    pub fn new(
        engine: &'a Arc<Engine>,
        details: RunDetails,
        plan: &'a Plan,
        request: &'a RunCreate,
        policy: Policy,
        log: RunLog,
    ) -> Result<Self, Failure> {
        Ok(Self {
            engine,
            id: details.worktree.run.parse().map_err(internal)?,
            details,
            plan,
            request,
            policy,
            log: Some(log),
            shadow: None,
            now: Step::Base,
            untold: Vec::new(),
        })
    }

    /// Lets go of the log, for whoever brings the run to rest.
    pub fn let_go(&mut self) {
        self.log = None;
    }

    /// Tells what happens in the step that goes on.
    pub(super) async fn say(&self, message: &str) -> Result<(), Failure> {
        let stage = self.now.word().to_owned();
        let message = message.to_owned();
        self.tell(vec![EventKind::Progress { stage, message }])
            .await
    }

    pub(super) async fn tell(&self, events: Vec<EventKind>) -> Result<(), Failure> {
        match &self.log {
            Some(log) if !events.is_empty() => self.engine.append(log, events).await.map(drop),
            _ => Ok(()),
        }
    }

    pub(super) async fn save_details(&self) -> Result<(), Failure> {
        let fence = self.engine.fence(&self.id).await?;
        self.engine
            .store
            .set_details(fence, &self.id, &self.details.encode()?)
            .await
            .or_fail()
    }

    pub(super) async fn is_to_stop(&self) -> Result<bool, Failure> {
        let run = self.engine.store.run(&self.id).await.or_fail()?;
        Ok(run.stop_asked_at.is_some())
    }

    async fn look_for_room(&mut self) -> Result<(), Failure> {
        let (repo, place) = (self.plan.repo.clone(), self.details.worktree.path.clone());
        let commit = self.details.worktree.base_commit.clone();
        blocking(move || Ok(repo.refuse_without_room(&commit, &place)?))
            .await
            .map(drop)
    }

    async fn make_worktree(&mut self) -> Result<(), Failure> {
        let mut tries = 0;
        let worktree = loop {
            let (repo, owned) = (self.plan.repo.clone(), self.details.clone());
            let (run, pre) = (self.id.clone(), self.plan.pre.clone());
            let made = blocking(move || {
                let place = owned.worktree.path.clone();
                if let Some(above) = place.parent() {
                    private_dir(above)?;
                }
                // Whatever an earlier try left.
                repo.unmake_worktree(&run, &owned.worktree)?;
                let pre = Preflight {
                    base_commit: owned.worktree.base_commit.clone(),
                    ..pre
                };
                let worktree = repo.create_worktree(&run, &pre, &place)?;
                repo.keep_base(&worktree)?;
                Ok(worktree)
            });
            match made.await {
                Err(failure) if failure.code == Code::Busy && tries < TRIES => {
                    tries += 1;
                    self.say(&format!("waiting again: {}", failure.message))
                        .await?;
                }
                made => break made?,
            }
        };
        if worktree != self.details.worktree {
            self.details.worktree = worktree;
            self.save_details().await?;
        }
        Ok(())
    }

    async fn fill_submodules(&mut self) -> Result<(), Failure> {
        let (repo, worktree) = (self.plan.repo.clone(), self.details.worktree.clone());
        let done = blocking(move || Ok(repo.fill_submodules(&worktree)?)).await?;
        let mut events = Vec::new();
        if !done.filled.is_empty() {
            events.push(EventKind::Progress {
                stage: self.now.word().to_owned(),
                message: format!("filled from the local copy: {}", listed(&done.filled)),
            });
        }
        let missing = done.missing.into_iter();
        events.extend(missing.map(|what| EventKind::Warning {
            message: format!("submodule {what}"),
        }));
        self.tell(events).await
    }

    async fn copy_files(&mut self) -> Result<(), Failure> {
        let asked = Wanted {
            patterns: anchored(&self.request.prepare.copy),
            only_ignored: false,
        };
        let project = self.plan.project.wanted.clone();
        if asked.patterns.is_empty() && project.patterns.is_empty() {
            return Ok(());
        }
        let (repo, base) = (
            self.plan.repo.clone(),
            self.details.worktree.base_commit.clone(),
        );
        let place = self.details.worktree.path.clone();
        let (found, idle) = blocking(move || {
            let idle = without_effect(&repo, &base, &asked)?;
            let mut found = select(&repo, &base, &asked)?;
            add(&mut found, select(&repo, &base, &project)?);
            copy(repo.root(), &place, &found.items)?;
            Ok((found, idle))
        })
        .await?;
        let paths: Vec<String> = found.items.iter().map(|item| item.path.clone()).collect();
        let bytes: u64 = found.items.iter().map(|item| item.bytes).sum();
        let mut events = Vec::new();
        if !paths.is_empty() {
            events.push(EventKind::Progress {
                stage: self.now.word().to_owned(),
                message: format!(
                    "copied {} ({bytes} bytes): {}",
                    count(paths.len(), "file", "files"),
                    listed(&paths)
                ),
            });
        }
        let warnings = found.warnings.into_iter().chain(idle);
        events.extend(warnings.map(|message| EventKind::Warning { message }));
        self.tell(events).await?;
        self.details.copied = paths;
        self.save_details().await
    }

    async fn make_shadow(&mut self) -> Result<(), Failure> {
        let (repo, owned, run) = (
            self.plan.repo.clone(),
            self.details.clone(),
            self.id.clone(),
        );
        let shadow = blocking(move || {
            super::undo::undo(&owned, Step::Shadow)?;
            let mut shadow = repo.shadow_without(&owned.worktree, &owned.shadow, &owned.copied)?;
            if !has_namespaces(owned.confinement) {
                shadow = shadow.in_place(&owned.worktree, &owned.shadow)?;
            }
            give_away(&run, &[owned.worktree.path, owned.shadow])?;
            Ok(shadow)
        });
        self.shadow = Some(shadow.await?);
        Ok(())
    }

    async fn launch(&mut self) -> Result<(), Failure> {
        // Done before, whatever has become of it since.
        if self.details.shim().is_some() {
            return Ok(());
        }
        let shadow = self
            .shadow
            .clone()
            .ok_or_else(|| internal("a run was to start without its git directory"))?;
        let path = search_path(
            std::env::var_os("PATH").as_deref(),
            &self.plan.toolchains.path(),
            &self.plan.path_binds,
        );
        // What was asked for by name comes last, and counts.
        let mut asked = self.plan.toolchains.variables();
        asked.extend(self.plan.layers.passed());
        asked.extend(self.request.env.iter().cloned());
        let env = of_steps(
            &self.plan.account,
            &path,
            |name| std::env::var_os(name),
            std::env::vars_os(),
            self.request.terminal.is_some(),
            &asked,
            &shadow.env,
        )?;
        let named = handed_over(&self.details.secrets, self.details.key.as_ref());
        let (secrets, versions) = self.engine.handed(&named).await?;
        let lent = self.plan.work.harness.as_ref();
        let lent = lent.map(|one| one.lent.clone()).unwrap_or_default();
        if self.details.secret_versions != versions || self.details.lent != lent {
            self.details.secret_versions = versions;
            self.details.lent = lent;
            self.save_details().await?;
        }
        // The shim writes the journal from here on, so it must be let go of.
        self.let_go();
        let (owned, run) = (self.details.clone(), self.id.clone());
        let mut work = self.plan.work.clone();
        if let (Some(harness), Some(resumes)) = (&mut work.harness, &self.details.resumes) {
            harness.go_on(&resumes.session);
        }
        let (harness, home) = (work.harness.clone(), self.plan.account.home.clone());
        let home_binds = blocking(move || {
            super::undo::undo(&owned, Step::Launch)?;
            let (Some(harness), Some(place)) = (harness, &owned.agent_home) else {
                return Ok(Vec::new());
            };
            private_dir(place)?;
            if let Some(resumes) = &owned.resumes {
                hand_on(resumes, place, harness.keeps(), &run)?;
            }
            let binds = harness.make_home(place, &home, owned.resumes.is_some())?;
            give_away(&run, std::slice::from_ref(place))?;
            Ok(binds)
        })
        .await?;
        let env = with_private_places(env, &self.details);
        let spec = spec(Parts {
            run: &self.id,
            details: &self.details,
            account: &self.plan.account,
            layers: &self.plan.layers,
            policy: self.policy.clone(),
            path_binds: self.plan.path_binds.clone(),
            home_binds,
            hidden: self.engine.layout.own_places(),
            shadow,
            env,
            work: &work,
            proxy: &self.request.proxy,
            accept_weaker: self.request.accept_weaker.clone(),
            shim: &self.plan.shim,
        });
        let checks = &self.details.checks;
        let check_plan =
            (!checks.is_empty()).then(|| CheckPlan::of(&spec, &self.plan.path_binds, checks));
        let owned = self.details.clone();
        let planned = blocking(move || match check_plan {
            Some(check_plan) => check_plan.write(&owned),
            None => Ok(()),
        });
        let started = match planned.await {
            Ok(()) => self.engine.launch(&self.details, spec, secrets).await,
            Err(failure) => Err(failure),
        };
        match started {
            Ok(_) => Ok(()),
            // A supervisor that wrote down who it is has begun, however soon it ended: what it left is
            // looked at like that of any other.
            Err(failure) if self.details.shim().is_some() => {
                tracing::warn!(run = %self.id, %failure, "the supervisor began and was not seen to answer");
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }
}

impl Saga for Provisioning<'_> {
    async fn begin(&mut self, step: Step) -> Result<(), Cut> {
        if self.is_to_stop().await? {
            return Err(Cut::Stopped);
        }
        self.now = step;
        let words = match step {
            Step::Base => "choosing the commit to start from",
            Step::Room => "looking for room on the disk",
            Step::Worktree => "making the worktree and its branch",
            Step::Submodules => "filling submodules from the local copies",
            Step::Copies => "copying the files that were asked for",
            Step::Shadow => "making the run's own git directory",
            Step::Launch => "building the cage",
        };
        // What has nothing to do says nothing.
        let nothing = match step {
            Step::Submodules => !self.plan.pre.has_submodules,
            Step::Copies => {
                self.request.prepare.copy.is_empty() && self.plan.project.wanted.patterns.is_empty()
            }
            Step::Room => true,
            Step::Base | Step::Worktree | Step::Shadow | Step::Launch => false,
        };
        if !nothing {
            self.say(words).await?;
        }
        Ok(())
    }

    async fn apply(&mut self, step: Step) -> Result<(), Cut> {
        match step {
            Step::Base => return self.choose_base().await,
            Step::Room => self.look_for_room().await?,
            Step::Worktree => self.make_worktree().await?,
            Step::Submodules => self.fill_submodules().await?,
            Step::Copies => self.copy_files().await?,
            Step::Shadow => self.make_shadow().await?,
            Step::Launch => self.launch().await?,
        }
        Ok(())
    }

    async fn undo(&mut self, step: Step) {
        let mut untold = std::mem::take(&mut self.untold);
        self.engine
            .undo_step(&self.details, step, &mut untold)
            .await;
        self.untold = untold;
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(join)?
}

/// What is asked for and is not there, as sentences.
fn without_effect(repo: &Repository, base: &str, asked: &Wanted) -> Result<Vec<String>, Failure> {
    let mut idle = Vec::new();
    for pattern in &asked.patterns {
        let one = Wanted {
            patterns: vec![pattern.clone()],
            only_ignored: asked.only_ignored,
        };
        if !pattern.contains('!') && select(repo, base, &one)?.items.is_empty() {
            let shown = foreman_domain::sanitize_line(pattern.trim_start_matches('/'));
            idle.push(format!(
                "nothing is copied for \"{shown}\": there is no such file here that git does not track"
            ));
        }
    }
    Ok(idle)
}

fn add(found: &mut Found, more: Found) {
    let known = |item: &Item, items: &[Item]| items.iter().any(|one| one.path == item.path);
    for item in more.items {
        if !known(&item, &found.items) {
            found.items.push(item);
        }
    }
    for warning in more.warnings {
        if !found.warnings.contains(&warning) {
            found.warnings.push(warning);
        }
    }
}

fn listed(paths: &[String]) -> String {
    let some: Vec<String> = paths
        .iter()
        .take(NAMED)
        .map(|path| foreman_domain::sanitize_line(path))
        .collect();
    match paths.len().saturating_sub(some.len()) {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}
