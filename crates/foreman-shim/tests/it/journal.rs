use foreman_domain::{Event, EventKind, EventSeq, LogStream, RunId, RunState};
use foreman_shim::journal::{JournalError, Reader, Writer, read_after};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// Opens a journal that nobody should have. Waits all the same: a child that another test is just
/// starting has every lock of this process until it becomes its program.
fn open(path: &Path, next: u64) -> Writer {
    try_open(path, next).unwrap()
}

fn try_open(path: &Path, next: u64) -> Result<Writer, JournalError> {
    let patience = Duration::from_secs(20);
    Writer::open_in_turn(path, &run(), EventSeq(next), patience).map(|(writer, _)| writer)
}

fn fill(path: &Path, count: u64) {
    let mut writer = open(path, 1);
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
    let mut writer = open(&path, 10);
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
    let opened = try_open(&path, 1);
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
        try_open(&path, 1),
        Err(JournalError::Damaged { .. })
    ));
}

#[test]
fn a_journal_has_one_writer_at_a_time() {
    let (_dir, path) = scratch();
    let writer = open(&path, 1);
    assert!(matches!(
        Writer::open(&path, run(), EventSeq(1)),
        Err(JournalError::Busy { .. })
    ));
    drop(writer);
    open(&path, 1);
}

#[test]
fn a_state_is_in_the_file_when_append_returns() {
    let (_dir, path) = scratch();
    let mut writer = open(&path, 1);
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
    let mut writer = open(&path, 1);
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
    let mut writer = open(&path, 1);
    for _ in 0..100 {
        writer
            .append(line(&"x".repeat(100_000)), None, None)
            .unwrap();
    }
    drop(writer);
    let page = read_after(&path, EventSeq(0), 512).unwrap();
    assert!((10..=12).contains(&page.len()), "{}", page.len());
}

/// A flood: many short lines of one moment.
fn flood(run: &RunId, range: std::ops::RangeInclusive<u64>) -> Vec<Event> {
    range
        .map(|seq| Event {
            v: foreman_domain::WIRE_VERSION,
            run: run.clone(),
            seq: EventSeq(seq),
            at: foreman_domain::At::from_millis((seq / 300) as i64),
            step: None,
            process: None,
            kind: line(&format!("l{seq}")),
        })
        .collect()
}

fn fill_flood(path: &Path, range: std::ops::RangeInclusive<u64>) {
    let mut writer = open(path, 1);
    for packed in foreman_domain::pack(&flood(&run(), range)) {
        writer.push_packed(packed).unwrap();
    }
    writer.sync().unwrap();
}

#[test]
fn lines_of_one_read_are_one_line_of_the_journal_and_are_read_one_by_one() {
    let (_dir, path) = scratch();
    fill_flood(&path, 1..=2_000);
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < 20_000, "{size} bytes for 2,000 lines of 6");
    let wanted = flood(&run(), 1..=2_000);
    for limit in [1, 7, 299, 512] {
        let mut reader = Reader::new(&path);
        let mut got = Vec::new();
        loop {
            let after = EventSeq(got.len() as u64);
            let page = reader.read_after(after, limit).unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            got.extend(page);
            if limit == 1 && got.len() == 20 {
                break;
            }
        }
        assert_eq!(got, wanted[..got.len()], "{limit}");
        assert!(limit == 1 || got.len() == wanted.len());
    }
    assert_eq!(
        seqs(&read_after(&path, EventSeq(1_234), 3).unwrap()),
        [1_235, 1_236, 1_237]
    );
}

#[test]
fn numbers_go_on_after_a_record_of_many_events_also_when_it_was_torn() {
    let (_dir, path) = scratch();
    fill_flood(&path, 1..=100);
    fill(&path, 1);
    assert_eq!(read_after(&path, EventSeq(99), 10).unwrap().len(), 2);
    let whole = std::fs::read(&path).unwrap();
    fill_flood(&path, 102..=200);
    let torn = std::fs::metadata(&path).unwrap().len() - 10;
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(torn).unwrap();
    assert_eq!(read_after(&path, EventSeq(0), 500).unwrap().len(), 101);
    let writer = open(&path, 1);
    assert_eq!(writer.last_seq(), EventSeq(101));
    drop(writer);
    assert_eq!(std::fs::read(&path).unwrap(), whole);
}

#[test]
fn a_record_that_repeats_a_number_in_its_middle_is_damage() {
    let (_dir, path) = scratch();
    fill_flood(&path, 1..=100);
    let whole = std::fs::read(&path).unwrap();
    fill(&path, 1);
    let (_other, beside) = scratch();
    fill_flood(&beside, 1..=50);
    let overlapping = std::fs::read(&beside).unwrap();
    std::fs::write(&path, [whole, overlapping].concat()).unwrap();
    assert!(matches!(
        try_open(&path, 1),
        Err(JournalError::Damaged { .. })
    ));
}

#[test]
fn a_journal_that_was_cut_keeps_its_last_line_and_where_its_numbers_stand() {
    let (_dir, path) = scratch();
    fill_flood(&path, 1..=2_000);
    fill(&path, 1);
    let whole = read_after(&path, EventSeq(2_000), 10).unwrap();
    for _ in 0..2 {
        let writer = open(&path, 1);
        writer.keep_last_line().unwrap();
        assert_eq!(read_after(&path, EventSeq(0), 10).unwrap(), whole);
    }
    // Whoever knows nothing of what was stored goes on where the numbers stand.
    fill(&path, 1);
    assert_eq!(
        seqs(&read_after(&path, EventSeq(0), 10).unwrap()),
        [2_001, 2_002]
    );
    assert!(std::fs::metadata(&path).unwrap().len() < 1_000);
    let (_other, empty) = scratch();
    let writer = open(&empty, 1);
    writer.keep_last_line().unwrap();
    assert_eq!(std::fs::metadata(&empty).unwrap().len(), 0);
}

#[test]
fn a_last_line_of_any_length_is_kept_whole() {
    for size in [1, 16_000, 17_000, 300_000] {
        let (_dir, path) = scratch();
        fill(&path, 3);
        let mut writer = open(&path, 1);
        writer.append(line(&"x".repeat(size)), None, None).unwrap();
        writer.keep_last_line().unwrap();
        assert_eq!(
            seqs(&read_after(&path, EventSeq(0), 10).unwrap()),
            [4],
            "{size}"
        );
    }
}

#[test]
fn whoever_waited_for_a_journal_that_was_cut_writes_the_one_in_its_place() {
    let (_dir, path) = scratch();
    for round in 0..200_u64 {
        fill(&path, 2);
        let cutter = open(&path, 1);
        let waiter = std::thread::spawn({
            let path = path.clone();
            move || open(&path, 1)
        });
        cutter.keep_last_line().unwrap();
        let mut writer = waiter.join().unwrap();
        writer.append(line("x"), None, None).unwrap();
        drop(writer);
        let last = round * 3 + 2;
        assert_eq!(
            seqs(&read_after(&path, EventSeq(0), 10).unwrap())[..],
            [last, last + 1][..]
        );
        open(&path, 1).keep_last_line().unwrap();
    }
}
