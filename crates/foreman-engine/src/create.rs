//! Making a run: checked first, recorded, prepared step by step, started; undone where it fails.
//!
//! Nothing is recorded or made before everything that can be refused was looked at. From the record on
//! the run has its turn held, so that nobody takes a half-made one for an abandoned one; an engine that
//! dies in between leaves a record without a spec, which the next one undoes ([`Engine::settle`]).

use crate::api::{RunCreate, RunView};
use crate::details::{RECORD_VERSION, RunDetails};
use crate::engine::Engine;
use crate::environment::{Account, check_asked, of_steps};
use crate::failures::{OrFail, join};
use crate::layout::inside_a_repository;
use crate::log::RunLog;
use crate::path_rules::{Own, binds_of};
use crate::policies::{Layers, open_repository};
use crate::programs::{refuse_unseen, search_path};
use crate::spec::{Parts, Work, give_away, spec, write_spec};
use foreman_cage::Bind;
use foreman_domain::{
    At, Code, EventKind, FailReason, Failure, OrderId, Outcome, RunEvent, RunId, RunState,
    sanitize_line,
};
use foreman_git::{Preflight, Repository, Shadow, Worktree};
use foreman_policy::Policy;
use foreman_shim::launch::start_shim;
use foreman_store::{NewRun, RequestKey};
use std::path::PathBuf;
use std::sync::Arc;

/// Longest command line, as the kernel takes it at least.
const LONGEST_ARGV: usize = 1 << 20;
const LONGEST_TITLE: usize = 200;
const MOST_CHECKS: usize = 64;

/// Everything that was found out before anything was made.
struct Plan {
    repo: Repository,
    pre: Preflight,
    layers: Layers,
    account: Account,
    path_binds: Vec<Bind>,
    shim: PathBuf,
    work: Work,
}

impl Engine {
    /// Prepares and starts a run: the next attempt of `order`, or of an order of its own.
    pub async fn create_run(
        self: &Arc<Self>,
        order: Option<OrderId>,
        request: RunCreate,
        key: &RequestKey,
    ) -> Result<RunView, Failure> {
        if let Some(view) = self.created_before(key).await? {
            return Ok(view);
        }
        check(&request)?;
        let plan = self.plan(&request).await?;
        let tier = self.tier_for(&request.accept_weaker).await?;

        let id = RunId::from_random(rand::random());
        let _turn = self.turn(&id).await;
        let place = self.layout.worktree(&plan.repo.slug(), &id);
        let details = RunDetails {
            v: RECORD_VERSION,
            repo: plan.repo.root().to_owned(),
            worktree: Worktree::planned(&id, &plan.pre, &place),
            shadow: self.layout.shadow(&id),
            files: self.layout.files(&id),
            spec: self.layout.spec(&id),
            nonce: format!("{:032x}", rand::random::<u128>()),
            tier,
            bounds: plan.layers.bounds.clone(),
            unattended: request.unattended,
            checks: request.checks.clone(),
        };
        let new = NewRun {
            order: order.unwrap_or_else(|| OrderId::of_single_run(&id)),
            id: id.clone(),
            repo_key: plan.repo.slug(),
            title: title(&request),
            details: details.encode()?,
            base_policy: plan.layers.policy.clone(),
            at: At::now(),
            key: Some(key.clone()),
        };
        let policy = self.store.insert_run(self.epoch, &new).await.or_fail()?;
        if let Err(failure) = self.prepare(&id, &details, &plan, &request, policy).await {
            // A supervisor that wrote down who it is has begun, however soon it ended: what it left
            // is looked at like that of any other.
            if details.shim().is_none() {
                self.give_up(&id, &details, &failure).await;
                return Err(failure);
            }
            tracing::warn!(run = %id, %failure, "the supervisor began and was not seen to answer");
        }
        let stored = self.store.run(&id).await.or_fail()?;
        self.attach(&stored)?;
        self.view_of(&id).await
    }

    /// The run that the same request made when it was asked before, by a caller that lost its engine
    /// since. One that was never started is made anew.
    async fn created_before(
        self: &Arc<Self>,
        key: &RequestKey,
    ) -> Result<Option<RunView>, Failure> {
        let Some(subject) = self.store.subject_of_request(key).await.or_fail()? else {
            return Ok(None);
        };
        let Ok(id) = subject.parse::<RunId>() else {
            return Ok(None);
        };
        let stored = self.store.run(&id).await.or_fail()?;
        if stored.state.is_live() && self.live.get(&id).is_none() {
            let turn = self.turn(&id).await;
            let has_shim = self.adopt(&stored)?;
            drop(turn);
            if !has_shim {
                self.settle(&id).await?;
            }
        }
        let view = self.view_of(&id).await?;
        let never_started = matches!(
            view.state,
            RunState::Failed {
                reason: FailReason::Provision { .. }
            }
        );
        Ok(Some(view).filter(|_| !never_started))
    }

