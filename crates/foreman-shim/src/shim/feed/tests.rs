use super::*;
use crate::journal::Reader;
use foreman_domain::{LogStream, RunState};

fn output(text: &str) -> EventKind {
    EventKind::Output {
        stream: LogStream::Stdout,
        text: text.into(),
        raw: None,
        continued: false,
    }
}

fn open(dir: &Path) -> (Feed, FeedThread) {
    Feed::open(&dir.join("journal.ndjson"), &RunId::from_random(1)).unwrap()
}

fn seqs(lines: &[(EventSeq, Vec<u8>)]) -> Vec<u64> {
    lines.iter().map(|(seq, _)| seq.0).collect()
}

#[tokio::test]
async fn a_durable_event_is_readable_once_it_is_awaited() {
    let dir = tempfile::tempdir().unwrap();
    let (feed, thread) = open(dir.path());
    feed.tell(output("a"));
    let seq = feed
        .tell_durably(EventKind::State {
            to: RunState::NoChanges,
        })
        .await
        .unwrap();
    assert_eq!(seq, EventSeq(2));
    assert_eq!(seqs(&feed.lines_after(EventSeq(0), 10).unwrap()), [1, 2]);
    assert_eq!(seqs(&feed.lines_after(EventSeq(1), 10).unwrap()), [2]);
    assert!(feed.lines_after(EventSeq(2), 10).unwrap().is_empty());
    thread.close();
}

#[tokio::test]
async fn output_becomes_readable_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (feed, thread) = open(dir.path());
    let mut news = feed.news();
    feed.tell(output("a"));
    let deadline = Duration::from_secs(10);
    tokio::time::timeout(deadline, news.wait_for(|last| *last >= EventSeq(1)))
        .await
        .unwrap()
        .unwrap();
    thread.close();
}

#[tokio::test]
async fn what_is_told_in_passing_wakes_nobody_and_goes_with_the_next_group() {
    let dir = tempfile::tempdir().unwrap();
    let (feed, thread) = open(dir.path());
    let passing = feed.tell_in_passing(output("in passing"));
    let seq = feed.tell(output("a"));
    feed.wait_durable(seq).await.unwrap();
    let kept = seqs(&feed.lines_after(EventSeq(0), 10).unwrap());
    assert_eq!(kept.last(), Some(&2));
    assert_eq!((passing, seq), (EventSeq(1), EventSeq(2)));

    let mut news = feed.news();
    let last = feed.tell_in_passing(output("the last"));
    let woken = tokio::time::timeout(4 * GROUP_AGE, news.changed()).await;
    assert!(woken.is_err(), "it has no group of its own");
    assert_eq!(thread.close(), last);
}

#[tokio::test]
async fn numbers_go_on_after_the_events_of_an_earlier_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.ndjson");
    let run = RunId::from_random(1);
    let mut writer = Writer::open(&path, run, EventSeq(1)).unwrap();
    for _ in 0..100 {
        writer.append(output("engine"), None, None).unwrap();
    }
    drop(writer);
    let (feed, thread) = open(dir.path());
    assert_eq!(feed.tell(output("shim")), EventSeq(101));
    assert_eq!(thread.close(), EventSeq(101));
    assert_eq!(
        seqs(&feed.lines_after(EventSeq(98), 10).unwrap()),
        [99, 100, 101]
    );
}

#[test]
fn a_writer_before_is_waited_for_until_it_lets_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.ndjson");
    let mut writer = Writer::open(&path, RunId::from_random(1), EventSeq(1)).unwrap();
    writer.append(output("engine"), None, None).unwrap();
    let before = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(writer);
    });
    let (feed, thread) = open(dir.path());
    assert_eq!(feed.tell(output("shim")), EventSeq(2));
    thread.close();
    before.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_and_a_reader_see_every_event_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (feed, thread) = open(dir.path());
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let feed = feed.clone();
        writers.spawn(async move {
            for number in 0..5_000 {
                feed.wait_for_room().await;
                feed.tell(output(&number.to_string()));
            }
        });
    }
    let reader = feed.clone();
    let read = tokio::spawn(async move {
        let mut news = reader.news();
        let mut seen = 0;
        while seen < 20_000 {
            let reached = news.wait_for(|last| last.0 > seen);
            tokio::time::timeout(Duration::from_secs(60), reached)
                .await
                .unwrap()
                .unwrap();
            for (seq, _) in reader.lines_after(EventSeq(seen), 512).unwrap() {
                // Lines of the same moment are one record.
                assert!(seq.0 > seen);
                seen = seq.0;
            }
        }
    });
    writers.join_all().await;
    read.await.unwrap();
    thread.close();
    let mut reader = Reader::new(&dir.path().join("journal.ndjson"));
    let mut last = 0;
    loop {
        let page = reader.read_after(EventSeq(last), 20_000).unwrap();
        if page.is_empty() {
            break;
        }
        assert!(
            page.iter()
                .map(|event| event.seq.0)
                .eq((last + 1..).take(page.len()))
        );
        last += page.len() as u64;
    }
    assert_eq!(last, 20_000);
}

#[tokio::test]
async fn nothing_is_told_after_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let (feed, thread) = open(dir.path());
    feed.tell(output("a"));
    assert_eq!(thread.close(), EventSeq(1));
    assert_eq!(feed.tell(output("late")), EventSeq(1));
    assert_eq!(seqs(&feed.lines_after(EventSeq(0), 10).unwrap()), [1]);
}

#[test]
fn an_event_that_says_a_secret_is_in_the_journal_without_it_or_not_at_all() {
    const VALUE: &str = "correct-horse-battery";
    let dir = tempfile::tempdir().unwrap();
    let (feed, thread) = open(dir.path());
    feed.redact(Redactor::of([("KEY", VALUE)]));
    let process = ProcessRef {
        pid: 7,
        argv: vec!["curl".into(), format!("--key={VALUE}")],
    };
    let message = format!("it said {VALUE}");
    feed.tell_of(EventKind::Warning { message }, None, Some(process));
    let looked_up = EventKind::NameLookedUp {
        name: format!("{VALUE}.example"),
    };
    feed.tell(looked_up);
    assert_eq!(thread.close(), EventSeq(2));
    let text = std::fs::read_to_string(dir.path().join("journal.ndjson")).unwrap();
    assert!(!text.contains(VALUE), "{text}");
    assert_eq!(text.matches("‹secret KEY›").count(), 3, "{text}");
}
