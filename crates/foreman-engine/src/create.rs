//! Making a run: checked first, recorded, prepared step by step, started; undone where it fails.
//!
//! Nothing is recorded or made before everything that can be refused was looked at. From the record on
//! the run has its turn held, so that nobody takes a half-made one for an abandoned one; an engine that
//! dies in between leaves a record without a shim, which the next one takes back and prepares anew
//! ([`Engine::settle`]).

use crate::api::{AgentChoice, BaseView, RunCreate, RunView};
use crate::details::{Follows, RECORD_VERSION, Resumes, RunDetails};
use crate::engine::Engine;
use crate::environment::{Account, check_asked};
use crate::failures::{OrFail, join};
use crate::gate::sync::short;
use crate::layout::inside_a_repository;
use crate::path_rules::{Own, binds_of};
use crate::policies::open_repository;
use crate::programs::agent_key;
use crate::programs::agents::{login_path, operator_path};
use crate::programs::harness::{self, Harness};
use crate::programs::refuse_unseen;
use crate::provision::copying::{anchored, check_patterns};
use crate::provision::project::Project;
use crate::provision::{Cut, FOLLOW_UP, Plan, Provisioning, run_steps};
use crate::spec::Work;
use crate::toolchains;
use foreman_agent::Profile;
use foreman_domain::{
    About, At, BoundKind, CancelCause, Code, EventKind, FailReason, Failure, OrderId, Outcome,
    RunEvent, RunId, RunState, Tier, sanitize_line,
};
use foreman_git::{GitError, Repository, Worktree};
use foreman_policy::{Bounds, Policy, SecretUse};
use foreman_store::{NewRun, RequestKey};
use std::ffi::OsString;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// Longest command line, as the kernel takes it at least.
const LONGEST_ARGV: usize = 1 << 20;
const LONGEST_TITLE: usize = 200;
const MOST_CHECKS: usize = 64;

impl Engine {
    /// Prepares and starts a run: the next attempt of `order`, or of an order of its own.
    pub async fn create_run(
        self: &Arc<Self>,
        order: Option<OrderId>,
        request: RunCreate,
        key: &RequestKey,
    ) -> Result<RunView, Failure> {
        Box::pin(self.create_run_from(order, request, None, key)).await
    }

    /// As [`Engine::create_run`], going on from what another run left where one is named.
    pub(crate) async fn create_run_from(
        self: &Arc<Self>,
        order: Option<OrderId>,
        request: RunCreate,
        follows: Option<GoingOn>,
        key: &RequestKey,
    ) -> Result<RunView, Failure> {
        if let Some(view) = self.created_before(key).await? {
            return Ok(view);
        }
        check(&request)?;
        self.refuse_while_draining()?;
        let mut plan = self.plan(&request).await?;
        if let Some(going_on) = &follows {
            plan.pre.base_commit.clone_from(&going_on.follows.head);
        }
        let tier = self.tier_for(&request).await?;
        refuse_key_without_a_gateway(&plan, tier.0)?;

        let id = RunId::from_random(rand::random());
        let turn = self.turn(&id).await;
        let mut details = self.planned(&id, &plan, &request, tier);
        let goes_on_from = follows
            .as_ref()
            .map(|going_on| going_on.follows.run.clone());
        if let Some(going_on) = follows {
            details.follows = Some(going_on.follows);
            match going_on.memory {
                Memory::Resumes(resumes) => details.resumes = Some(resumes),
                Memory::Afresh(why) => details.afresh = Some(why),
                Memory::None => {}
            }
            details.freshness = going_on.freshness;
        }
        let new = NewRun {
            order: order.unwrap_or_else(|| OrderId::of_single_run(&id)),
            id: id.clone(),
            repo_key: plan.repo.slug(),
            title: title(&request),
            details: details.encode()?,
            base_policy: plan.layers.policy.clone(),
            at: At::now(),
            key: Some(key.clone()),
            follows: goes_on_from,
        };
        self.sure().await?;
        let policy = self.store.insert_run(self.epoch, &new).await.or_fail()?;
        self.recorded(&id);
        let kept = serde_json::to_string(&request).map_err(crate::failures::internal)?;
        let keeping = self.store.keep_request(self.epoch, &id, &kept).await;
        let view = self.view_of(&id).await?;
        if let Err(error) = keeping.or_fail() {
            tracing::warn!(run = %id, %error, "the run cannot be tried again later");
        }
        let making = Making {
            details,
            plan,
            request,
            policy,
            is_new: true,
        };
        self.make_ready_in_a_task(id, making, turn);
        Ok(view)
    }

