//! Events by cursor, whatever happens to the line.

use super::broken::ensure;
use super::{Broken, Candidate, Live, PATIENCE, hello};
use foreman_domain::EventSeq;
use foreman_shim::client::{ClientError, ShimClient};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const MANY: usize = 4_000;

pub(super) async fn events_are_neither_lost_nor_doubled_over_lines_that_break(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let script = format!(
        "i=0; while [ $i -lt {MANY} ]; do echo line-$i; i=$((i+1)); [ $((i % 500)) -ne 0 ] || sleep 0.05; done"
    );
    let mut live = Live::begin(candidate, &script).await?;
    let deadline = Instant::now() + PATIENCE;
    let mut turn = 0_u32;
    loop {
        ensure(Instant::now() < deadline, || "it does not end".into())?;
        // A page is asked for and its line is dropped before, while or after it comes.
        let patience = Duration::from_millis(u64::from(turn % 7));
        let _ = timeout(patience, live.client.events(live.last(), 512, 2_000)).await;
        if live.reconnect(1).await.is_err() {
            // The page that was dropped said the end, so the shim had no reason to wait any longer.
            live.rest_from_journal().await?;
            break;
        }
        turn += 1;
        match live.pull(16 + 97 * (turn % 5)).await {
            Ok(true) => break,
            Ok(false) => {}
            Err(_) => {
                live.rest_from_journal().await?;
                break;
            }
        }
    }
    let lines = live.settle().await?.lines();
    ensure(lines.len() == MANY, || {
        format!("{} lines of {MANY}", lines.len())
    })?;
    let first_wrong = lines
        .iter()
        .enumerate()
        .find(|(index, line)| **line != format!("line-{index}"));
    ensure(first_wrong.is_none(), || format!("{first_wrong:?}"))
}

pub(super) async fn pages_of_large_events_arrive_whole(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    // About 6 MiB in lines of 60 KiB: far more than one page takes.
    let script = "i=0; while [ $i -lt 100 ]; do head -c 61440 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done";
    let ended = Live::begin(candidate, script).await?.end().await?;
    let sizes: Vec<usize> = ended.lines().iter().map(String::len).collect();
    ensure(sizes == [61_440; 100], || {
        format!("lines of {sizes:?} bytes")
    })
}

pub(super) async fn a_reader_that_stands_still_stops_nobody_else(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let script = "i=0; while [ $i -lt 200 ]; do head -c 40000 /dev/zero | tr '\\0' y; echo; i=$((i+1)); done; echo over";
    let mut live = Live::begin(candidate, script).await?;
    // Asks for pages and reads none of them, until nothing more can be written to it.
    let mut line = live.context.open(live.place()).await?;
    let place = live.place();
    let introduction = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{{\"run\":\"{}\",\"nonce\":\"{}\",\"epoch\":1,\"run_epoch\":1}}}}\n",
        place.run, place.nonce
    );
    line.write.write_all(introduction.as_bytes()).await?;
    for id in 2..8 {
        let asked = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"events\",\"params\":{{\"after\":0,\"limit\":512,\"wait_ms\":20000}}}}\n"
        );
        line.write.write_all(asked.as_bytes()).await?;
    }
    line.write.flush().await?;
    live.says("over").await?;
    let lines = live.end().await?.lines();
    ensure(lines.len() == 201, || format!("{} lines", lines.len()))?;
    drop(line);
    Ok(())
}

pub(super) async fn hostile_bytes_are_an_error_and_the_run_goes_on(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let mut live = Live::begin(candidate, "echo up; sleep 600").await?;
    live.says("up").await?;
    let endless = vec![b'{'; 8 << 20];
    let hostile: [&[u8]; 6] = [
        b"\n",
        b"\x00\xff\xfe\x1b]0;x\x07\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"stop\",\"params\":{\"grace_ms\":0}}\n",
        b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n",
        &endless,
    ];
    for bytes in hostile {
        let mut line = live.context.open(live.place()).await?;
        // It may be cut off while it is still being sent.
        let _ = timeout(Duration::from_secs(20), line.write.write_all(bytes)).await;
        let _ = line.write.flush().await;
        let mut answer = Vec::new();
        let mut bounded = line.read.take(1 << 20);
        let read = bounded.read_to_end(&mut answer);
        let ended = timeout(Duration::from_secs(40), read).await;
        ensure(ended.is_ok(), || "the line stays open".into())?;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let refused = text.contains("\"malformed\"") || text.contains("\"not_introduced\"");
        let cut = text.is_empty() && bytes.len() > 1 << 20;
        ensure(refused || cut, || format!("{text:?}"))?;
    }
    // And the other way: what is no shim's is an error to the engine, not more.
    let (mut ours, theirs) = tokio::io::duplex(64 << 10);
    let (read, write) = tokio::io::split(theirs);
    let answering = async {
        let _ = ours
            .write_all(b"Welcome to Somewhere!\nLast login: never\n")
            .await;
        let _ = ours.read(&mut [0; 4096]).await;
        ours
    };
    let introduction = hello(live.place(), 1);
    let (said, _kept) = tokio::join!(ShimClient::over(read, write, introduction), answering);
    let garbled = matches!(&said, Err(ClientError::Garbled { .. }));
    ensure(garbled, || {
        format!("{:?}", said.map(|(_, welcome)| welcome))
    })?;

    let before = live.last();
    live.client.stop(0).await?;
    let ended = live.end().await?;
    ensure(ended.events.len() as u64 > before.0, || {
        "nothing was told any more".into()
    })?;
    ensure(
        ended
            .events
            .first()
            .is_some_and(|event| event.seq == EventSeq(1)),
        || "the first event is missing".into(),
    )?;
    Ok(())
}
