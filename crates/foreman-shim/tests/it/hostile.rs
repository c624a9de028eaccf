//! Whatever comes over a pipe or lies in a journal is bounded and never more than an error.

use foreman_domain::{Epoch, EventKind, EventSeq, LogStream, RunEpoch, RunId, ShellId};
use foreman_shim::client::{ClientError, Hello, ShimClient};
use foreman_shim::journal::{Reader, Writer};
use foreman_shim::protocol::Request;
use foreman_shim::station::{self, Answered, LINE_BYTES, Reason};
use foreman_shim::wire::{ANSWER_BYTES, RequestLine, ResponseLine, Version};
use proptest::prelude::*;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of any kind, also such that almost are what is expected.
fn hostile(nearly: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let mutated = (
        prop::sample::select(nearly),
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        any::<prop::sample::Index>(),
        any::<bool>(),
    )
        .prop_map(|(mut bytes, changes, cut, is_cut)| {
            for (at, byte) in changes {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            if is_cut && !bytes.is_empty() {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        });
    let deep = (1..400_usize, prop::sample::select(vec![b'[', b'{', b'"']))
        .prop_map(|(depth, byte)| vec![byte; depth * 50]);
    let any = prop::collection::vec(any::<u8>(), 0..600);
    prop::collection::vec(prop_oneof![4 => mutated, 1 => any, 1 => deep], 0..8)
        .prop_map(|pieces| pieces.concat())
}

fn requests() -> Vec<Vec<u8>> {
    let run = RunId::from_random(3);
    let all = [
        Request::Hello {
            run,
            nonce: "0".repeat(32),
            epoch: Epoch(1),
            run_epoch: RunEpoch(1),
        },
        Request::Events {
            after: EventSeq(u64::MAX),
            limit: u32::MAX,
            wait_ms: 0,
        },
        Request::Stop { grace_ms: 0 },
        Request::Input {
            bytes: "aGFsbG8=".into(),
        },
        Request::ShellInput {
            shell: ShellId::from_random(1),
            at: u64::MAX,
            bytes: "x".into(),
        },
    ];
    let line = |(id, request): (usize, Request)| {
        let line = RequestLine {
            jsonrpc: Version::V2,
            id: id as u64,
            request,
        };
        let mut text = serde_json::to_vec(&line).unwrap();
        text.push(b'\n');
        text
    };
    all.into_iter().enumerate().map(line).collect()
}

fn questions() -> Vec<Vec<u8>> {
    let run = RunId::from_random(3);
    let nonce = "0".repeat(32);
    let all = [
        station::Request::Look {
            run: run.clone(),
            nonce: nonce.clone(),
        },
        station::Request::Attach { run: run.clone() },
        station::Request::Fetch {
            run: run.clone(),
            nonce: nonce.clone(),
            piece: station::Piece::Exit,
            from: u64::MAX,
        },
        station::Request::Kill {
            run: run.clone(),
            nonce: nonce.clone(),
        },
        station::Request::Remove { run, nonce },
    ];
    let line = |request| {
        let line = station::RequestLine {
            v: station::VERSION,
            request,
        };
        let mut text = serde_json::to_vec(&line).unwrap();
        text.push(b'\n');
        text
    };
    all.into_iter().map(line).collect()
}

/// Everything that a station answers to these bytes.
fn converse(place: &Path, from: impl Read + Send + 'static) -> Vec<Answered> {
    let mut out = Vec::new();
    station::serve(place, from, &mut out).unwrap();
    let lines = String::from_utf8(out).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn journal(count: u64) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let mut writer = Writer::open(&path, RunId::from_random(1), EventSeq(1)).unwrap();
    for number in 0..count {
        let kind = match number % 3 {
            0 => EventKind::Warning {
                message: format!("warning {number}"),
            },
            _ => EventKind::Output {
                stream: LogStream::Stdout,
                text: format!("line {number}"),
                raw: None,
                continued: false,
            },
        };
        writer.append(kind, None, None).unwrap();
    }
    writer.sync().unwrap();
    std::fs::read(&path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_line_of_the_runner_protocol_is_read_or_refused(bytes in hostile(requests())) {
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok(read) = serde_json::from_slice::<RequestLine>(line) {
                // What was understood can be said again, and means the same.
                let again = serde_json::to_vec(&read).unwrap();
                let twice: RequestLine = serde_json::from_slice(&again).unwrap();
                prop_assert_eq!(serde_json::to_vec(&twice).unwrap(), again);
            }
            let _ = serde_json::from_slice::<ResponseLine>(line);
        }
    }

    #[test]
    fn a_station_answers_or_refuses_whatever_it_is_asked(bytes in hostile(questions())) {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("station");
        let asked = bytes.iter().filter(|byte| **byte == b'\n').count();
        let answers = converse(&place, io::Cursor::new(bytes));
        // One answer a question, and one refusal more of what was cut off.
        prop_assert!(answers.len() <= asked + 1);
        prop_assert!(answers.iter().all(|line| line.refused.is_some()), "{answers:?}");
        let made = std::fs::read_dir(&place).unwrap().count();
        prop_assert_eq!(made, 0, "a stranger made something");
    }

    #[test]
    fn a_damaged_journal_is_read_up_to_its_damage_and_no_further(
        bytes in hostile(vec![journal(40), journal(3), Vec::new()]),
        limit in 1..70_usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        std::fs::write(&path, &bytes).unwrap();
        let mut reader = Reader::new(&path);
        let (mut last, mut pages, mut is_whole) = (EventSeq(0), 0, false);
        while let Ok(events) = reader.read_after(last, limit) {
            prop_assert!(events.len() <= limit.max(1024));
            let Some(newest) = events.last().map(|event| event.seq) else {
                is_whole = true;
                break;
            };
            for event in events {
                prop_assert!(event.seq > last, "{} after {last}", event.seq);
                last = event.seq;
            }
            prop_assert_eq!(newest, last);
            pages += 1;
            prop_assert!(pages <= bytes.len() + 1, "it never ends");
        }
        // A writer goes on behind what is whole, or says that it cannot; what was read stays.
        if let Ok(mut writer) = Writer::open(&path, RunId::from_random(1), EventSeq(1)) {
            prop_assert!(writer.last_seq() >= last);
            writer.append(EventKind::Warning { message: "on".into() }, None, None).unwrap();
            writer.sync().unwrap();
            drop(writer);
            let again = Reader::new(&path).read_after(last, 1);
            prop_assert!(!is_whole || again.is_ok_and(|events| events.len() == 1));
        }
    }
}

#[test]
fn a_journal_whose_numbers_go_back_is_damaged_and_no_event_comes_twice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    std::fs::write(&path, [journal(3), journal(40)].concat()).unwrap();
    let mut reader = Reader::new(&path);
    let events = reader.read_after(EventSeq(0), 3).unwrap();
    assert_eq!(events.len(), 3);
    let error = reader.read_after(EventSeq(3), 3).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// Gives one byte for ever, and counts.
struct Endless(Arc<AtomicU64>);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(b'{');
        self.0.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        Ok(buffer.len())
    }
}