    /// What is kept about a run, before anything of it is made.
    pub(crate) fn planned(
        &self,
        id: &RunId,
        plan: &Plan,
        request: &RunCreate,
        (confinement, tier): (Tier, String),
    ) -> RunDetails {
        let place = self.layout.worktree(&plan.repo.slug(), id);
        RunDetails {
            v: RECORD_VERSION,
            repo: plan.repo.root().to_owned(),
            worktree: Worktree::planned(id, &plan.pre, &place),
            shadow: self.layout.shadow(id),
            files: self.layout.files(id),
            spec: self.layout.spec(id),
            nonce: format!("{:032x}", rand::random::<u128>()),
            tier,
            confinement,
            bounds: plan.layers.bounds.clone(),
            unattended: request.unattended,
            hold_reads: request.hold_reads,
            checks: request.checks.clone(),
            undone: false,
            outside_scope: Vec::new(),
            freshness: None,
            copied: Vec::new(),
            changes: None,
            agent_home: request.agent.as_ref().map(|_| self.layout.home(id)),
            agent: request.agent.as_ref().map(|choice| choice.name.clone()),
            follows: None,
            resumes: None,
            afresh: None,
            spent: None,
            limited: None,
            toolchains: plan.toolchains.views.clone(),
            secrets: plan.layers.secrets.clone(),
            secret_versions: std::collections::BTreeMap::new(),
            key: plan.work.harness.as_ref().and_then(|one| one.key.clone()),
            lent: Vec::new(),
        }
    }

