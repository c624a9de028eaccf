use super::*;
use crate::floor::port_floor;
use crate::rule::arbitrary;
use crate::{AddressClass, HostPattern, Origin, classify, parse_allow, parse_destination};
use foreman_domain::Protocol;
use ipnet::IpNet;
use proptest::prelude::*;
use std::net::IpAddr;

const NOW: i64 = 1_000_000;

fn now() -> At {
    At::from_millis(NOW)
}

fn subject(text: &str) -> Subject {
    parse_destination(text).unwrap()
}

fn resolved(text: &str, address: &str) -> Subject {
    let Subject::Egress {
        protocol,
        host,
        port,
        ..
    } = subject(text)
    else {
        unreachable!("only egress is typed so");
    };
    Subject::Egress {
        protocol,
        host,
        port,
        resolved: Some(address.parse().unwrap()),
    }
}

fn rule(text: &str) -> EgressRule {
    parse_allow(text).unwrap()
}

fn policy(rules: &[&str]) -> Policy {
    Policy {
        egress: rules.iter().map(|text| rule(text)).collect(),
        ..Policy::default()
    }
}

fn denial(text: &str) -> Denial {
    Denial {
        origin: Origin {
            source: "denied by you".into(),
            ..rule("x.example:1").origin
        },
        subject: subject(text),
        reason: "use the mirror".into(),
    }
}

fn ask(policy: &Policy, subject: &Subject) -> Ruling {
    policy.judge(Question::of(subject), now())
}

fn allows(policy: &Policy, subject: &Subject) -> bool {
    matches!(ask(policy, subject), Ruling::Allow { .. })
}

#[test]
fn an_empty_policy_asks_about_everything_and_allows_nothing() {
    assert!(matches!(
        ask(&Policy::default(), &subject("registry.example:443")),
        Ruling::Ask { why } if why == "No rule allows registry.example:443"
    ));
}

#[test]
fn a_rule_opens_its_host_port_and_protocol_only() {
    let policy = policy(&["registry.example:443"]);
    assert!(allows(&policy, &subject("registry.example:443")));
    for other in [
        "registry.example:80",
        "udp:registry.example:443",
        "a.registry.example:443",
    ] {
        assert!(!allows(&policy, &subject(other)), "{other}");
    }
    let Ruling::Ask { why } = ask(&policy, &subject("registry.example:80")) else {
        panic!()
    };
    assert_eq!(
        why,
        "No rule allows registry.example:80; rules for that host open tcp port 443"
    );
}

#[test]
fn a_bare_address_never_inherits_the_rule_of_a_name() {
    let policy = policy(&["registry.example:443", "**.example.com:443"]);
    assert!(!allows(&policy, &subject("203.0.113.9:443")));
}

#[test]
fn a_denial_beats_every_allowing_rule_and_says_its_reason() {
    let mut policy = policy(&["registry.example:443"]);
    policy.egress[0].origin.layer = Layer::Amendment;
    policy.denials.push(denial("registry.example:443"));
    let Ruling::Refuse { by, why, reason } = ask(&policy, &subject("registry.example:443")) else {
        panic!("not refused");
    };
    assert_eq!((by, reason.as_str()), (Decider::Operator, "use the mirror"));
    assert!(why.contains("denied by you"), "{why}");
    // A denied name is denied whatever it resolves to.
    assert!(matches!(
        ask(&policy, &resolved("registry.example:443", "10.1.2.3")),
        Ruling::Refuse { .. }
    ));
}

#[test]
fn a_denied_address_of_a_name_leaves_the_name_alone() {
    let mut policy = policy(&["registry.example:443"]);
    policy.denials.push(Denial {
        subject: resolved("registry.example:443", "10.1.2.3"),
        ..denial("registry.example:443")
    });
    assert!(allows(&policy, &subject("registry.example:443")));
}

#[test]
fn the_floor_beats_denials_and_rules() {
    let mut policy = policy(&["registry.example:443"]);
    policy.egress[0].host = HostPattern::Address("169.254.0.0/16".parse().unwrap());
    policy.denials.push(denial("169.254.169.254:443"));
    let Ruling::Refuse { by, why, .. } = ask(&policy, &subject("169.254.169.254:443")) else {
        panic!("not refused");
    };
    assert_eq!(by, Decider::Floor);
    assert_eq!(
        why,
        "169.254.169.254 is a cloud metadata address, which no rule can open"
    );
}

#[test]
fn a_private_answer_needs_a_rule_that_names_the_address() {
    let mut policy = policy(&["intranet.example:443"]);
    let at = |address| resolved("intranet.example:443", address);
    assert!(matches!(
        ask(&policy, &at("10.1.2.3")),
        Ruling::Ask { why } if why.contains("10.1.2.3, a private address")
    ));
    policy.egress[0].resolves_to = Some("10.1.2.3/32".parse().unwrap());
    assert!(allows(&policy, &at("10.1.2.3")) && allows(&policy, &at("::ffff:10.1.2.3")));
    assert!(!allows(&policy, &at("10.1.2.4")));
    policy.egress[0].resolves_to = Some("127.0.0.0/8".parse().unwrap());
    assert!(matches!(
        ask(&policy, &at("127.0.0.1")),
        Ruling::Refuse {
            by: Decider::Floor,
            ..
        }
    ));
}

