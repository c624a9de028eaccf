//! Policies: how one is put together for a run, shown, explained, and written into a repository.

mod amendments;
mod paths;
mod repositories;

use crate::api::{
    Explanation, PolicyQuery, PolicyView, PolicyWhy, RevokeRequest, RunCreate, TrustRequest,
    TrustView,
};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, join, policy as policy_failure};
use crate::policies::paths::{as_written, from_root, path_asked};
pub(crate) use crate::policies::paths::{canonical, home};
use crate::project_file::{NAME, ProjectFile, replace};
use crate::socket_rules;
use crate::tokens;
use crate::toolchains::{Choice, rules_of};
use foreman_domain::{About, At, Code, Failure, Revision, Scope};
use foreman_git::Repository;
use foreman_policy::{
    Bounds, Layer, Policy, PolicyFile, SecretUse, append_rule, parse_allow, parse_destination,
    parse_policy,
};
use foreman_store::StoredAmendment;
use std::path::{Path, PathBuf};

/// Bounds where nobody said any.
const DEFAULTS: Bounds = Bounds {
    wall_seconds: None,
    memory_bytes: None,
    processes: Some(1024),
    output_bytes: Some(256 << 20),
    cpu_millicores: None,
    disk_bytes: None,
    open_files: None,
    // A hold waits for as long as it takes.
    hold_seconds: None,
    tokens: None,
    cost_microusd: None,
    turns: None,
};
/// Bounds below which no run can do anything.
const LEAST_MEMORY: u64 = 16 << 20;
const LEAST_PROCESSES: u32 = 4;
/// The fewest that a program needs open to start and to say something.
const LEAST_OPEN_FILES: u32 = 32;

/// What a run starts with, before recorded decisions.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    pub policy: Policy,
    pub bounds: Bounds,
    pub warnings: Vec<String>,
    pub toolchains: Choice,
    /// Secrets that the run is handed; each variable once.
    pub secrets: Vec<SecretUse>,
    /// Variables of the operator's that a policy file names.
    pub pass: Vec<String>,
}

impl Layers {
    /// The variables that policy files let through, where they are set.
    pub fn passed(&self) -> Vec<(String, String)> {
        let value = |name: &String| Some((name.clone(), std::env::var(name).ok()?));
        self.pass.iter().filter_map(value).collect()
    }

    /// Takes what a file says beside rules; `by` is the file.
    fn take_wishes(&mut self, file: &PolicyFile, by: &str) {
        if let Some(toolchains) = file.toolchains.clone() {
            let by = by.to_owned();
            self.toolchains = Choice::Said { toolchains, by };
        }
        self.take_secrets(&file.secrets);
        self.pass.extend(file.env.iter().cloned());
    }

    /// A later word about a variable counts.
    fn take_secrets(&mut self, secrets: &[SecretUse]) {
        for secret in secrets {
            self.secrets
                .retain(|known| known.variable != secret.variable);
            self.secrets.push(secret.clone());
        }
    }
}

impl Engine {
    /// Puts the layers of a new run together: the project's file where it is trusted, the order's
    /// file, `--allow`.
    pub async fn layers(&self, repo: &Repository, request: &RunCreate) -> Result<Layers, Failure> {
        let mut layers = self.project_layer(repo).await?;
        let mut bounds = Bounds::default();
        if let Some(source) = &request.policy {
            let file = parse_policy(&source.name, &source.text, Layer::Order)
                .or_fail()
                .map_err(|failure: Failure| failure.about(About::Policy))?;
            layers.take_wishes(&file, &source.name);
            layers.policy.egress.extend(file.egress);
            layers.policy.paths.extend(from_root(file.paths));
            layers.warnings.extend(file.warnings);
            let own = self.layout.own_places();
            let (sockets, warnings) = socket_rules::resolved(file.sockets, own).await?;
            layers.policy.sockets.extend(sockets);
            layers.warnings.extend(warnings);
            bounds = file.bounds;
        }
        if let Some(toolchains) = request.toolchains.clone() {
            let by = "as asked for".to_owned();
            layers.toolchains = Choice::Said { toolchains, by };
        }
        layers.take_secrets(&request.secrets);
        for text in &request.allow {
            let rule = parse_allow(text)
                .map_err(|error| policy_failure(Code::BadInput, &error).about(About::Allow))?;
            layers.policy.egress.push(rule);
        }
        let narrower = request.bounds.clone().or(bounds);
        layers.bounds = narrower.or(layers.bounds).or(DEFAULTS);
        check_bounds(&layers.bounds)?;
        Ok(layers)
    }

