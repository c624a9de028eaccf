use super::*;

fn finding(wall: Wall, holds: bool) -> WallFinding {
    WallFinding {
        wall,
        holds,
        required: wall.is_required(),
        detail: "seen".into(),
        remedy: None,
    }
}

/// A machine on which these walls are missing.
fn machine(missing: &[Wall], gate: bool) -> DoctorFindings {
    DoctorFindings {
        v: 1,
        walls: Wall::ALL
            .map(|wall| finding(wall, !missing.contains(&wall)))
            .into(),
        gate: gate.then(|| "a queue".to_owned()),
        landlock_abi: Some(7),
        files: None,
        without_namespaces: Vec::new(),
    }
}

/// One that gives no namespaces; `open` are walls of the cage without any that were seen not to hold.
fn bare(open: &[Wall]) -> DoctorFindings {
    let needed = [Wall::Network, Wall::Dns, Wall::Seccomp, Wall::Landlock];
    let mut findings = machine(&Wall::ALL, false);
    findings.without_namespaces = needed
        .map(|wall| finding(wall, !open.contains(&wall)))
        .into();
    findings
}

fn chosen(findings: &DoctorFindings, accepted: &[Wall]) -> Option<Tier> {
    choose(findings, accepted).ok().map(|(tier, _)| tier)
}

#[test]
fn a_machine_with_every_wall_gives_the_full_tier_whatever_is_accepted() {
    let machine = machine(&[], true);
    for accepted in [&[][..], &[Wall::UserNamespace], &Wall::ALL] {
        assert_eq!(chosen(&machine, accepted), Some(Tier::Full), "{accepted:?}");
    }
}

#[test]
fn without_a_gateway_a_run_has_no_network_when_that_is_accepted() {
    let machine = machine(&[Wall::Network, Wall::Dns], false);
    assert_eq!(chosen(&machine, &[]), None);
    assert_eq!(chosen(&machine, &[Wall::UserNamespace]), None);
    assert_eq!(chosen(&machine, &[Wall::Network]), Some(Tier::NoNetwork));
    // One that is there and open is never accepted.
    let open = super::tests::machine(&[Wall::Network], true);
    assert_eq!(chosen(&open, &Wall::ALL), None);
}

#[test]
fn without_namespaces_every_other_wall_must_stand_and_the_word_be_said() {
    let machine = bare(&[]);
    assert_eq!(chosen(&machine, &[]), None);
    assert_eq!(chosen(&machine, &[Wall::Network, Wall::Seccomp]), None);
    let accepted = [Wall::UserNamespace];
    assert_eq!(chosen(&machine, &accepted), Some(Tier::NoNamespaces));
    let failure = choose(&machine, &[]).unwrap_err();
    assert_eq!(failure.code, Code::WallMissing);
    let hint = failure.hint.unwrap_or_default();
    assert!(hint.contains("--accept-weaker user_namespace"), "{hint}");
    for wall in [Wall::Network, Wall::Dns, Wall::Seccomp, Wall::Landlock] {
        assert_eq!(chosen(&bare(&[wall]), &Wall::ALL), None, "{wall:?} is open");
    }
    assert_eq!(
        chosen(&super::tests::machine(&Wall::ALL, false), &Wall::ALL),
        None
    );
}

#[test]
fn a_machine_is_called_what_it_can_do() {
    assert_eq!(tier(&machine(&[], true)).0, "full");
    assert_eq!(
        tier(&machine(&[Wall::Network, Wall::Dns], false)).0,
        "reduced"
    );
    assert_eq!(tier(&bare(&[])).0, "no_namespaces");
    assert_eq!(tier(&bare(&[Wall::Landlock])).0, "none");
}
