use super::*;

const BREACH: Breach = Breach {
    bound: foreman_domain::BoundKind::Wall,
    limit: 1000,
    seen: 1000,
};

fn step(kind: StepKind, result: StepResult) -> (StepName, StepKind, StepResult) {
    (StepName(format!("{kind:?}")), kind, result)
}

fn verdict(
    steps: Vec<(StepName, StepKind, StepResult)>,
    stopped: Option<CancelCause>,
) -> Option<Outcome> {
    conclude(PlanResult {
        steps,
        stopped,
        ..PlanResult::default()
    })
    .verdict
}

#[test]
fn bundle_and_agent_decide_when_everything_else_went_well() {
    let steps = vec![
        step(StepKind::Agent, StepResult::Exited { code: 3 }),
        step(StepKind::Finish, StepResult::Succeeded),
        step(StepKind::Harvest, StepResult::Succeeded),
        step(StepKind::Check, StepResult::Exited { code: 1 }),
    ];
    assert_eq!(verdict(steps, None), None);
}

fn collected(agent: StepResult) -> Vec<(StepName, StepKind, StepResult)> {
    vec![
        step(StepKind::Agent, agent),
        step(StepKind::Finish, StepResult::Succeeded),
        step(StepKind::Harvest, StepResult::Succeeded),
    ]
}

fn stopped_step() -> StepResult {
    StepResult::Stopped {
        why: "stopped".into(),
    }
}

#[test]
fn a_stop_by_the_operator_is_the_verdict() {
    let cancelled = Some(Outcome::Cancelled {
        by: CancelCause::Operator,
    });
    assert_eq!(
        verdict(collected(stopped_step()), Some(CancelCause::Operator)),
        cancelled
    );
    let setup = vec![step(StepKind::Setup, stopped_step())];
    assert_eq!(verdict(setup, Some(CancelCause::Operator)), cancelled);
}

#[test]
fn a_bound_that_ended_the_agent_leaves_its_work_to_review() {
    let bound = || {
        Some(CancelCause::Bound {
            what: "wall time".into(),
            breach: Some(BREACH),
        })
    };
    assert_eq!(verdict(collected(stopped_step()), bound()), None);
    let setup = vec![
        step(StepKind::Setup, stopped_step()),
        step(
            StepKind::Agent,
            StepResult::Skipped {
                why: "stopped".into(),
            },
        ),
    ];
    let reason = FailReason::Bound {
        message: "wall time".into(),
        breach: Some(BREACH),
    };
    assert_eq!(verdict(setup, bound()), Some(Outcome::Failed { reason }));
}

#[test]
fn work_that_was_not_collected_is_told_even_when_the_run_was_stopped() {
    let mut steps = collected(stopped_step());
    steps[2].2 = StepResult::Exited { code: 1 };
    assert!(matches!(
        verdict(steps, Some(CancelCause::Operator)),
        Some(Outcome::Failed {
            reason: FailReason::Harvest { .. }
        })
    ));
}

#[test]
fn failed_setup_and_failed_collecting_are_verdicts() {
    let setup = vec![step(StepKind::Setup, StepResult::Exited { code: 1 })];
    assert!(matches!(
        verdict(setup, None),
        Some(Outcome::Failed { reason: FailReason::Setup { message } }) if message.contains("code 1")
    ));
    let mut steps = collected(StepResult::Succeeded);
    steps[2].2 = StepResult::Exited { code: 1 };
    assert!(matches!(
        verdict(steps, None),
        Some(Outcome::Failed {
            reason: FailReason::Harvest { .. }
        })
    ));
}

#[test]
fn only_a_commit_is_taken_for_a_head() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bundle");
    let commit = "a".repeat(40);
    for (text, wanted) in [
        (
            format!("head {commit}\nbundle\n\u{0}"),
            Some(commit.clone()),
        ),
        (format!("head {commit}x\n"), None),
        ("head ../../x\n".to_owned(), None),
        (String::new(), None),
    ] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(read_head(&file), wanted);
    }
}