    /// Looks at everything that could refuse the run.
    async fn plan(&self, request: &RunCreate) -> Result<Plan, Failure> {
        let shim = self.options.find_shim()?;
        let repo = open_repository(&request.repo).await?;
        let (looked_at, base) = (repo.clone(), request.base.clone());
        let looking = tokio::task::spawn_blocking(move || looked_at.preflight(base.as_deref()));
        let pre = looking.await.map_err(join)??;
        self.refuse_data_in_a_repository().await?;
        let mut layers = self.layers(&repo, request).await?;
        let account = Account::of_this_process(|name| std::env::var_os(name));
        let (rules, home) = (layers.policy.paths.clone(), account.home.clone());
        let layout = self.layout.clone();
        let resolving = tokio::task::spawn_blocking(move || {
            let own = Own {
                home: &home,
                data: &layout.data,
                sockets: &layout.sockets,
            };
            binds_of(&rules, &own)
        });
        let (path_binds, warnings) = resolving.await.map_err(join)??;
        layers.warnings.extend(warnings);
        if let Some(program) = request.argv.first()
            && !request.env.iter().any(|(name, _)| name == "PATH")
        {
            let path = std::env::var_os("PATH");
            refuse_unseen(program, path.as_deref(), &path_binds, &account.home)?;
        }
        let work = Work {
            setup: request.setup.clone(),
            argv: request.argv.clone(),
            checks: request.checks.clone(),
            terminal: request.terminal,
        };
        Ok(Plan {
            repo,
            pre,
            layers,
            account,
            path_binds,
            shim,
            work,
        })
    }

    /// A worktree inside another one would be that one's untracked files.
    async fn refuse_data_in_a_repository(&self) -> Result<(), Failure> {
        let place = self.layout.worktrees();
        match open_repository(&place).await {
            Ok(around) => Err(inside_a_repository(&self.layout.data, around.root())),
            Err(_) => Ok(()),
        }
    }

    /// From the record to the running shim.
    async fn prepare(
        &self,
        id: &RunId,
        details: &RunDetails,
        plan: &Plan,
        request: &RunCreate,
        policy: Policy,
    ) -> Result<(), Failure> {
        let log = self.open_log(id, details).await?;
        let state = EventKind::State {
            to: RunState::Provisioning,
        };
        let mut first = vec![
            state,
            progress("worktree", "making the worktree and its branch"),
        ];
        let warnings = plan
            .pre
            .warnings
            .iter()
            .chain(&plan.layers.warnings)
            .cloned();
        first.extend(warnings.map(|message| EventKind::Warning { message }));
        self.append(&log, first).await?;

        let (repo, pre) = (plan.repo.clone(), plan.pre.clone());
        let (run, place) = (id.clone(), details.worktree.path.clone());
        let making = tokio::task::spawn_blocking(move || {
            if let Some(above) = place.parent() {
                crate::layout::private_dir(above)?;
            }
            repo.create_worktree(&run, &pre, &place)
                .map_err(Failure::from)
        });
        let worktree = making.await.map_err(join)??;
        let mut details = details.clone();
        if worktree != details.worktree {
            details.worktree = worktree;
            self.store
                .set_details(self.epoch, id, &details.encode()?)
                .await
                .or_fail()?;
        }

        self.say(&log, "shadow", "making the run's own git directory")
            .await?;
        let (repo, owned, run) = (plan.repo.clone(), details.clone(), id.clone());
        let making = tokio::task::spawn_blocking(move || -> Result<Shadow, Failure> {
            let shadow = repo.shadow(&owned.worktree, &owned.shadow)?;
            give_away(&run, &[owned.worktree.path, owned.shadow])?;
            Ok(shadow)
        });
        let shadow = making.await.map_err(join)??;

        self.say(&log, "cage", "building the cage").await?;
        let path = search_path(std::env::var_os("PATH").as_deref(), &plan.path_binds);
        let env = of_steps(
            &plan.account,
            &path,
            |name| std::env::var_os(name),
            std::env::vars_os(),
            request.terminal.is_some(),
            &request.env,
            &shadow.env,
        )?;
        let spec = spec(Parts {
            run: id,
            details: &details,
            account: &plan.account,
            layers: &plan.layers,
            policy,
            path_binds: plan.path_binds.clone(),
            hidden: self.layout.own_places(),
            shadow,
            env,
            work: &plan.work,
            proxy: &request.proxy,
            accept_weaker: request.accept_weaker.clone(),
            shim: &plan.shim,
        });
        // The shim writes the journal from here on, so it must be let go of.
        drop(log);
        let (path, shim) = (details.spec.clone(), plan.shim.clone());
        let starting = tokio::task::spawn_blocking(move || {
            write_spec(&path, &spec)?;
            start_shim(&shim, &path).or_fail()
        });
        starting.await.map_err(join)?.map(drop)
    }