    /// The run that the same request made when it was asked before, by a caller that lost its engine
    /// since. One that was never started is made anew.
    pub(crate) async fn created_before(
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
    pub(crate) async fn plan(&self, request: &RunCreate) -> Result<Plan, Failure> {
        let shim = self.options.find_shim()?;
        let repo = open_repository(&request.repo)
            .await
            .map_err(|failure| failure.about(About::Repo))?;
        let (looked_at, base) = (repo.clone(), request.base.clone());
        let looking = tokio::task::spawn_blocking(move || looked_at.preflight(base.as_deref()));
        let pre = looking.await.map_err(join)?;
        let pre = pre.map_err(|error| unusable(error, request.base.is_some()))?;
        self.refuse_data_in_a_repository().await?;
        let mut layers = self.layers(&repo, request).await?;
        // One that is not there is said now, not when everything is made.
        self.handed(&layers.secrets).await?;
        let account = Account::of_this_process(|name| std::env::var_os(name));
        let harness = match &request.agent {
            Some(choice) => {
                let mut found = self.harness(choice, &account).await?;
                found.give_way_to(&request.env);
                found.open(&mut layers)?;
                self.check_key(&found, &layers.secrets).await?;
                Some(found)
            }
            None => None,
        };
        refuse_unmeasured(&layers.bounds, harness.as_ref().map(Harness::profile))?;
        let (rules, home) = (layers.policy.paths.clone(), account.home.clone());
        let layout = self.layout.clone();
        let watched = self.watched_places().await?;
        let resolving = tokio::task::spawn_blocking(move || {
            let own = Own {
                home: &home,
                data: &layout.data,
                sockets: &layout.sockets,
                watched: &watched,
            };
            binds_of(&rules, &own, At::now())
        });
        let (mut path_binds, warnings) = resolving.await.map_err(join)??;
        layers.warnings.extend(warnings);
        let toolchains = self
            .toolchains(&repo, &pre.base_commit, &layers.toolchains)
            .await?;
        layers.policy.paths.extend(toolchains.rules());
        let notes = toolchains.views.iter().flat_map(|view| &view.notes);
        layers.warnings.extend(notes.cloned());
        // What a rule of the operator's opens is shown as the rule says.
        let by_rule = path_binds.clone();
        path_binds.extend(
            toolchains
                .binds
                .iter()
                .filter(|bind| {
                    !by_rule
                        .iter()
                        .any(|rule| bind.target.starts_with(&rule.target))
                })
                .cloned(),
        );
        path_binds.sort_by_key(|bind| bind.target.components().count());
        if let Some(program) = request.argv.first()
            && !request.env.iter().any(|(name, _)| name == "PATH")
        {
            let path = std::env::var_os("PATH");
            refuse_unseen(
                program,
                path.as_deref(),
                &toolchains.path(),
                &path_binds,
                &account.home,
            )
            .map_err(|failure| failure.about(About::Command))?;
        }
        let mut project = match request.prepare.no_project {
            true => Project::default(),
            false => self.trusted_project(&repo, &mut layers.warnings).await,
        };
        if request.setup.is_some() {
            project.setup = None;
            project.setup_from = None;
        }
        let work = Work {
            setup: request.setup.clone().or_else(|| project.setup.clone()),
            argv: request.argv.clone(),
            harness,
            terminal: request.terminal,
        };
        Ok(Plan {
            repo,
            pre,
            layers,
            account,
            path_binds,
            toolchains,
            shim,
            work,
            project,
        })
    }

    /// A key that is not there, or is none, is said now too.
    async fn check_key(&self, harness: &Harness, handed: &[SecretUse]) -> Result<(), Failure> {
        let Some(key) = &harness.key else {
            return Ok(());
        };
        if handed.iter().any(|secret| secret.name == key.secret) {
            let what = format!(
                "the secret {} is handed to the run already, so it would not stay outside of the cage",
                key.secret
            );
            return Err(Failure::new(Code::BadInput, what).hint("Keep --secret or --key."));
        }
        let (secrets, _) = self.handed(&[key.handed_as()]).await?;
        secrets.iter().try_for_each(agent_key::check_value)
    }

    /// An agent by its name: on this process's search path, else on that of the operator's login shell.
    async fn harness(&self, choice: &AgentChoice, account: &Account) -> Result<Harness, Failure> {
        let find = |path: Option<OsString>| {
            let (choice, account) = (choice.clone(), account.clone());
            let finding = move || Harness::find(&choice, &account, path.as_deref());
            async move { tokio::task::spawn_blocking(finding).await.map_err(join)? }
        };
        let own = std::env::var_os("PATH");
        match find(own.clone()).await {
            Err(failure) if failure.code == Code::NotFound => {
                find(operator_path(own, login_path().await)).await
            }
            found => found,
        }
    }

    /// What the repository says about preparing, where the operator trusts it; else a word about it.
    async fn trusted_project(&self, repo: &Repository, warnings: &mut Vec<String>) -> Project {
        let show = "`foreman project show` shows it";
        match self.project(repo).await {
            Ok(project) if project.standing == "trusted" => return project,
            Ok(project) if project.does_something() => {
                let why = match project.standing {
                    "changed" => "it has changed since it was trusted",
                    _ => "it is not trusted",
                };
                warnings.push(format!(
                    "what {} says about preparing runs does not count: {why} ({show})",
                    project.files()
                ));
            }
            Ok(_) => {}
            // Whoever wrote the file must not be able to keep runs from starting.
            Err(failure) => warnings.push(format!(
                "what the repository says about preparing runs does not count: {}",
                failure.message
            )),
        }
        Project::default()
    }

    /// A worktree inside another one would be that one's untracked files.
    async fn refuse_data_in_a_repository(&self) -> Result<(), Failure> {
        let place = self.layout.worktrees();
        match open_repository(&place).await {
            Ok(around) => Err(inside_a_repository(&self.layout.data, around.root())),
            Err(_) => Ok(()),
        }
    }

    /// Makes a run ready while others go on; it has its `turn` until it runs or rests.
    pub(crate) fn make_ready_in_a_task(
        self: &Arc<Self>,
        id: RunId,
        making: Making,
        turn: OwnedMutexGuard<()>,
    ) {
        let engine = Arc::clone(self);
        self.tasks.spawn(async move {
            Box::pin(engine.make_ready(&id, making)).await;
            drop(turn);
        });
    }

    /// From the record to the running shim, or to rest with nothing left behind.
    async fn make_ready(self: &Arc<Self>, id: &RunId, making: Making) {
        let Making {
            details,
            plan,
            request,
            policy,
            is_new,
        } = making;
        let ready = async {
            let log = self.open_log(id, &details).await?;
            if is_new {
                self.append(&log, opening(&plan, &details)).await?;
            }
            let mut saga = Provisioning::new(self, details.clone(), &plan, &request, policy, log)?;
            let done = run_steps(&mut saga, &|_, _| Ok(())).await;
            saga.let_go();
            let (details, untold) = (saga.details, saga.untold);
            match done {
                Ok(()) => {
                    let stored = self.store.run(id).await.or_fail()?;
                    self.attach(&stored)
                }
                Err(cut) => self.rest_unstarted(id, &details, untold, cut).await,
            }
        };
        if let Err(error) = ready.await {
            // Found by the next look at what is not at rest, and undone there.
            tracing::warn!(run = %id, %error, "a run could not be prepared, nor brought to rest");
        }
    }

    /// Brings a run that could not be started to rest; what was made for it is taken back already.
    pub(crate) async fn rest_unstarted(
        &self,
        id: &RunId,
        details: &RunDetails,
        untold: Vec<EventKind>,
        cut: Cut,
    ) -> Result<(), Failure> {
        let outcome = match cut {
            Cut::Stopped => Outcome::Cancelled {
                by: CancelCause::Operator,
            },
            Cut::Failed(failure) => Outcome::Failed {
                reason: FailReason::Provision {
                    message: failure.message,
                    code: Some(failure.code),
                    hint: failure.hint,
                },
            },
        };
        let log = self.open_log(id, details).await?;
        self.advance(&log, untold, RunEvent::Ended(outcome)).await?;
        Ok(())
    }
}

/// What a run goes on from.
pub(crate) struct GoingOn {
    pub follows: Follows,
    /// How fresh the base of that run is.
    pub freshness: Option<BaseView>,
    /// What its agent remembers.
    pub memory: Memory,
}

/// What the agent of a follow-up remembers of the run before.
pub(crate) enum Memory {
    /// It goes on with its session.
    Resumes(Resumes),
    /// Nothing; why, as a phrase.
    Afresh(String),
    /// It has no driver: what it remembers is its own business.
    None,
}

/// What a run is made ready with.
pub(crate) struct Making {
    pub details: RunDetails,
    pub plan: Plan,
    pub request: RunCreate,
    pub policy: Policy,
    /// False when another engine began with it.
    pub is_new: bool,
}

/// The first events of a run.
fn opening(plan: &Plan, details: &RunDetails) -> Vec<EventKind> {
    let mut first = vec![EventKind::State {
        to: RunState::Provisioning,
    }];
    first.extend(details.follows.as_ref().map(|follows| EventKind::Progress {
        stage: FOLLOW_UP.into(),
        message: format!(
            "it goes on from what run {} had for review, at {}",
            follows.run,
            short(&follows.head)
        ),
    }));
    let memory = match (&details.resumes, &details.afresh) {
        (Some(resumes), _) => Some(format!(
            "its agent goes on with its session of run {}",
            resumes.run
        )),
        (None, Some(why)) => Some(format!("its agent starts afresh: {why}")),
        (None, None) => None,
    };
    first.extend(memory.map(|message| EventKind::Progress {
        stage: FOLLOW_UP.into(),
        message,
    }));
    if let (Some(command), Some(file)) = (&plan.work.setup, &plan.project.setup_from) {
        first.push(EventKind::Progress {
            stage: "setup".into(),
            message: format!(
                "the setup command is the one of {file}: {}",
                sanitize_line(command)
            ),
        });
    }
    first.extend(
        plan.toolchains
            .views
            .iter()
            .map(|view| EventKind::Progress {
                stage: "toolchain".into(),
                message: toolchains::in_words(view),
            }),
    );
    first.extend(
        details
            .secrets_notice()
            .map(|message| EventKind::Warning { message }),
    );
    first.extend(details.key.as_ref().map(|key| EventKind::Progress {
        stage: "key".into(),
        message: agent_key::notice(key),
    }));
    let warnings = plan.pre.warnings.iter().chain(&plan.layers.warnings);
    first.extend(
        warnings
            .cloned()
            .map(|message| EventKind::Warning { message }),
    );
    first
}

pub(crate) fn title(request: &RunCreate) -> String {
    let title = request
        .title
        .clone()
        .or_else(|| request.agent.as_ref().map(|agent| agent.prompt.clone()))
        .unwrap_or_else(|| request.argv.join(" "));
    let mut title = sanitize_line(title.trim());
    if title.chars().count() > LONGEST_TITLE {
        title = title.chars().take(LONGEST_TITLE - 1).chain(['…']).collect();
    }
    title
}

/// Refuses a bound of something that nobody will say.
fn refuse_unmeasured(bounds: &Bounds, agent: Option<&Profile>) -> Result<(), Failure> {
    let of_an_agent = [BoundKind::Tokens, BoundKind::Cost, BoundKind::Turns];
    let bounded = of_an_agent
        .into_iter()
        .find(|bound| bounds.of(*bound).is_some());
    match (bounded, agent) {
        (Some(bound), None) => Err(Failure::new(
            Code::BadInput,
            format!("a bound of {bound} needs an agent by its name: what a command uses of a model is not measured"),
        )
        .hint("Name it (`--agent NAME`), or leave that bound out.")),
        (Some(_), Some(agent)) if bounds.cost_microusd.is_some() && !agent.reports_cost => {
            let what = format!(
                "{} does not say what it costs, so a bound of its cost is not measured",
                agent.title
            );
            Err(Failure::new(Code::BadInput, what).hint("Bound its tokens instead: `--bounds tokens=500k`."))
        }
        _ => Ok(()),
    }
}

/// A key is added by the gateway's side of the cage, which other tiers do not have.
fn refuse_key_without_a_gateway(plan: &Plan, tier: Tier) -> Result<(), Failure> {
    let has_key = plan
        .work
        .harness
        .as_ref()
        .is_some_and(|one| one.key.is_some());
    if !has_key || tier == Tier::Full {
        return Ok(());
    }
    Err(Failure::new(
        Code::Usage,
        "a key can be added outside of a cage only where the cage's network is captured",
    )
    .hint(
        "`foreman doctor` says what this machine lacks; --secret hands the key to the run itself.",
    ))
}

/// Why nothing can start from a repository, or from the branch that was named.
pub(crate) fn unusable(error: GitError, names_a_base: bool) -> Failure {
    let about = match error {
        GitError::NotFound { .. } if names_a_base => About::Base,
        _ => About::Repo,
    };
    Failure::from(error).about(about)
}

pub(crate) fn check(request: &RunCreate) -> Result<(), Failure> {
    let refuse = |what: &str| Err(Failure::new(Code::BadInput, what));
    let refuse_about = |about, what: &str| Err(Failure::new(Code::BadInput, what).about(about));
    if request.unconfined && !request.checks.is_empty() {
        return Err(Failure::new(
            Code::Usage,
            "checks are run in a cage of their own, and a run without one has none to check",
        )
        .hint("Leave out the checks, or --unconfined."));
    }
    if request.unconfined && request.unattended {
        return Err(Failure::new(
            Code::Usage,
            "a run that nobody attends cannot be started without a cage",
        )
        .hint("Leave out --unconfined, or stay with it and leave out --unattended."));
    }
    for wall in &request.accept_weaker {
        if let Some(why) = wall.why_never_weaker() {
            let wall = wall.name();
            return Err(Failure::new(
                Code::Usage,
                format!("--accept-weaker {wall} is not possible: {why}"),
            )
            .about(About::Accept)
            .hint("Leave it out; `foreman doctor` says what this machine lacks, and the remedy."));
        }
    }
    if !request.repo.is_absolute() {
        return Err(Failure::new(
            Code::Usage,
            "the repository must be named by an absolute path",
        )
        .about(About::Repo));
    }
    if let Some(agent) = &request.agent {
        if !request.argv.is_empty() {
            return Err(Failure::new(
                Code::Usage,
                "an agent by its name and a command exclude each other",
            ));
        }
        if request.terminal.is_some() {
            return Err(
                Failure::new(Code::Usage, "an agent by its name has no terminal")
                    .hint("Leave --tty out, or run its program behind `--`."),
            );
        }
        harness::check(agent)?;
    } else if request.argv.first().is_none_or(String::is_empty) {
        return Err(Failure::new(Code::Usage, "there is no command to run")
            .about(About::Command)
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
        return refuse_about(About::Command, "the command line is longer than 1 MiB");
    }
    if request.checks.len() > MOST_CHECKS {
        return refuse_about(About::Checks, "a run can have at most 64 checks");
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
    check_patterns(&anchored(&request.prepare.copy))
        .map_err(|failure| failure.about(About::Copy))?;
    if request
        .prepare
        .fetch_seconds
        .is_some_and(|seconds| !(1..=3600).contains(&seconds))
    {
        return refuse("a remote can be waited for between 1 and 3600 seconds");
    }
    check_asked(&request.env).map_err(|failure| failure.about(About::Env))
}