    async fn project_layer(&self, repo: &Repository) -> Result<Layers, Failure> {
        let mut layers = Layers {
            policy: Policy::default(),
            bounds: Bounds::default(),
            warnings: Vec::new(),
            toolchains: Choice::Detect,
            secrets: Vec::new(),
            pass: Vec::new(),
        };
        let Some(file) = self.project_file(repo).await? else {
            return Ok(layers);
        };
        if !file.trusted {
            let why = match file.standing() {
                "changed" => "it has changed since it was trusted",
                _ => "it is not trusted",
            };
            layers.warnings.push(format!(
                "the repository's own {NAME} does not count: {why} (`foreman policy trust` shows it)"
            ));
            return Ok(layers);
        }
        let parsed = parse_policy(NAME, &file.text, Layer::Project).or_fail()?;
        layers.take_wishes(&parsed, NAME);
        layers.policy.egress = parsed.egress;
        layers.policy.paths = from_root(parsed.paths);
        layers.warnings = parsed.warnings;
        let own = self.layout.own_places();
        let (sockets, warnings) = socket_rules::resolved(parsed.sockets, own).await?;
        layers.policy.sockets = sockets;
        layers.warnings.extend(warnings);
        layers.bounds = parsed.bounds;
        Ok(layers)
    }

    /// The policy in force for a run, or the one that a new run of a repository would start with.
    pub async fn show_policy(&self, query: PolicyQuery) -> Result<PolicyView, Failure> {
        let (policy, bounds, amendments, repo, toolchains, secrets) =
            match (&query.run, &query.repo) {
                (Some(typed), _) => {
                    let id = self.find_run(typed).await?;
                    let run = self.store.run(&id).await.or_fail()?;
                    let details = RunDetails::of(&run)?;
                    let amendments = self.store.amendments_of_run(&id).await.or_fail()?;
                    let bounds = details.bounds.raised_by(&run.policy);
                    let (toolchains, secrets) = (details.toolchains, details.secrets);
                    let repo = details.repo;
                    (run.policy, bounds, amendments, repo, toolchains, secrets)
                }
                (None, Some(path)) => {
                    let repo = open_repository(path).await?;
                    let layers = self.project_layer(&repo).await?;
                    let amendments = self
                        .store
                        .amendments_of_repo(&repo.slug())
                        .await
                        .or_fail()?;
                    let mut policy = with_project_rules(layers.policy, &amendments);
                    let toolchains = self.toolchains_now(&repo, &layers.toolchains).await?.views;
                    policy.paths.extend(rules_of(&toolchains));
                    let bounds = layers.bounds.or(DEFAULTS).raised_by(&policy);
                    let root = repo.root().to_owned();
                    (policy, bounds, amendments, root, toolchains, layers.secrets)
                }
                (None, None) => {
                    return Err(Failure::new(
                        Code::Usage,
                        "neither a run nor a repository was named",
                    ));
                }
            };
        // The repository of an old run may be gone; its policy can be shown all the same.
        let project_file = match open_repository(&repo).await {
            Ok(repo) => self
                .project_file(&repo)
                .await?
                .as_ref()
                .map(ProjectFile::standing),
            Err(_) => None,
        };
        Ok(PolicyView {
            policy,
            bounds,
            amendments: amendments
                .into_iter()
                .map(|stored| stored.amendment)
                .collect(),
            project_file: project_file.unwrap_or("absent").to_owned(),
            toolchains,
            secrets,
        })
    }

    /// Which rule decides about a destination.
    pub async fn explain(&self, request: PolicyWhy) -> Result<Explanation, Failure> {
        let subject = match path_asked(&request.destination)? {
            Some(asked) => {
                let own = self.layout.own_places();
                let looking = tokio::task::spawn_blocking(move || asked.subject(&own));
                match looking.await.map_err(join)? {
                    Ok(subject) => subject,
                    Err(refused) => return Ok(refused),
                }
            }
            None => parse_destination(&request.destination)
                .map_err(|error| policy_failure(Code::BadInput, &error))?,
        };
        let policy = self.show_policy(request.of).await?.policy;
        let explained = policy.explain(&subject, At::now());
        Ok(Explanation {
            verdict: explained.verdict.as_str().to_owned(),
            layer: explained.layer,
            rule: explained.rule.map(|rule| rule.0),
            words: explained.words,
        })
    }

