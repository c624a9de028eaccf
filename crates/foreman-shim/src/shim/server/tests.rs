use super::*;
use crate::client::{ClientError, Hello, ShimClient};
use crate::protocol::HoldMode;
use crate::shim::feed::FeedThread;
use foreman_domain::{
    Amendment, AmendmentId, AmendmentState, At, BlockId, Decision, Epoch, EventKind, RunEpoch,
    RunId, Scope,
};
use foreman_policy::Policy;
use std::path::PathBuf;
use tokio::io::{AsyncBufReadExt, BufReader};

const NONCE: &str = "00112233445566778899aabbccddeeff";

struct Bench {
    desk: Arc<Desk>,
    socket: PathBuf,
    closing: CancellationToken,
    thread: Option<FeedThread>,
    dir: tempfile::TempDir,
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let run = RunId::from_random(5);
    let journal = dir.path().join("journal");
    let (feed, thread) = Feed::open(&journal, &run).unwrap();
    let policy = Policy::default();
    let desk = Arc::new(Desk {
        identity: ShimIdentity::of_this_process(run.clone()).unwrap(),
        nonce: NONCE.into(),
        feed: feed.clone(),
        arbiter: Arbiter::new(run, policy, HoldMode::Hold, feed.clone()),
        stop: StopSwitch::new(),
        terminal: TerminalPort::default(),
        messages: MessagePort::default(),
        shells: Shells::new(feed.clone()),
        ports: Ports::new(feed.clone()),
        gauge: Gauge::new(crate::shim::disk::Disk::new(std::path::Path::new(
            "/nowhere",
        ))),
        ended: watch::Sender::new(false),
        end_was_read: watch::Sender::new(false),
        fence: FenceKeeper::open(&journal).unwrap(),
    });
    let socket = dir.path().join("s");
    let closing = CancellationToken::new();
    let listener = listen(&socket).unwrap();
    tokio::spawn(serve(listener, Arc::clone(&desk), closing.clone()));
    Bench {
        desk,
        socket,
        closing,
        thread: Some(thread),
        dir,
    }
}

impl Bench {
    fn hello(&self, epoch: u64) -> Hello {
        Hello {
            run: self.desk.identity.run.clone(),
            nonce: NONCE.into(),
            epoch: Epoch(epoch),
            run_epoch: RunEpoch(1),
        }
    }

    async fn connect(&self, epoch: u64) -> ShimClient {
        ShimClient::connect(&self.socket, self.hello(epoch))
            .await
            .unwrap()
            .0
    }

    fn tell(&self) {
        self.desk.feed.tell(EventKind::Warning {
            message: "x".into(),
        });
    }

    /// Sends raw text and reads all that comes back until the shim closes the connection.
    async fn raw(&self, text: &str) -> Vec<ResponseLine> {
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        // A refused line may be cut off while it is still being sent.
        let _ = stream.write_all(text.as_bytes()).await;
        let mut lines = BufReader::new(stream).lines();
        let mut answers = Vec::new();
        let read = async {
            while let Ok(Some(line)) = lines.next_line().await {
                answers.push(serde_json::from_str(&line).unwrap());
            }
        };
        timeout(Duration::from_secs(20), read).await.unwrap();
        answers
    }
}

fn reason(error: &ClientError) -> Option<Refusal> {
    match error {
        ClientError::Refused { reason, .. } => Some(*reason),
        _ => None,
    }
}

#[tokio::test]
async fn only_the_run_and_its_nonce_are_welcome() {
    let bench = bench();
    let (_client, welcome) = ShimClient::connect(&bench.socket, bench.hello(1))
        .await
        .unwrap();
    assert_eq!(welcome.identity, bench.desk.identity);
    let wrong_nonce = Hello {
        nonce: "0".repeat(32),
        ..bench.hello(1)
    };
    let empty_nonce = Hello {
        nonce: String::new(),
        ..bench.hello(1)
    };
    let wrong_run = Hello {
        run: RunId::from_random(99),
        ..bench.hello(1)
    };
    for hello in [wrong_nonce, empty_nonce, wrong_run] {
        let error = ShimClient::connect(&bench.socket, hello).await.unwrap_err();
        assert_eq!(reason(&error), Some(Refusal::NotIntroduced));
    }
}