#[test]
fn once_counts_for_the_holds_on_the_card_only() {
    let mut policy = policy(&["registry.example:443"]);
    let wanted = subject("registry.example:443");
    policy.egress[0].applies = Use::Holds {
        subject: wanted.clone(),
        through: HoldId(3),
    };
    let allows = |policy: &Policy, subject: &Subject, hold: Option<u64>| {
        let question = Question {
            subject,
            hold: hold.map(HoldId),
            under: None,
        };
        matches!(policy.judge(question, now()), Ruling::Allow { .. })
    };
    assert!(allows(&policy, &wanted, Some(1)) && allows(&policy, &wanted, Some(3)));
    assert!(!allows(&policy, &wanted, Some(4)) && !allows(&policy, &wanted, None));
    // Not for another subject that the pattern would match.
    policy.egress[0].host = HostPattern::AnyDepthUnder("example".into());
    assert!(!allows(&policy, &subject("other.example:443"), Some(1)));
}

#[test]
fn an_expired_rule_is_not_there_and_is_named() {
    let mut policy = policy(&["registry.example:443"]);
    policy.egress[0].expires = Some(At::from_millis(NOW + 1));
    assert!(allows(&policy, &subject("registry.example:443")));
    policy.egress[0].expires = Some(now());
    assert!(matches!(
        ask(&policy, &subject("registry.example:443")),
        Ruling::Ask { why } if why.contains("ended at")
    ));
}

#[test]
fn the_narrowest_layer_and_pattern_explain() {
    let mut policy = policy(&[
        "*.example.com:443",
        "a.example.com:443",
        "**.example.com:443",
    ]);
    let explained = policy.explain(&subject("a.example.com:443"), now());
    assert_eq!(explained.rule, Some(policy.egress[1].origin.id.clone()));
    policy.egress[2].origin.layer = Layer::Amendment;
    let explained = policy.explain(&subject("a.example.com:443"), now());
    assert_eq!(explained.layer, Some(Layer::Amendment));
    assert_eq!(explained.verdict.as_str(), "allowed");
    assert_eq!(
        explained.words,
        "Allowed by the amendment rule \"tcp **.example.com:443\" (--allow); an opaque tunnel: what \
         goes through it is not looked into"
    );
}

#[test]
fn explaining_names_the_floor_and_the_lack_of_a_rule() {
    let explained = Policy::default().explain(&subject("[::1]:443"), now());
    assert_eq!(
        (explained.verdict, explained.layer),
        (Verdict::Refused, Some(Layer::Floor))
    );
    let explained = Policy::default().explain(&subject("a.example:443"), now());
    assert_eq!(
        (explained.verdict, explained.layer, explained.rule),
        (Verdict::Held, None, None)
    );
}

#[test]
fn a_subject_that_is_not_canonical_is_refused() {
    for name in [
        "Registry.example",
        "a b",
        "127.0.0.1",
        "127.1",
        "a\n",
        "",
        "localhost",
        "x.localhost",
    ] {
        let subject = Subject::Egress {
            protocol: Protocol::Tcp,
            host: Host::Name(name.into()),
            port: 443,
            resolved: None,
        };
        let ruling = ask(&policy(&["registry.example:443"]), &subject);
        assert!(
            matches!(
                ruling,
                Ruling::Refuse {
                    by: Decider::Floor,
                    ..
                }
            ),
            "{name}"
        );
    }
}

fn question() -> impl Strategy<Value = (Subject, Option<HoldId>, At)> {
    let hold = proptest::option::of((0_u64..10).prop_map(HoldId));
    (arbitrary::subject(), hold, arbitrary::moment())
}

/// An allowing rule made to fit the subject as well as a rule can, so that the properties are not empty.
fn fitting(subject: &Subject) -> EgressRule {
    let Subject::Egress {
        protocol,
        host,
        port,
        resolved,
    } = subject
    else {
        unreachable!("these tests make egress only");
    };
    EgressRule {
        protocol: *protocol,
        host: HostPattern::exactly(host),
        port: *port,
        resolves_to: resolved.map(|address| IpNet::from(address.to_canonical())),
        ..rule("x.example:1")
    }
}