    async fn say(&self, log: &RunLog, stage: &str, message: &str) -> Result<(), Failure> {
        self.append(log, vec![progress(stage, message)])
            .await
            .map(drop)
    }

    /// Brings a run that could not be started to rest, and takes away what was made for it.
    async fn give_up(&self, id: &RunId, details: &RunDetails, failure: &Failure) {
        // Without its spec nothing of it can start any more.
        let _ = std::fs::remove_file(&details.spec);
        let mut events = Vec::new();
        self.remove_unstarted(details, &mut events).await;
        let message = failure.message.clone();
        let ended = RunEvent::Ended(Outcome::Failed {
            reason: FailReason::Provision { message },
        });
        let recording = async {
            let log = self.open_log(id, details).await?;
            self.advance(&log, events, ended).await
        };
        if let Err(error) = recording.await {
            tracing::warn!(run = %id, %error, "a run that could not start was not recorded as failed");
        }
    }

    /// What an engine left that died while it prepared a run.
    pub async fn undo_unstarted(
        &self,
        details: &RunDetails,
        events: &mut Vec<EventKind>,
    ) -> Outcome {
        self.remove_unstarted(details, events).await;
        let message = "the engine ended while it prepared the run; nothing was started".to_owned();
        Outcome::Failed {
            reason: FailReason::Provision { message },
        }
    }

    async fn remove_unstarted(&self, details: &RunDetails, events: &mut Vec<EventKind>) {
        let owned = details.clone();
        let removing = tokio::task::spawn_blocking(move || -> Result<(), Failure> {
            if !owned.worktree.path.exists() && !owned.shadow.exists() {
                return Ok(());
            }
            let run = owned
                .worktree
                .run
                .parse::<RunId>()
                .map_err(crate::failures::internal)?;
            owned
                .repository()?
                .snapshot_and_remove(&run, &owned.worktree, &owned.shadow)?;
            Ok(())
        });
        if let Err(error) = removing.await.map_err(join).and_then(|removed| removed) {
            let message = format!("what was made for the run was not taken away: {error}");
            events.push(EventKind::Warning { message });
        }
    }
}

fn progress(stage: &str, message: &str) -> EventKind {
    EventKind::Progress {
        stage: stage.into(),
        message: message.into(),
    }
}

fn title(request: &RunCreate) -> String {
    let title = request
        .title
        .clone()
        .unwrap_or_else(|| request.argv.join(" "));
    let mut title = sanitize_line(title.trim());
    if title.chars().count() > LONGEST_TITLE {
        title = title.chars().take(LONGEST_TITLE - 1).chain(['…']).collect();
    }
    title
}

fn check(request: &RunCreate) -> Result<(), Failure> {
    let refuse = |what: &str| Err(Failure::new(Code::BadInput, what));
    if !request.repo.is_absolute() {
        return Err(Failure::new(
            Code::Usage,
            "the repository must be named by an absolute path",
        ));
    }
    if request.argv.first().is_none_or(String::is_empty) {
        return Err(Failure::new(Code::Usage, "there is no command to run")
            .hint("Name it behind `--`: foreman run -- COMMAND."));
    }
    let commands = request
        .argv
        .iter()
        .chain(&request.setup)
        .chain(&request.checks);
    let (mut bytes, mut has_nul) = (0, false);
    for text in commands {
        bytes += text.len() + 1;
        has_nul |= text.contains('\0');
    }
    if has_nul {
        return refuse("a command holds a NUL byte, which no program can be given");
    }
    if bytes > LONGEST_ARGV {
        return refuse("the command line is longer than 1 MiB");
    }
    if request.checks.len() > MOST_CHECKS {
        return refuse("a run can have at most 64 checks");
    }
    if request
        .setup
        .iter()
        .chain(&request.checks)
        .any(|command| command.trim().is_empty())
    {
        return refuse("a setup or check command is empty");
    }
    if request
        .terminal
        .is_some_and(|size| size.columns == 0 || size.rows == 0)
    {
        return refuse("a terminal needs columns and rows");
    }
    check_asked(&request.env)
}