#[tokio::test]
async fn nothing_is_answered_before_hello() {
    let bench = bench();
    let stop = r#"{"jsonrpc":"2.0","id":4,"method":"stop","params":{"grace_ms":0}}"#;
    let answers = bench.raw(&format!("{stop}\n{stop}\n")).await;
    assert_eq!(answers.len(), 1, "the connection ends at once");
    assert_eq!(
        answers[0].error.as_ref().unwrap().data,
        Refusal::NotIntroduced
    );
    assert_eq!(bench.desk.stop.wish(), None);
}

#[tokio::test]
async fn hostile_lines_end_the_connection_with_a_reason() {
    let bench = bench();
    let long = "x".repeat(2 * HELLO_BYTES);
    for text in [
        "nonsense\n",
        "{}\n",
        "\u{0}\n",
        "[1]\n",
        &format!("{long}\n"),
    ] {
        let answers = bench.raw(text).await;
        assert_eq!(
            answers[0].error.as_ref().unwrap().data,
            Refusal::Malformed,
            "{text:.20}"
        );
    }
    bench.connect(1).await;
}

#[tokio::test]
async fn a_line_without_an_end_is_cut_off_before_hello_and_harms_nobody_after_it() {
    let bench = bench();
    let endless = "x".repeat(1 << 20);
    let answers = bench.raw(&endless).await;
    assert_eq!(answers[0].error.as_ref().unwrap().data, Refusal::Malformed);

    // Who knows the nonce may send long lines, but not endless ones.
    let mut stream = UnixStream::connect(&bench.socket).await.unwrap();
    stream.write_all(&hello_line(&bench, 1)).await.unwrap();
    stream.write_all(endless.as_bytes()).await.unwrap();
    bench.connect(1).await.stop(7).await.unwrap();
    let more = REQUEST_BYTES / endless.len() + 1;
    for _ in 0..more {
        // It may be cut off while it is still sending.
        let _ = stream.write_all(endless.as_bytes()).await;
    }
    let mut lines = BufReader::new(stream).lines();
    let mut last = None;
    while let Ok(Some(line)) = timeout(Duration::from_secs(20), lines.next_line())
        .await
        .unwrap()
    {
        last = Some(line);
    }
    let last: ResponseLine = serde_json::from_str(&last.unwrap()).unwrap();
    assert_eq!(last.error.unwrap().data, Refusal::Malformed);
}

fn hello_line(bench: &Bench, epoch: u64) -> Vec<u8> {
    let Hello {
        run,
        nonce,
        epoch,
        run_epoch,
    } = bench.hello(epoch);
    let line = RequestLine {
        jsonrpc: Version::V2,
        id: 1,
        request: Request::Hello {
            run,
            nonce,
            epoch,
            run_epoch,
        },
    };
    let mut bytes = serde_json::to_vec(&line).unwrap();
    bytes.push(b'\n');
    bytes
}

#[tokio::test]
async fn nesting_without_an_end_is_refused_and_not_followed() {
    let bench = bench();
    for open in ["[", "{\"a\":"] {
        let nested = open.repeat(HELLO_BYTES / open.len() - 1);
        let answers = bench.raw(&format!("{nested}\n")).await;
        assert_eq!(answers[0].error.as_ref().unwrap().data, Refusal::Malformed);
    }
    let mut stream = UnixStream::connect(&bench.socket).await.unwrap();
    stream.write_all(&hello_line(&bench, 1)).await.unwrap();
    let nested = "[".repeat(1 << 20);
    let request =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"apply\",\"params\":{nested}\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let welcome = lines.next_line().await.unwrap();
    assert!(welcome.unwrap().contains("welcome"));
    let refused = timeout(Duration::from_secs(20), lines.next_line()).await;
    assert!(refused.unwrap().unwrap().unwrap().contains("malformed"));
    bench.connect(1).await;
}

