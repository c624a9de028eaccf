use super::*;

const PHASES: [Phase; 5] = [
    Phase::Live,
    Phase::Merging,
    Phase::Kept,
    Phase::Merged,
    Phase::Bare,
];
const SHIMS: [ShimSeen; 4] = [
    ShimSeen::Never,
    ShimSeen::Starting,
    ShimSeen::Alive(7),
    ShimSeen::Gone,
];
const FOLDERS: [Folder; 3] = [Folder::Absent, Folder::Empty, Folder::Full];

fn truth(stored: Option<Stored>) -> Truth {
    Truth {
        run: "r".into(),
        stored,
        shim: ShimSeen::Never,
        cage: None,
        disk: DiskSeen::default(),
        git: GitSeen::NotLooked,
        repo: None,
    }
}

fn stored(phase: Phase) -> Option<Stored> {
    Some(Stored {
        phase,
        followed: false,
        busy: false,
    })
}

fn registered(branch: bool, worktree: bool) -> Option<Registered> {
    Some(Registered {
        run: "r".into(),
        branch: branch.then(|| "aa".to_owned()),
        worktree: worktree.then(|| "/w/.git".into()),
    })
}

/// Every truth that this vocabulary can tell.
fn all() -> Vec<Truth> {
    let mut all = Vec::new();
    let mut rows = vec![None];
    for phase in PHASES {
        for (followed, busy) in [(false, false), (true, false), (false, true)] {
            rows.push(Some(Stored {
                phase,
                followed,
                busy,
            }));
        }
    }
    let mut gits = vec![
        GitSeen::NotLooked,
        GitSeen::Unreachable("gone".into()),
        GitSeen::Known {
            registered: None,
            branch_is_empty: false,
            differences: vec!["moved".into()],
        },
    ];
    for branch_is_empty in [false, true] {
        for (branch, worktree) in [(true, false), (false, true), (true, true)] {
            gits.push(GitSeen::Known {
                registered: registered(branch, worktree),
                branch_is_empty,
                differences: vec![],
            });
        }
    }
    for row in &rows {
        for shim in SHIMS {
            for cage in [None, Some(8)] {
                for folder in FOLDERS {
                    for worktree in FOLDERS {
                        for socket in [false, true] {
                            for git in &gits {
                                all.push(Truth {
                                    run: "r".into(),
                                    stored: *row,
                                    shim,
                                    cage,
                                    disk: DiskSeen {
                                        folder,
                                        worktree,
                                        shadow: Folder::Absent,
                                        home: Folder::Absent,
                                        socket,
                                        result: false,
                                    },
                                    git: git.clone(),
                                    repo: None,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    all
}

#[test]
fn nothing_is_ever_removed_that_may_hold_work_or_that_somebody_uses() {
    for truth in all() {
        let lives = matches!(truth.shim, ShimSeen::Alive(_));
        for step in truth.steps() {
            let allowed = match &step {
                Step::RemoveEmptyBranch { tip } => {
                    truth.stored.is_none()
                        && !lives
                        && truth.disk.folder != Folder::Full
                        && truth.disk.worktree != Folder::Full
                        && truth.git
                            == GitSeen::Known {
                                registered: registered(true, false),
                                branch_is_empty: true,
                                differences: vec![],
                            }
                        && tip == "aa"
                }
                Step::RemoveEmptyFolders => {
                    truth.stored.is_none()
                        && !lives
                        && truth.disk.folder != Folder::Full
                        && truth.disk.worktree != Folder::Full
                }
                Step::RemoveSocket => {
                    !lives
                        && truth
                            .stored
                            .is_some_and(|row| !matches!(row.phase, Phase::Live | Phase::Merging))
                }
                Step::Follow | Step::Settle => {
                    truth.stored.is_some_and(|row| row.phase == Phase::Live)
                }
                Step::FinishMerge => truth.stored.is_some_and(|row| row.phase == Phase::Merging),
                Step::Leave(_) => true,
            };
            assert!(allowed, "{step:?} of {truth:#?}");
        }
    }
}

#[test]
fn a_run_that_is_followed_or_held_is_left_to_whoever_does_it() {
    for truth in all() {
        if truth.stored.is_some_and(|row| row.followed || row.busy) {
            assert_eq!(truth.steps(), []);
        }
    }
}

#[test]
fn a_live_run_is_followed_while_its_shim_lives_and_settled_when_it_does_not() {
    for truth in all() {
        if truth.stored != stored(Phase::Live) {
            continue;
        }
        let first = truth.steps().remove(0);
        match truth.shim {
            ShimSeen::Alive(_) | ShimSeen::Starting => assert_eq!(first, Step::Follow),
            ShimSeen::Gone | ShimSeen::Never => assert_eq!(first, Step::Settle),
        }
    }
}

#[test]
fn a_repository_that_is_away_is_told_and_nothing_else_is_done_about_it() {
    let mut kept = truth(stored(Phase::Kept));
    kept.git = GitSeen::Unreachable("gone".into());
    kept.disk.worktree = Folder::Full;
    let finding = Finding::RepositoryUnreachable("gone".into());
    assert_eq!(kept.steps(), [Step::Leave(finding)]);
}

#[test]
fn what_is_as_it_should_be_needs_nothing() {
    let mut kept = truth(stored(Phase::Kept));
    kept.disk.folder = Folder::Full;
    kept.disk.worktree = Folder::Full;
    kept.shim = ShimSeen::Gone;
    kept.git = GitSeen::Known {
        registered: registered(true, true),
        branch_is_empty: false,
        differences: vec![],
    };
    assert_eq!(kept.steps(), []);
    assert_eq!(truth(stored(Phase::Bare)).steps(), []);
    assert_eq!(truth(None).steps(), []);
}