    /// Shows a repository's policy file, and trusts it when the caller names what was shown.
    pub async fn trust(&self, request: TrustRequest) -> Result<TrustView, Failure> {
        let repo = open_repository(&request.repo).await?;
        let Some(file) = self.project_file(&repo).await? else {
            return Err(Failure::new(
                Code::NotFound,
                format!("{} has no {NAME}", repo.root().display()),
            ));
        };
        let Some(expect) = request.expect else {
            return Ok(view(file));
        };
        if expect != file.hash {
            return Err(Failure::new(
                Code::Stale,
                format!("{} is not as it was shown any more", file.path.display()),
            )
            .hint("Look at it again and trust that."));
        }
        // What does not parse would refuse every run from now on.
        parse_policy(NAME, &file.text, Layer::Project).or_fail()?;
        self.store
            .trust(self.epoch, &repo.slug(), &file.hash, At::now())
            .await
            .or_fail()?;
        Ok(view(ProjectFile {
            trusted: true,
            ..file
        }))
    }

    /// Writes a decision with project scope into its repository's policy file.
    pub async fn write_policy(&self, request: RevokeRequest) -> Result<TrustView, Failure> {
        let stored = self.store.amendment(&request.amendment).await.or_fail()?;
        let (amendment, rule) = (stored.amendment, stored.rule);
        let rule = rule
            .filter(|_| amendment.scope == Scope::Project)
            .ok_or_else(|| {
                Failure::new(
                    Code::BadInput,
                    format!("{} is not an amendment with project scope", amendment.id),
                )
            })?;
        let run = self.store.run(amendment.id.run()).await.or_fail()?;
        let repo = open_repository(&RunDetails::of(&run)?.repo).await?;
        let before = self.project_file(&repo).await?;
        let was_trusted = before.as_ref().is_none_or(|file| file.trusted);
        let text = before.map(|file| file.text).unwrap_or_default();
        let text = append_rule(NAME, &text, &as_written(rule)).or_fail()?;
        let path = repo.root().join(NAME);
        let (place, written) = (path.clone(), text.clone());
        tokio::task::spawn_blocking(move || replace(&place, &written))
            .await
            .map_err(join)??;
        let hash = tokens::of_text(&text);
        // The operator just wrote it: a file that counted before counts on. One that did not is not
        // trusted by way of one rule.
        if was_trusted {
            self.store
                .trust(self.epoch, &repo.slug(), &hash, At::now())
                .await
                .or_fail()?;
        }
        Ok(TrustView {
            file: path,
            text,
            expect: hash,
            trusted: was_trusted,
        })
    }
}

/// Opens a repository off the runtime's threads.
pub(crate) async fn open_repository(path: &Path) -> Result<Repository, Failure> {
    let path: PathBuf = path.to_owned();
    let opening = tokio::task::spawn_blocking(move || Repository::open(&path));
    opening.await.map_err(join)?.map_err(Failure::from)
}

fn view(file: ProjectFile) -> TrustView {
    TrustView {
        file: file.path,
        text: file.text,
        expect: file.hash,
        trusted: file.trusted,
    }
}

fn with_project_rules(mut policy: Policy, amendments: &[StoredAmendment]) -> Policy {
    policy.revision = Revision(1);
    let active = amendments
        .iter()
        .rev()
        .filter(|stored| stored.amendment.state == foreman_domain::AmendmentState::Active);
    for rule in active.filter_map(|stored| stored.rule.clone()) {
        policy.push(rule);
    }
    policy
}

fn check_bounds(bounds: &Bounds) -> Result<(), Failure> {
    let refuse = |about, what: String| Err(Failure::new(Code::BadInput, what).about(about));
    if bounds.wall_seconds == Some(0) {
        return refuse(
            About::Wall,
            "a wall time of nothing lets no run start".into(),
        );
    }
    if bounds.output_bytes == Some(0) {
        let what = "an output bound of nothing lets no run say anything";
        return refuse(About::Output, what.into());
    }
    if bounds.cpu_millicores == Some(0) {
        let what = "a bound of no processor time lets no program run";
        return refuse(About::Cpu, what.into());
    }
    if bounds.disk_bytes == Some(0) {
        let what = "a disk bound of nothing lets no run write anything";
        return refuse(About::Disk, what.into());
    }
    if bounds
        .memory_bytes
        .is_some_and(|bytes| bytes < LEAST_MEMORY)
    {
        let what = "a memory bound below 16 MiB lets no program start";
        return refuse(About::Memory, what.into());
    }
    if bounds
        .processes
        .is_some_and(|processes| processes < LEAST_PROCESSES)
    {
        let what = format!("a run needs at least {LEAST_PROCESSES} processes");
        return refuse(About::Processes, what);
    }
    if bounds
        .open_files
        .is_some_and(|files| files < LEAST_OPEN_FILES)
    {
        let what = format!("a program needs at least {LEAST_OPEN_FILES} open files");
        return refuse(About::OpenFiles, what);
    }
    Ok(())
}