#[tokio::test]
async fn ten_thousand_connections_neither_end_the_shim_nor_the_engine_in_charge() {
    const AT_ONCE: usize = 100;
    let bench = bench();
    let client = bench.connect(1).await;
    for round in 0..10_000 / AT_ONCE {
        let mut strangers = Vec::new();
        for _ in 0..AT_ONCE {
            strangers.push(UnixStream::connect(&bench.socket).await.unwrap());
        }
        if round % 10 == 0 {
            client.events(EventSeq(0), 1, 0).await.unwrap();
        }
    }
    client.stop(7).await.unwrap();
    drop(client);
    // Room comes back once the strangers are gone.
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while ShimClient::connect(&bench.socket, bench.hello(1))
        .await
        .is_err()
    {
        assert!(std::time::Instant::now() < deadline);
    }
}

#[tokio::test]
async fn a_fenced_engine_decides_and_types_nothing_even_on_a_line_that_is_still_open() {
    let bench = bench();
    let mut orders = bench.desk.terminal.open();
    let stale = UnixStream::connect(&bench.socket).await.unwrap();
    let (read, mut write) = stale.into_split();
    write.write_all(&hello_line(&bench, 1)).await.unwrap();
    let mut lines = BufReader::new(read).lines();
    let welcome = lines.next_line().await.unwrap();
    assert!(welcome.unwrap().contains("welcome"));
    let _newer = bench.connect(2).await;
    let before = bench.desk.arbiter.revision();
    let run = bench.desk.identity.run.clone();
    let policy = Policy {
        revision: before.next(),
        ..Policy::default()
    };
    let amendment = Amendment {
        id: AmendmentId::new(run.clone(), 1),
        block: BlockId::new(run, 1),
        decision: Decision::Allow,
        scope: Scope::Run,
        words: String::new(),
        state: AmendmentState::Active,
        decided_at: At::from_millis(0),
        revision: policy.revision,
        expires: None,
        surface: None,
    };
    for request in [
        Request::Stop { grace_ms: 0 },
        Request::Input {
            bytes: "eA==".into(),
        },
        Request::Resize {
            columns: 1,
            rows: 1,
        },
        Request::Apply {
            policy: Box::new(policy),
            amendment: Box::new(amendment),
            block: None,
        },
    ] {
        let line = RequestLine {
            jsonrpc: Version::V2,
            id: 9,
            request,
        };
        let mut bytes = serde_json::to_vec(&line).unwrap();
        bytes.push(b'\n');
        // The shim may have closed the line already.
        let _ = write.write_all(&bytes).await;
    }
    let mut answers = Vec::new();
    while let Ok(Some(line)) = timeout(Duration::from_secs(20), lines.next_line())
        .await
        .unwrap()
    {
        answers.push(line);
    }
    let is_fenced = |line: &String| line.contains("fenced");
    assert!(answers.iter().all(is_fenced), "{answers:?}");
    assert_eq!(bench.desk.stop.wish(), None);
    assert_eq!(bench.desk.arbiter.revision(), before);
    assert!(orders.try_recv().is_err());
}

#[tokio::test]
async fn a_newer_epoch_fences_the_older_and_an_older_one_is_refused() {
    let bench = bench();
    let old = bench.connect(1).await;
    let poll = tokio::spawn({
        let old = Arc::new(old);
        let polling = Arc::clone(&old);
        async move { (polling.events(EventSeq(0), 10, 30_000).await, old) }
    });
    let new = bench.connect(2).await;
    let (fenced, old) = timeout(Duration::from_secs(20), poll)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(
        reason(&fenced.unwrap_err()),
        Some(Refusal::Fenced)
    ));
    assert!(old.stop(0).await.is_err());
    assert_eq!(
        bench.desk.stop.wish(),
        None,
        "a fenced engine has no effect"
    );
    let late = ShimClient::connect(&bench.socket, bench.hello(1))
        .await
        .unwrap_err();
    assert_eq!(reason(&late), Some(Refusal::Fenced));
    // The same epoch may connect twice.
    bench.connect(2).await;
    new.events(EventSeq(0), 1, 0).await.unwrap();
    // A later claim of the same engine counts, too.
    let later = Hello {
        run_epoch: RunEpoch(2),
        ..bench.hello(2)
    };
    ShimClient::connect(&bench.socket, later).await.unwrap();
    assert!(new.stop(0).await.is_err());
    let earlier = ShimClient::connect(&bench.socket, bench.hello(2)).await;
    assert_eq!(reason(&earlier.unwrap_err()), Some(Refusal::Fenced));
}

