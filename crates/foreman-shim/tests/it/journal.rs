use foreman_domain::{Event, EventKind, EventSeq, LogStream, RunId, RunState};
use foreman_shim::journal::{JournalError, Reader, Writer, read_after};
use std::io::Write;
use std::path::{Path, PathBuf};

fn run() -> RunId {
    RunId::from_random(1)
}

fn line(text: &str) -> EventKind {
    EventKind::Output {
        stream: LogStream::Stdout,
        text: text.into(),
        raw: None,
        continued: false,
    }
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.ndjson");
    (dir, path)
}

fn fill(path: &Path, count: u64) {
    let mut writer = Writer::open(path, run(), EventSeq(1)).unwrap();
    for number in 0..count {
        writer
            .append(line(&format!("line {number}")), None, None)
            .unwrap();
    }
}

fn seqs(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq.0).collect()
}

fn append_raw(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn a_journal_that_does_not_exist_reads_as_empty() {
    let (_dir, path) = scratch();
    assert!(read_after(&path, EventSeq(0), 10).unwrap().is_empty());
}

#[test]
fn numbers_start_at_one_and_go_on_after_reopening() {
    let (_dir, path) = scratch();
    fill(&path, 3);
    fill(&path, 2);
    assert_eq!(
        seqs(&read_after(&path, EventSeq(0), 10).unwrap()),
        [1, 2, 3, 4, 5]
    );
    assert_eq!(seqs(&read_after(&path, EventSeq(3), 1).unwrap()), [4]);
}

#[test]
fn numbers_go_on_where_the_caller_knows_of_more_events_than_the_file() {
    let (_dir, path) = scratch();
    fill(&path, 2);
    let mut writer = Writer::open(&path, run(), EventSeq(10)).unwrap();
    assert_eq!(writer.append(line("x"), None, None).unwrap(), EventSeq(10));
    drop(writer);
    assert_eq!(
        seqs(&read_after(&path, EventSeq(0), 10).unwrap()),
        [1, 2, 10]
    );
}

#[test]
fn a_torn_last_line_is_not_shown_and_is_cut_off_on_opening() {
    for torn in [
        &b"{\"v\":1,\"run\":\"r"[..],
        b"{\"v\":1,\"run\":\"r\n", // its newline made it to the disk, its middle did not
        b"\0\0\0\0\0\0\0\0",
        b"\0\0\0\n",
        b"\xff",
    ] {
        let (_dir, path) = scratch();
        fill(&path, 3);
        append_raw(&path, torn);
        assert_eq!(
            seqs(&read_after(&path, EventSeq(0), 10).unwrap()),
            [1, 2, 3]
        );
        fill(&path, 1);
        assert_eq!(
            seqs(&read_after(&path, EventSeq(0), 10).unwrap()),
            [1, 2, 3, 4]
        );
    }
}

#[test]
fn damage_before_the_last_line_is_an_error_and_never_skipped() {
    let (_dir, path) = scratch();
    fill(&path, 1);
    append_raw(&path, b"garbage\n");
    let good = std::fs::read(&path).unwrap();
    let first = good.split(|byte| *byte == b'\n').next().unwrap().to_vec();
    append_raw(&path, &first);
    append_raw(&path, b"\n");
    let opened = Writer::open(&path, run(), EventSeq(1));
    assert!(
        matches!(opened, Err(JournalError::Damaged { .. })),
        "{opened:?}"
    );
    assert!(read_after(&path, EventSeq(0), 10).is_err());
}

#[test]
fn a_repeated_number_is_damage() {
    let (_dir, path) = scratch();
    fill(&path, 1);
    let line = std::fs::read(&path).unwrap();
    append_raw(&path, &line);
    assert!(matches!(
        Writer::open(&path, run(), EventSeq(1)),
        Err(JournalError::Damaged { .. })
    ));
}

#[test]
fn a_journal_has_one_writer_at_a_time() {
    let (_dir, path) = scratch();
    let writer = Writer::open(&path, run(), EventSeq(1)).unwrap();
    assert!(matches!(
        Writer::open(&path, run(), EventSeq(1)),
        Err(JournalError::Busy { .. })
    ));
    drop(writer);
    Writer::open(&path, run(), EventSeq(1)).unwrap();
}

#[test]
fn a_state_is_in_the_file_when_append_returns() {
    let (_dir, path) = scratch();
    let mut writer = Writer::open(&path, run(), EventSeq(1)).unwrap();
    writer.append(line("grouped"), None, None).unwrap();
    writer
        .append(
            EventKind::State {
                to: RunState::NoChanges,
            },
            None,
            None,
        )
        .unwrap();
    assert_eq!(seqs(&read_after(&path, EventSeq(0), 10).unwrap()), [1, 2]);
}

#[test]
fn a_reader_goes_on_where_it_stopped_and_can_go_back() {
    let (_dir, path) = scratch();
    let mut reader = Reader::new(&path);
    assert!(reader.read_after(EventSeq(0), 10).unwrap().is_empty());
    fill(&path, 300);
    assert_eq!(reader.read_after(EventSeq(0), 256).unwrap().len(), 256);
    assert_eq!(
        seqs(&reader.read_after(EventSeq(256), 2).unwrap()),
        [257, 258]
    );
    assert_eq!(seqs(&reader.read_after(EventSeq(10), 2).unwrap()), [11, 12]);
    append_raw(&path, b"{\"torn");
    assert_eq!(reader.read_after(EventSeq(258), 512).unwrap().len(), 42);
    fill(&path, 1);
    assert_eq!(seqs(&reader.read_after(EventSeq(300), 512).unwrap()), [301]);
}

#[test]
fn readers_beside_a_writer_see_every_event_once_and_in_order() {
    let (_dir, path) = scratch();
    let total = 3_000;
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut reader = Reader::new(&path);
                let mut last = EventSeq(0);
                let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
                while last.0 < total {
                    assert!(std::time::Instant::now() < deadline, "stuck at {last}");
                    for event in reader.read_after(last, 100).unwrap() {
                        assert_eq!(event.seq, last.next());
                        last = event.seq;
                    }
                }
            })
        })
        .collect();
    let mut writer = Writer::open(&path, run(), EventSeq(1)).unwrap();
    for number in 0..total {
        writer
            .append(line(&"x".repeat((number % 997) as usize)), None, None)
            .unwrap();
        if number % 50 == 0 {
            writer.sync().unwrap();
        }
    }
    writer.sync().unwrap();
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn a_page_of_large_events_is_bounded() {
    let (_dir, path) = scratch();
    let mut writer = Writer::open(&path, run(), EventSeq(1)).unwrap();
    for _ in 0..100 {
        writer
            .append(line(&"x".repeat(100_000)), None, None)
            .unwrap();
    }
    drop(writer);
    let page = read_after(&path, EventSeq(0), 512).unwrap();
    assert!((10..=12).contains(&page.len()), "{}", page.len());
}
