use super::*;
use crate::rule::arbitrary;
use crate::{Policy, Question, Ruling, parse_destination};
use foreman_domain::{At, BlockId, BlockState, HoldId, Revision, RunId};
use proptest::prelude::*;

fn subject(text: &str) -> Subject {
    parse_destination(text).unwrap()
}

fn block(subject: Subject, waiting: u32) -> Block {
    Block {
        id: BlockId::new(RunId::from_random(1), 1),
        subject,
        state: BlockState::Open,
        why: "No rule allows it".into(),
        address_vetted: true,
        waiting,
        seen: 3,
        last_hold: HoldId(7),
        revision: Revision(1),
        first_at: At::from_millis(0),
        last_at: At::from_millis(0),
        holders: Vec::new(),
        file: None,
        socket: None,
        breach: None,
        question: None,
    }
}

/// A block of egress asks nothing about files.
fn offers(block: &Block, past: &[Subject]) -> Vec<Offer> {
    super::offers(block, past, &|_, _| unreachable!("no path is asked about"))
}

fn egress(offer: &Offer) -> &EgressRule {
    let Rule::Egress(rule) = &offer.rule else {
        unreachable!("a rule of egress");
    };
    rule
}

fn words(offers: &[Offer]) -> Vec<&str> {
    offers.iter().map(|offer| offer.words.as_str()).collect()
}

#[test]
fn a_card_offers_the_narrowest_first() {
    let offers = self::offers(&block(subject("registry.example:443"), 3), &[]);
    assert_eq!(
        words(&offers),
        [
            "Let the 3 waiting connections to registry.example:443 go on, once",
            "Let this run connect to registry.example:443 until it ends",
            "Let every run of this work order connect to registry.example:443",
            "Let every run in this project connect to registry.example:443",
        ]
    );
    let confirm: Vec<bool> = offers
        .iter()
        .map(|offer| offer.needs_confirmation)
        .collect();
    assert_eq!(confirm, [false, false, false, true]);
    let scopes: Vec<Scope> = offers.iter().map(|offer| offer.scope).collect();
    assert_eq!(
        scopes,
        [Scope::Once, Scope::Run, Scope::Order, Scope::Project]
    );
}

#[test]
fn a_name_with_siblings_offers_them_last_and_says_how_many_were_held() {
    let past = [
        subject("registry.example.com:443"),
        subject("cdn.example.com:443"),
        subject("cdn.example.com:443"),
        subject("cdn.example.com:80"),
        subject("a.b.example.com:443"),
        subject("203.0.113.9:443"),
    ];
    let offers = self::offers(&block(subject("registry.example.com:443"), 1), &past);
    let last = offers.last().unwrap();
    assert_eq!(
        last.words,
        "Let this run connect to any name directly under example.com, port 443 (*.example.com:443), \
         until it ends"
    );
    assert_eq!(
        (last.scope, last.also_opens, last.needs_confirmation),
        (Scope::Run, 1, true)
    );
    assert_eq!(
        offers[0].words,
        "Let the waiting connection to registry.example.com:443 go on, once"
    );
    assert!(offers[..4].iter().all(|offer| offer.also_opens == 0));
}

#[test]
fn a_suffix_of_many_owners_is_not_offered() {
    assert_eq!(
        offers(&block(subject("registry.co.uk:443"), 1), &[]).len(),
        4
    );
    assert_eq!(
        offers(&block(subject("a.registry.co.uk:443"), 1), &[]).len(),
        5
    );
}

#[test]
fn bare_addresses_always_need_a_second_confirmation() {
    let offers = self::offers(&block(subject("[2001:db8::1]:443"), 1), &[]);
    assert!(offers.iter().all(|offer| offer.needs_confirmation));
    assert_eq!(
        offers[1].words,
        "Let this run connect to [2001:db8::1]:443 until it ends"
    );
}

#[test]
fn a_private_answer_is_named_and_opened_alone() {
    let Subject::Egress {
        protocol,
        host,
        port,
        ..
    } = subject("git.intranet.example:443")
    else {
        unreachable!("only egress is typed so");
    };
    let resolved = Some("10.1.2.3".parse().unwrap());
    let own = Subject::Egress {
        protocol,
        host,
        port,
        resolved,
    };
    let offers = self::offers(&block(own, 1), &[subject("git.intranet.example:443")]);
    assert_eq!(offers.len(), 4);
    assert_eq!(
        offers[1].words,
        "Let this run connect to git.intranet.example:443 at 10.1.2.3 (a private address) until it ends"
    );
    for offer in &offers {
        assert_eq!(
            egress(offer).resolves_to,
            Some("10.1.2.3/32".parse().unwrap())
        );
        assert_eq!(offer.also_opens, 0);
    }
}