#[tokio::test]
async fn a_long_poll_ends_with_the_first_news() {
    let bench = bench();
    let client = bench.connect(1).await;
    let nothing = client.events(EventSeq(0), 10, 10).await.unwrap();
    assert!(nothing.events.is_empty() && !nothing.ended);
    let poll = client.events(EventSeq(0), 10, 30_000);
    let (page, ()) = tokio::join!(poll, async { bench.tell() });
    assert_eq!(page.unwrap().events.len(), 1);
}

#[tokio::test]
async fn pages_follow_each_other_without_loss_or_repeat() {
    let bench = bench();
    for _ in 0..1_500 {
        bench.tell();
    }
    let client = bench.connect(1).await;
    let mut last = EventSeq(0);
    while last < EventSeq(1_500) {
        let page = client.events(last, 10_000, 5_000).await.unwrap();
        assert!(!page.events.is_empty() && page.events.len() <= 512);
        for event in page.events {
            assert_eq!(event.seq, last.next());
            last = event.seq;
        }
    }
}

#[tokio::test]
async fn the_end_is_told_once_everything_was_read() {
    let mut bench = bench();
    for _ in 0..600 {
        bench.tell();
    }
    let client = bench.connect(1).await;
    let thread = bench.thread.take().unwrap();
    tokio::task::spawn_blocking(move || thread.close())
        .await
        .unwrap();
    bench.desk.ended.send_replace(true);
    let first = client.events(EventSeq(0), 512, 0).await.unwrap();
    assert!(!first.ended);
    let second = client.events(EventSeq(512), 512, 0).await.unwrap();
    assert_eq!((second.events.len(), second.ended), (88, true));
    let mut read = bench.desk.end_was_read.subscribe();
    timeout(Duration::from_secs(5), read.wait_for(|read| *read))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_decision_is_not_kept_waiting_by_a_poll() {
    let bench = bench();
    let client = bench.connect(1).await;
    let poll = client.events(EventSeq(0), 10, 30_000);
    let stop = async {
        client.stop(7).await.unwrap();
        bench.tell();
    };
    let (page, ()) = tokio::join!(poll, stop);
    page.unwrap();
    assert_eq!(
        bench.desk.stop.wish().unwrap().grace,
        Duration::from_millis(7)
    );
}

#[tokio::test]
async fn keys_go_to_the_running_terminal_and_nowhere_else() {
    let bench = bench();
    let client = bench.connect(1).await;
    assert_eq!(
        reason(&client.input(b"x").await.unwrap_err()),
        Some(Refusal::NoTerminal)
    );
    let mut orders = bench.desk.terminal.open();
    client.input(b"ls\n\xff").await.unwrap();
    client.resize(80, 24).await.unwrap();
    assert_eq!(
        orders.recv().await,
        Some(TerminalOrder::Input(b"ls\n\xff".to_vec()))
    );
    assert_eq!(
        orders.recv().await,
        Some(TerminalOrder::Resize {
            columns: 80,
            rows: 24
        })
    );
    drop(orders);
    assert_eq!(
        reason(&client.input(b"x").await.unwrap_err()),
        Some(Refusal::NoTerminal)
    );
}

#[tokio::test]
async fn connections_beyond_the_bound_are_turned_away_and_room_comes_back() {
    let bench = bench();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(bench.connect(1).await);
    }
    let error = ShimClient::connect(&bench.socket, bench.hello(1))
        .await
        .unwrap_err();
    assert!(
        matches!(error, ClientError::Closed) || reason(&error) == Some(Refusal::Busy),
        "{error}"
    );
    clients.clear();
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while ShimClient::connect(&bench.socket, bench.hello(1))
        .await
        .is_err()
    {
        assert!(std::time::Instant::now() < deadline);
    }
}

#[tokio::test]
async fn the_socket_is_for_its_own_user_only() {
    let bench = bench();
    let mode = std::fs::metadata(&bench.socket)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    bench.closing.cancel();
    assert!(bench.dir.path().exists());
}