proptest! {
    #[test]
    fn a_floor_address_is_never_allowed(
        mut policy in arbitrary::policy(), (subject, hold, now) in question()
    ) {
        policy.egress.push(fitting(&subject));
        let Subject::Egress { protocol, host, port, resolved } = &subject else {
            unreachable!("these tests make egress only");
        };
        let on_floor = |address: &IpAddr| matches!(classify(*address), AddressClass::Floor(_));
        let floor = matches!(host, Host::Address(address) if on_floor(address))
            || resolved.as_ref().is_some_and(on_floor)
            || port_floor(*protocol, *port).is_some();
        let ruling = policy.judge(Question { subject: &subject, hold, under: None }, now);
        let by_floor = matches!(ruling, Ruling::Refuse { by: Decider::Floor, .. });
        prop_assert_eq!(floor, by_floor, "{}: {:?}", subject, ruling);
    }

    #[test]
    fn the_order_of_rules_does_not_matter(
        policy in arbitrary::policy(), (subject, hold, now) in question(), seed: u64
    ) {
        let mut shuffled = policy.clone();
        let key = |id: &RuleId| {
            id.0.bytes().fold(seed, |sum, byte| sum.rotate_left(7).wrapping_mul(31) ^ u64::from(byte))
        };
        shuffled.egress.sort_by_key(|rule| key(&rule.origin.id));
        shuffled.denials.sort_by_key(|denial| key(&denial.origin.id));
        let question = Question { subject: &subject, hold, under: None };
        prop_assert_eq!(policy.judge(question, now), shuffled.judge(question, now));
        prop_assert_eq!(policy.explain(&subject, now), shuffled.explain(&subject, now));
    }

    #[test]
    fn a_rule_more_never_takes_away_what_was_allowed(
        mut policy in arbitrary::policy(), more in arbitrary::any_rule(),
        (subject, hold, now) in question()
    ) {
        let question = Question { subject: &subject, hold, under: None };
        let before = matches!(policy.judge(question, now), Ruling::Allow { .. });
        policy.egress.push(more);
        let after = matches!(policy.judge(question, now), Ruling::Allow { .. });
        prop_assert!(after || !before);
    }

    #[test]
    fn a_policy_without_address_rules_allows_no_bare_address(
        mut policy in arbitrary::policy(), (subject, hold, now) in question()
    ) {
        policy.egress.retain(|rule| !matches!(rule.host, HostPattern::Address(_)));
        if let Subject::Egress { host: Host::Address(_), .. } = subject {
            let ruling = policy.judge(Question { subject: &subject, hold, under: None }, now);
            prop_assert!(!matches!(ruling, Ruling::Allow { .. }), "{:?}", ruling);
        }
    }

    #[test]
    fn a_denied_subject_is_never_allowed(
        mut policy in arbitrary::policy(), (subject, hold, now) in question()
    ) {
        policy.egress.push(fitting(&subject));
        policy.denials.push(Denial { subject: subject.clone(), ..denial("x.example:1") });
        let ruling = policy.judge(Question { subject: &subject, hold, under: None }, now);
        prop_assert!(matches!(ruling, Ruling::Refuse { .. }), "{:?}", ruling);
    }

    #[test]
    fn explaining_and_judging_agree_for_a_new_action(
        policy in arbitrary::policy(), (subject, _, now) in question()
    ) {
        let verdict = policy.explain(&subject, now).verdict;
        let ruling = policy.judge(Question::of(&subject), now);
        let wanted = match ruling {
            Ruling::Allow { .. } => Verdict::Allowed,
            Ruling::Refuse { .. } => Verdict::Refused,
            Ruling::Ask { .. } => Verdict::Held,
        };
        prop_assert_eq!(verdict, wanted);
    }
}

#[test]
fn a_rule_for_this_machine_counts_for_no_name_that_leads_there() {
    let policy = policy(&["host:5432", "**.example:5432"]);
    let allows = |subject: &Subject| {
        matches!(
            policy.judge(Question::of(subject), now()),
            Ruling::Allow { .. }
        )
    };
    assert!(allows(&subject("host:5432")));
    for other in [
        "host:5433",
        "udp:host:5432",
        "hosts:5432",
        "host.lan:5432",
        "localhost:5432",
        "127.0.0.1:5432",
    ] {
        assert!(!allows(&subject(other)), "{other}");
    }
    for address in ["127.0.0.1", "::1", "10.1.2.3"] {
        assert!(!allows(&resolved("a.example:5432", address)), "{address}");
    }
}

#[test]
fn what_a_profile_refuses_gives_way_to_whoever_allows_it() {
    let mut refused = denial("telemetry.example:443");
    refused.origin.layer = Layer::Profile;
    let subject = subject("telemetry.example:443");
    let mut policy = policy(&[]);
    policy.denials = vec![refused];
    let Ruling::Refuse { by, .. } = ask(&policy, &subject) else {
        panic!("it was not refused")
    };
    assert_eq!(by, Decider::Profile);
    policy.egress = vec![rule("telemetry.example:443")];
    assert!(allows(&policy, &subject));
    policy.denials[0].origin.layer = Layer::Amendment;
    let Ruling::Refuse { by, .. } = ask(&policy, &subject) else {
        panic!("what the operator refuses stays refused")
    };
    assert_eq!(by, Decider::Operator);
}