#[test]
fn udp_reads_as_udp() {
    let offers = self::offers(&block(subject("udp:time.example:123"), 2), &[]);
    assert_eq!(
        words(&offers)[..2],
        [
            "Let the 2 waiting UDP packets to time.example:123 go on, once",
            "Let this run send UDP to time.example:123 until it ends",
        ]
    );
}

#[test]
fn nothing_is_offered_for_the_floor_and_no_once_when_nobody_waits() {
    assert_eq!(offers(&block(subject("169.254.169.254:80"), 1), &[]), []);
    assert_eq!(
        offers(&block(subject("registry.example:443"), 0), &[])[0].scope,
        Scope::Run
    );
}

proptest! {
    #[test]
    fn every_offer_unblocks_its_block_and_the_first_is_the_narrowest(
        own in arbitrary::subject(), past in proptest::collection::vec(arbitrary::subject(), 0..20)
    ) {
        let block = block(own.clone(), 2);
        let offers = self::offers(&block, &past);
        prop_assert_eq!(offers.is_empty(), subject_floor(&own).is_some());
        for offer in &offers {
            let policy = Policy { egress: vec![egress(offer).clone()], ..Policy::default() };
            let judge = |subject: &Subject, hold| {
                policy.judge(Question { subject, hold, under: None }, At::from_millis(0))
            };
            let held = judge(&own, Some(block.last_hold));
            prop_assert!(matches!(held, Ruling::Allow { .. }), "{}: {:?}", offer.words, held);
            let once = matches!(judge(&own, None), Ruling::Ask { .. });
            prop_assert_eq!(once, offer.scope == Scope::Once);
            prop_assert!(offer.needs_confirmation || !egress(offer).host.is_wide());
            prop_assert!(offer.also_opens as usize <= past.len());
        }
        prop_assert!(offers.iter().skip(1).all(|offer| offer.also_opens >= offers[0].also_opens));
    }
}

#[test]
fn a_socket_is_offered_by_its_path_and_a_way_out_asks_again() {
    let socket = |path: &str| Subject::Socket {
        path: foreman_domain::PathText::of(Path::new(path)),
    };
    let plain = self::offers(&block(socket("/run/postgresql/.s.PGSQL.5432"), 2), &[]);
    assert_eq!(
        words(&plain),
        [
            "Let the 2 waiting connections to /run/postgresql/.s.PGSQL.5432 go on, once",
            "Let this run connect to /run/postgresql/.s.PGSQL.5432 until it ends",
            "Let every run of this work order connect to /run/postgresql/.s.PGSQL.5432",
            "Let every run in this project connect to /run/postgresql/.s.PGSQL.5432",
        ]
    );
    let confirm = |offers: &[Offer]| -> Vec<bool> {
        offers
            .iter()
            .map(|offer| offer.needs_confirmation)
            .collect()
    };
    assert_eq!(confirm(&plain), [false, false, false, true]);
    let docker = self::offers(&block(socket("/run/docker.sock"), 1), &[]);
    assert_eq!(confirm(&docker), [true; 4]);
    for offer in &docker {
        assert!(
            offer.opens[0].starts_with("the container engine"),
            "{}",
            offer.words
        );
    }
    // Nothing waits any more: nothing to let go once.
    let gone = self::offers(&block(socket("/run/x"), 0), &[]);
    assert_eq!(gone[0].scope, Scope::Run);
    let keyring = block(socket("/run/user/1000/keyring/control"), 1);
    assert!(self::offers(&keyring, &[]).is_empty());
}

#[test]
fn a_port_of_this_machine_says_whose_it_is_and_a_way_out_asks_again() {
    let offers = self::offers(&block(subject("host:5432"), 1), &[]);
    assert_eq!(
        words(&offers)[1],
        "Let this run connect to host:5432 (this machine's own loopback) until it ends"
    );
    assert!(!offers[1].needs_confirmation);
    assert!(offers[0].opens[0].contains("port 5432 of this machine"));
    let docker = self::offers(&block(subject("host:2375"), 1), &[]);
    assert!(docker.iter().all(|offer| offer.needs_confirmation));
    assert!(docker[0].opens[0].starts_with("the container engine"));
    assert!(self::offers(&block(subject("udp:host:5432"), 1), &[]).is_empty());
}
