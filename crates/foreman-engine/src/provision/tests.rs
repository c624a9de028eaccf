//! The saga against a real repository with a remote, a submodule and files to copy: a failure at every
//! step in turn, every step twice, every undo twice, an engine that dies at every step.

use super::steps::Provisioning;
use super::{Cut, Moment, Saga, Step, run_steps};
use crate::HostOptions;
use crate::api::{Preparation, RunCreate};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::layout::Layout;
use crate::lease::{Attempt, Lease};
use foreman_domain::{
    At, CancelCause, Code, EventKind, EventSeq, FailReason, Failure, OrderId, Outcome, RunId,
};
use foreman_policy::Policy;
use foreman_store::{NewRun, Store, Taken};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

static NEXT: AtomicU64 = AtomicU64::new(1);

struct World {
    dir: tempfile::TempDir,
    engine: Arc<Engine>,
}

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "protocol.file.allow=always",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(["-c", "user.name=Op", "-c", "user.email=op@example.org"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn write(path: impl AsRef<Path>, text: &str) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["library", "remote"] {
            fs::create_dir(at(name)).unwrap();
            git(&at(name), &["init", "-q"]);
            write(at(name).join("file"), "one\n");
            write(at(name).join(".gitignore"), ".env\n");
            git(&at(name), &["add", "."]);
            git(&at(name), &["commit", "-qm", "start"]);
        }
        let library = at("library");
        git(
            &at("remote"),
            &["submodule", "add", "-q", library.to_str().unwrap(), "sub"],
        );
        git(&at("remote"), &["commit", "-qm", "submodule"]);
        git(
            dir.path(),
            &["clone", "-q", "--recurse-submodules", "remote", "repo"],
        );
        write(at("remote").join("newer"), "newer\n");
        git(&at("remote"), &["add", "."]);
        git(&at("remote"), &["commit", "-qm", "newer"]);
        write(at("repo").join(".env"), "secret\n");
        write(at("shim"), "#!/bin/sh\nexit 1\n");
        fs::set_permissions(
            at("shim"),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let options = HostOptions {
            data_dir: at("data"),
            runtime_dir: None,
            shim_program: Some(at("shim")),
        };
        let layout = Layout::prepare(&options).unwrap();
        let store = Store::open(&layout.database()).await.unwrap();
        let ttl = Duration::from_secs(600);
        let Taken::Ours(epoch) = store.take_over("me", ttl, None).await.unwrap() else {
            panic!("somebody else has a new database")
        };
        let lease = Lease::taken(Attempt::begin().unwrap());
        let engine = Engine::new(options, layout, store, epoch, lease);
        Self { dir, engine }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn request(&self) -> RunCreate {
        RunCreate {
            prepare: Preparation {
                copy: vec![".env".into()],
                ..Preparation::default()
            },
            ..RunCreate::new(self.at("repo"), vec!["true".into()])
        }
    }

    /// Records a run and hands its saga to `with`; the details as they are afterwards.
    async fn with_saga<T>(
        &self,
        with: impl AsyncFnOnce(&mut Provisioning<'_>) -> T,
    ) -> (RunDetails, T) {
        let request = self.request();
        let plan = self.engine.plan(&request).await.unwrap();
        let id = RunId::from_random(NEXT.fetch_add(1, Ordering::Relaxed));
        let details = self
            .engine
            .planned(&id, &plan, &request, Default::default());
        let new = NewRun {
            order: OrderId::of_single_run(&id),
            id: id.clone(),
            repo_key: plan.repo.slug(),
            title: "t".into(),
            details: details.encode().unwrap(),
            base_policy: Policy::default(),
            at: At::now(),
            key: None,
            follows: None,
        };
        let policy = self
            .engine
            .store
            .insert_run(self.engine.epoch, &new)
            .await
            .unwrap();
        self.engine.recorded(&id);
        let log = self.engine.open_log(&id, &details).await.unwrap();
        let mut saga =
            Provisioning::new(&self.engine, details, &plan, &request, policy, log).unwrap();
        let done = with(&mut saga).await;
        assert!(saga.untold.is_empty(), "{:?}", saga.untold);
        (saga.details, done)
    }

    /// Everything that a run could leave, as text: refs, registrations, folders, half-done objects.
    fn traces(&self) -> String {
        let repo = self.at("repo");
        let mut traces = git(&repo, &["for-each-ref"]);
        traces += &git(&repo, &["worktree", "list", "--porcelain"]);
        traces += &git(&repo, &["status", "--porcelain", "--ignored"]);
        for folder in [
            repo.join(".git/worktrees"),
            repo.join(".git/refs/foreman"),
            repo.join(".git/refs/heads/foreman"),
            repo.join(".git/logs/refs/foreman"),
        ] {
            assert!(!folder.exists(), "{} is left", folder.display());
        }
        let data = self.at("data");
        for folder in [data.join("shadows"), repo.join(".git/objects")] {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.len() != 2 {
                    traces += &format!("\n{name}");
                }
            }
        }
        for slug in fs::read_dir(data.join("worktrees")).unwrap().flatten() {
            assert_eq!(
                fs::read_dir(slug.path()).unwrap().count(),
                0,
                "a worktree is left"
            );
        }
        for run in fs::read_dir(data.join("state/runs")).unwrap().flatten() {
            assert!(!run.path().join("spec.json").exists(), "a spec is left");
        }
        traces
    }
}

#[tokio::test]
async fn a_failure_at_every_step_in_turn_leaves_nothing() {
    let world = World::new().await;
    let before = world.traces();
    for step in Step::ALL {
        for moment in [Moment::Before, Moment::After] {
            if (step, moment) == (Step::Launch, Moment::After) {
                // The supervisor of this test never starts: the step itself fails.
                continue;
            }
            let met = AtomicU32::new(0);
            let probe = |at: Step, when: Moment| {
                if (at, when) != (step, moment) {
                    return Ok(());
                }
                met.fetch_add(1, Ordering::Relaxed);
                Err(Failure::new(Code::Environment, "injected"))
            };
            let (details, done) = world
                .with_saga(async |saga| run_steps(saga, &probe).await)
                .await;
            let cut = done.unwrap_err();
            assert!(
                matches!(&cut, Cut::Failed(failure) if failure.message == "injected"),
                "{step:?}: {cut:?}"
            );
            assert_eq!(met.load(Ordering::Relaxed), 1, "{step:?} {moment:?}");
            assert!(!details.worktree.path.exists());
            assert_eq!(world.traces(), before, "{step:?} {moment:?}");
        }
    }
}

#[tokio::test]
async fn a_supervisor_that_does_not_start_is_the_last_step_failing() {
    let world = World::new().await;
    let before = world.traces();
    let (_, done) = world
        .with_saga(async |saga| run_steps(saga, &|_, _| Ok(())).await)
        .await;
    assert!(matches!(done, Err(Cut::Failed(_))), "{done:?}");
    assert_eq!(world.traces(), before);
}

#[tokio::test]
async fn every_step_can_be_done_twice_and_every_undo_repeated() {
    let world = World::new().await;
    let before = world.traces();
    let tip = git(&world.at("remote"), &["rev-parse", "HEAD"]);
    let (_, ()) = world
        .with_saga(async |saga| {
            for step in Step::ALL.into_iter().filter(|step| *step != Step::Launch) {
                saga.begin(step).await.unwrap();
                for _ in 0..2 {
                    saga.apply(step).await.unwrap();
                }
            }
            let worktree = &saga.details.worktree;
            assert_eq!(worktree.base_commit, tip, "the remote is ahead");
            let read = |name: &str| fs::read_to_string(worktree.path.join(name)).unwrap();
            assert_eq!(
                (read("newer"), read("sub/file")),
                ("newer\n".into(), "one\n".into())
            );
            assert_eq!(read(".env"), "secret\n");
            assert_eq!(saga.details.copied, [".env"]);
            assert!(saga.details.shadow.join("HEAD").exists());
            for step in Step::ALL.into_iter().rev() {
                for _ in 0..2 {
                    saga.undo(step).await;
                }
            }
        })
        .await;
    assert_eq!(world.traces(), before);
}

#[tokio::test]
async fn what_an_engine_left_that_died_at_any_step_is_undone_and_said() {
    let world = World::new().await;
    let before = world.traces();
    for last in Step::ALL.into_iter().filter(|step| *step != Step::Launch) {
        let (details, ()) = world
            .with_saga(async |saga| {
                for step in Step::ALL {
                    saga.begin(step).await.unwrap();
                    saga.apply(step).await.unwrap();
                    if step == last {
                        return;
                    }
                }
            })
            .await;
        for _ in 0..2 {
            let mut events = Vec::new();
            let outcome = world.engine.undo_unstarted(&details, &mut events).await;
            assert!(events.is_empty(), "{events:?}");
            assert!(
                matches!(&outcome, Outcome::Failed { reason: FailReason::Provision { hint, .. } }
                    if hint.as_ref().is_some_and(|hint| hint.contains("foreman retry"))),
                "{outcome:?}"
            );
            assert_eq!(world.traces(), before, "{last:?}");
        }
    }
}

#[tokio::test]
async fn a_stop_that_was_asked_for_is_no_failure_and_leaves_nothing() {
    let world = World::new().await;
    let before = world.traces();
    let (details, done) = world
        .with_saga(async |saga| {
            let (engine, id) = (Arc::clone(saga.engine), saga.id.clone());
            for step in [Step::Base, Step::Room, Step::Worktree] {
                saga.begin(step).await.unwrap();
                saga.apply(step).await.unwrap();
            }
            let fence = engine.fence(&id).await.unwrap();
            engine.store.ask_stop(fence, &id, At::now()).await.unwrap();
            run_steps(saga, &|_, _| Ok(())).await
        })
        .await;
    assert!(matches!(done, Err(Cut::Stopped)), "{done:?}");
    // It stopped before the first step and takes back only that one: the rest is the next engine's.
    let outcome = world.engine.undo_unstarted(&details, &mut Vec::new()).await;
    assert_eq!(
        outcome,
        Outcome::Cancelled {
            by: CancelCause::Operator
        }
    );
    assert_eq!(world.traces(), before);
}

#[tokio::test]
async fn runs_that_start_together_ask_the_remote_once() {
    let world = World::new().await;
    let mark = world.at("asked");
    let script = world.at("upload-pack");
    write(
        &script,
        &format!(
            "#!/bin/sh\necho x >>'{}'\nexec git upload-pack \"$@\"\n",
            mark.display()
        ),
    );
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let setting = [
        "config",
        "remote.origin.uploadpack",
        script.to_str().unwrap(),
    ];
    git(&world.at("repo"), &setting);
    let one = || {
        world.with_saga(async |saga| {
            saga.begin(Step::Base).await.unwrap();
            saga.apply(Step::Base).await.unwrap();
        })
    };
    let runs = futures::future::join_all((0..5).map(|_| one())).await;
    let tip = git(&world.at("remote"), &["rev-parse", "HEAD"]);
    assert!(
        runs.iter()
            .all(|(details, ())| details.worktree.base_commit == tip)
    );
    assert_eq!(fs::read_to_string(mark).unwrap(), "x\n");
}

#[tokio::test]
async fn a_base_that_may_be_old_is_told_with_figures_and_kept_in_the_record() {
    let world = World::new().await;
    let repo = world.at("repo");
    git(&repo, &["fetch", "-q"]);
    git(
        &repo,
        &["remote", "set-url", "origin", "/nonexistent/x.git"],
    );
    let (details, ()) = world
        .with_saga(async |saga| {
            saga.begin(Step::Base).await.unwrap();
            saga.apply(Step::Base).await.unwrap();
        })
        .await;
    let fresh = details.freshness.unwrap();
    assert_eq!((fresh.fetched, fresh.behind), (false, Some(1)));
    assert!(fresh.stale.unwrap().contains("1 commit behind"));
    let run: RunId = details.worktree.run.parse().unwrap();
    let kinds = ["warning".to_owned()];
    let told = world
        .engine
        .store
        .events(&run, EventSeq(0), 10, &kinds)
        .await
        .unwrap();
    assert!(told.events.iter().any(|event| matches!(&event.kind,
        EventKind::Warning { message } if message.contains("the base may be old"))));
}

#[tokio::test]
async fn an_abandoned_run_is_prepared_anew_a_few_times_and_only_while_it_is_young() {
    let world = World::new().await;
    let before = world.traces();
    let (details, ()) = world
        .with_saga(async |saga| {
            for step in [Step::Base, Step::Room, Step::Worktree, Step::Submodules] {
                saga.begin(step).await.unwrap();
                saga.apply(step).await.unwrap();
            }
            let kept = serde_json::to_string(saga.request).unwrap();
            let (store, epoch) = (&saga.engine.store, saga.engine.epoch);
            store.keep_request(epoch, &saga.id, &kept).await.unwrap();
        })
        .await;
    let (engine, id) = (
        &world.engine,
        details.worktree.run.parse::<RunId>().unwrap(),
    );
    let log = engine.open_log(&id, &details).await.unwrap();
    let mut stored = engine.store.run(&id).await.unwrap();
    let local = git(&world.at("repo"), &["rev-parse", "main"]);
    for _ in 0..3 {
        let making = engine.to_go_on_with(&stored, &details, &log).await.unwrap();
        let making = making.expect("young, and not tried too often");
        assert_eq!(making.details.worktree.base_commit, local, "chosen anew");
        assert_eq!(world.traces(), before);
    }
    assert!(
        engine
            .to_go_on_with(&stored, &details, &log)
            .await
            .unwrap()
            .is_none()
    );
    // One that nobody thinks of any more is not begun by itself.
    let (other, ()) = world
        .with_saga(async |saga| {
            let kept = serde_json::to_string(saga.request).unwrap();
            let (store, epoch) = (&saga.engine.store, saga.engine.epoch);
            store.keep_request(epoch, &saga.id, &kept).await.unwrap();
        })
        .await;
    let id = other.worktree.run.parse::<RunId>().unwrap();
    let log = engine.open_log(&id, &other).await.unwrap();
    stored = engine.store.run(&id).await.unwrap();
    stored.created_at = At::from_millis(stored.created_at.as_millis() - 3_600_000);
    assert!(
        engine
            .to_go_on_with(&stored, &other, &log)
            .await
            .unwrap()
            .is_none()
    );
}
