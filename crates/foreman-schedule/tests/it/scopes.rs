//! Each row of the table of scope claims.

use crate::making::{claim, id, live, order, snapshot, with};
use foreman_schedule::Enforcement::{Advisory, Mandatory};
use foreman_schedule::{
    OrderFacts, Overlap, ScopeClaim, Snapshot, Standing, WaitReason, Why, dispatch,
};

fn named(name: &str, claim: Option<ScopeClaim>) -> OrderFacts {
    with(order(name), |order| order.claim = claim)
}

/// What a candidate waits for beside one holder whose run lives, or is over but for its review.
fn beside(holder: Option<ScopeClaim>, alive: bool, ours: Option<ScopeClaim>) -> Option<WaitReason> {
    first_wait(&flight(holder, alive, named("ours", ours)))
}

fn flight(holder: Option<ScopeClaim>, alive: bool, ours: OrderFacts) -> Snapshot {
    let holder = with(named("holder", holder), |order| {
        order.standing = Standing::InFlight
    });
    let mut held = live(&holder);
    held.live = alive;
    let mut snapshot = snapshot(vec![holder, ours], 0);
    snapshot.in_flight = vec![held];
    snapshot
}

fn first_wait(snapshot: &Snapshot) -> Option<WaitReason> {
    dispatch(snapshot)
        .waiting
        .into_iter()
        .next()
        .map(|(_, reason)| reason)
}

fn held(why: Why) -> Option<WaitReason> {
    Some(WaitReason::Scope {
        held_by: Some(id("holder")),
        why,
    })
}

fn overlap(ours: &str, theirs: &str) -> Option<WaitReason> {
    held(Why::Overlap(Overlap {
        ours: ours.into(),
        theirs: theirs.into(),
    }))
}

fn src(enforcement: foreman_schedule::Enforcement, strict: bool) -> Option<ScopeClaim> {
    Some(claim(&["docs/", "src/**"], enforcement, strict))
}

fn file(enforcement: foreman_schedule::Enforcement, strict: bool) -> Option<ScopeClaim> {
    Some(claim(&["src/new.rs"], enforcement, strict))
}

fn elsewhere() -> Option<ScopeClaim> {
    Some(claim(&["tools/"], Mandatory, false))
}

#[test]
fn beside_an_unscoped_holder_everything_but_a_strict_claim_starts() {
    for ours in [
        None,
        src(Advisory, false),
        src(Advisory, true),
        src(Mandatory, false),
    ] {
        assert_eq!(beside(None, true, ours), None);
    }
    assert_eq!(
        beside(None, true, src(Mandatory, true)),
        held(Why::OursStrict)
    );
    assert_eq!(
        beside(None, false, src(Mandatory, true)),
        None,
        "it does not run any more"
    );
}

#[test]
fn an_advisory_claim_holds_declared_scopes_off_while_its_run_lives() {
    for ours in [
        file(Advisory, false),
        file(Mandatory, false),
        file(Mandatory, true),
    ] {
        assert_eq!(
            beside(src(Advisory, false), true, ours.clone()),
            overlap("src/new.rs", "src/**")
        );
        assert_eq!(beside(src(Advisory, false), false, ours), None);
    }
    assert_eq!(
        beside(src(Advisory, true), true, None),
        None,
        "strict says nothing without mandatory"
    );
    assert_eq!(beside(src(Advisory, false), true, elsewhere()), None);
}

#[test]
fn a_mandatory_claim_holds_declared_scopes_off_until_its_order_is_finished() {
    for alive in [true, false] {
        for ours in [file(Advisory, false), file(Mandatory, false)] {
            assert_eq!(
                beside(src(Mandatory, false), alive, ours),
                overlap("src/new.rs", "src/**")
            );
        }
        assert_eq!(
            beside(src(Mandatory, false), alive, None),
            None,
            "caught at the gate"
        );
        assert_eq!(beside(src(Mandatory, false), alive, elsewhere()), None);
    }
}

#[test]
fn a_strict_mandatory_claim_holds_unscoped_work_off() {
    for alive in [true, false] {
        assert_eq!(
            beside(src(Mandatory, true), alive, None),
            held(Why::HolderStrict)
        );
        let nothing = Some(claim(&[], Mandatory, false));
        assert_eq!(
            beside(src(Mandatory, true), alive, nothing),
            held(Why::HolderStrict)
        );
        assert_eq!(beside(src(Mandatory, true), alive, elsewhere()), None);
    }
}

#[test]
fn claims_do_not_reach_into_other_repositories_or_into_their_own_group() {
    let away = with(named("ours", file(Mandatory, true)), |order| {
        order.repository = "/srv/away.git".into()
    });
    assert_eq!(first_wait(&flight(src(Mandatory, true), true, away)), None);
    let mut group = flight(
        src(Mandatory, true),
        true,
        named("ours", src(Mandatory, true)),
    );
    group.in_flight[0].group = Some("attempts".into());
    group.orders[1].group = Some("attempts".into());
    assert_eq!(first_wait(&group), None);
}

#[test]
fn two_orders_that_clash_do_not_start_in_one_decision() {
    let orders = vec![
        named("holder", src(Advisory, false)),
        named("ours", file(Advisory, false)),
    ];
    let decision = dispatch(&snapshot(orders, 0));
    assert_eq!(decision.start, vec![id("holder")]);
    assert_eq!(
        decision.waiting[0].1,
        overlap("src/new.rs", "src/**").unwrap()
    );
}

#[test]
fn a_run_without_an_order_holds_a_strict_claim_off() {
    let mut snapshot = flight(None, true, named("ours", src(Mandatory, true)));
    snapshot.in_flight[0].order = None;
    let reason = first_wait(&snapshot).unwrap();
    assert_eq!(
        reason,
        WaitReason::Scope {
            held_by: None,
            why: Why::OursStrict
        }
    );
    assert!(
        reason.words().contains("a run without an order"),
        "{}",
        reason.words()
    );
}
