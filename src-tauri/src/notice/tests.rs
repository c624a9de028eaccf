use super::*;
use foreman_domain::{Host, Protocol};

fn subject(host: &str) -> Subject {
    Subject::Egress {
        protocol: Protocol::Tcp,
        host: Host::Name(host.into()),
        port: 443,
        resolved: None,
    }
}

fn held(number: u32) -> Happening {
    Happening::Held {
        block: BlockId::new(RunId::from_random(7), number),
        title: "fix the login".into(),
        subject: subject(&format!("host{number}.example")),
    }
}

fn ended(random: u64) -> Happening {
    Happening::Review {
        run: RunId::from_random(random),
        title: "fix the login".into(),
    }
}

#[test]
fn one_held_action_is_told_with_its_title_and_destination() {
    let mut all = Coalescer::default();
    let start = Instant::now();
    all.add(held(1), start);
    assert_eq!(all.due(), Some(start + TOGETHER));
    assert!(all.take(start).is_empty());
    let told = all.take(start + TOGETHER);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].summary, "An action is held");
    assert_eq!(told[0].body, "fix the login: host1.example:443");
    assert_eq!(
        told[0].target,
        Target::Block(BlockId::new(RunId::from_random(7), 1))
    );
    assert_eq!(all.due(), None);
    assert!(all.take(start + TOGETHER * 9).is_empty());
}

#[test]
fn a_burst_is_one_notification() {
    let mut all = Coalescer::default();
    let start = Instant::now();
    for number in 1..=500 {
        all.add(
            held(number),
            start + Duration::from_millis(u64::from(number)),
        );
    }
    let told = all.take(start + TOGETHER + Duration::from_millis(1));
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].summary, "500 actions are held");
    assert_eq!(told[0].target, Target::Inbox);
    assert_eq!(told[0].body.lines().count(), NAMED + 1);
    assert!(told[0].body.ends_with("and 497 more"));
}

#[test]
fn what_comes_shortly_after_waits_longer() {
    let mut all = Coalescer::default();
    let start = Instant::now();
    all.add(held(1), start);
    let first = start + TOGETHER;
    assert_eq!(all.take(first).len(), 1);
    all.add(held(2), first + Duration::from_secs(1));
    assert_eq!(
        all.due(),
        Some(first + Duration::from_secs(1) + TOGETHER_AFTER_ONE)
    );
    assert_eq!(all.take(first + TOGETHER_AFTER_ONE * 2).len(), 1);
    let later = first + TOGETHER_AFTER_ONE * 2 + SHORTLY;
    all.add(held(3), later);
    assert_eq!(all.due(), Some(later + TOGETHER));
}

#[test]
fn what_was_decided_meanwhile_is_not_told() {
    let mut all = Coalescer::default();
    let start = Instant::now();
    all.add(held(1), start);
    all.forget(&BlockId::new(RunId::from_random(7), 1));
    assert_eq!(all.due(), None);
    assert!(all.take(start + TOGETHER).is_empty());
}

#[test]
fn held_actions_and_ended_runs_are_told_apart() {
    let mut all = Coalescer::default();
    let start = Instant::now();
    all.add(held(1), start);
    all.add(ended(1), start);
    all.add(ended(2), start);
    let told = all.take(start + TOGETHER);
    assert_eq!(told.len(), 2);
    assert_eq!(told[1].summary, "2 runs have ended");
    assert_eq!(told[1].target, Target::Window);
}

#[test]
fn hostile_text_is_marked_and_cut() {
    let mut all = Coalescer::default();
    let start = Instant::now();
    all.add(
        Happening::Held {
            block: BlockId::new(RunId::from_random(7), 1),
            title: format!("a\u{202e}b\u{1b}[31m\n{}", "x".repeat(10_000)),
            subject: subject("host.example"),
        },
        start,
    );
    let body = all.take(start + TOGETHER).remove(0).body;
    assert!(body.ends_with(": host.example:443"), "{body}");
    assert!(body.chars().count() <= LONGEST_LINE + 4, "{body}");
    assert_eq!(sanitize_line(&body), body);
}

#[test]
fn an_address_of_the_sixth_version_is_in_brackets() {
    let address = Subject::Egress {
        protocol: Protocol::Tcp,
        host: Host::Address("2001:db8::1".parse().unwrap()),
        port: 22,
        resolved: None,
    };
    assert_eq!(destination(&address), "[2001:db8::1]:22");
}

#[test]
fn a_file_is_told_by_what_is_wanted_of_it_and_where() {
    let file = Subject::File {
        access: foreman_domain::FileAccess::Write,
        path: foreman_domain::PathText::of("/srv/data/a\u{202e}b".as_ref()),
    };
    assert_eq!(destination(&file), "write /srv/data/a\\xe2\\x80\\xaeb");
}

#[test]
fn what_was_notified_is_known_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a/notified");
    let (one, two) = (
        BlockId::new(RunId::from_random(7), 1),
        BlockId::new(RunId::from_random(7), 2),
    );
    let mut marks = Marks::read(&file);
    assert!(marks.mark(&one));
    assert!(!marks.mark(&one));
    marks.write().unwrap();
    let mut again = Marks::read(&file);
    assert!(!again.mark(&one));
    assert!(again.mark(&two));
    assert!(again.keep_only(|id| id == two.to_string()));
    again.write().unwrap();
    assert!(Marks::read(&file).mark(&one));
}