#[test]
fn a_station_stops_reading_a_line_that_never_ends() {
    let dir = tempfile::tempdir().unwrap();
    let read = Arc::new(AtomicU64::new(0));
    let answers = converse(&dir.path().join("station"), Endless(Arc::clone(&read)));
    let refused = answers[0].refused.as_ref().unwrap();
    assert_eq!(refused.reason, Reason::Malformed);
    assert_eq!(answers.len(), 1);
    assert!(read.load(Ordering::Relaxed) <= LINE_BYTES as u64 + (128 << 10));
}

#[test]
fn a_station_of_another_version_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let asked = b"{\"v\":9,\"method\":\"beam\",\"params\":{\"up\":true}}\n".to_vec();
    let answers = converse(&dir.path().join("station"), io::Cursor::new(asked));
    let refused = answers[0].refused.as_ref().unwrap();
    assert_eq!(refused.reason, Reason::Version);
    assert!(refused.message.contains("version 9"), "{refused}");
}

#[test]
fn a_bundle_that_does_not_come_whole_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("station");
    let stage = crate::stage::Stage::agent("true");
    let offer = station::Offer {
        spec: stage.spec.clone(),
        branch: "foreman/x".into(),
        base_branch: "main".into(),
    };
    for (announced, sent) in [(1_000_u64, 10_usize), (10, 10), (u64::MAX, 10)] {
        let request = station::RequestLine {
            v: station::VERSION,
            request: station::Request::Start {
                offer: Box::new(offer.clone()),
                bundle: announced,
            },
        };
        let mut bytes = serde_json::to_vec(&request).unwrap();
        bytes.push(b'\n');
        bytes.extend(vec![b'x'; sent]);
        let answers = converse(&place, io::Cursor::new(bytes));
        assert_eq!(answers.len(), 1);
        let reason = answers[0].refused.as_ref().unwrap().reason;
        assert!(
            matches!(reason, Reason::Malformed | Reason::BadRepository),
            "{answers:?}"
        );
        assert!(!place.join(stage.spec.run.as_str()).exists());
    }
}

fn hello() -> Hello {
    Hello {
        run: RunId::from_random(1),
        nonce: "0".repeat(32),
        epoch: Epoch(1),
        run_epoch: RunEpoch(1),
    }
}

#[tokio::test]
async fn a_client_takes_no_more_of_a_line_than_a_page_can_have() {
    use tokio::io::AsyncWriteExt;
    let (mut ours, theirs) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(theirs);
    let sending = tokio::spawn(async move {
        let chunk = vec![b'{'; 1 << 20];
        let mut sent = 0;
        while sent < 64 << 20 && ours.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        sent
    });
    let error = ShimClient::over(read, write, hello()).await.unwrap_err();
    assert!(matches!(error, ClientError::Garbled { .. }), "{error}");
    let sent = sending.await.unwrap();
    assert!(sent <= ANSWER_BYTES + (4 << 20), "{sent} bytes were taken");
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error_that_says_so() {
    use tokio::io::AsyncWriteExt;
    for said in [
        &b"Last login: Mon\n"[..],
        b"\xff\xfe\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"answer\":\"done\"}}\n",
    ] {
        let (mut ours, theirs) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(theirs);
        ours.write_all(said).await.unwrap();
        let error = ShimClient::over(read, write, hello()).await.unwrap_err();
        assert!(
            matches!(
                error,
                ClientError::Garbled { .. } | ClientError::Unexpected { .. }
            ),
            "{error}"
        );
    }
}
