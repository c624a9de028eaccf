//! Answers the engine on the run's socket.
//!
//! The first request must be hello. A higher fence ends every connection of a lower one at once. A
//! connection's requests are answered in order, but for long polls and decisions, which keep nobody
//! waiting. Everything is bounded: connections, lines, waits, polls of one connection, bytes of a page.

mod messages;
mod terminal;

pub(super) use messages::{MessagePort, Saying};
pub(super) use terminal::{TerminalOrder, TerminalPort};

use super::arbiter::Arbiter;
use super::feed::Feed;
use super::fence::FenceKeeper;
use super::gauge::Gauge;
use super::ports::{self, Ports};
use super::shells::{Asked, Shells};
use super::stop::StopSwitch;
use crate::protocol::{Request, Response, ShimIdentity};
use crate::wire::{
    HELLO_BYTES, REQUEST_BYTES, Refusal, RequestLine, ResponseLine, RpcError, Version,
    equal_in_constant_time,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreman_domain::{CancelCause, EventSeq, Fence};
use futures::StreamExt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections at one time.
const CONNECTIONS: usize = 16;
/// Long polls and decisions of one connection at one time.
const IN_FLIGHT: usize = 8;
/// Longest wait for hello, and for a client that does not read.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most events of a page.
const PAGE: u32 = 512;
/// Longest wait of a long poll.
const POLL: Duration = Duration::from_secs(30);

/// What the server answers from.
pub(super) struct Desk {
    pub(super) identity: ShimIdentity,
    pub(super) nonce: String,
    pub(super) feed: Feed,
    pub(super) arbiter: Arbiter,
    pub(super) stop: StopSwitch,
    pub(super) terminal: TerminalPort,
    pub(super) messages: MessagePort,
    pub(super) shells: Shells,
    pub(super) ports: Ports,
    pub(super) gauge: Gauge,
    /// True when no event will ever follow and the exit record is in place.
    pub(super) ended: watch::Sender<bool>,
    /// True when an engine has been told so.
    pub(super) end_was_read: watch::Sender<bool>,
    /// The highest fence that introduced itself.
    pub(super) fence: FenceKeeper,
}

/// Listens at `path`, for the own user only.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // The process's umask keeps others out from the first moment.
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Serves until `closing` fires; then every connection ends.
pub(super) async fn serve(listener: UnixListener, desk: Arc<Desk>, closing: CancellationToken) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        if !is_own_user(&stream) {
            tracing::warn!("a connection of another user was refused");
            continue;
        }
        let permit = Arc::clone(&permits).try_acquire_owned();
        let (desk, closing) = (Arc::clone(&desk), closing.clone());
        connections.spawn(async move {
            match permit {
                Ok(_permit) => converse(stream, &desk, closing).await,
                Err(_) => turn_away(stream).await,
            }
        });
    }
    connections.close();
    // Whoever does not read his last answer soon is not waited for.
    let _ = timeout(Duration::from_secs(1), connections.wait()).await;
}

fn is_own_user(stream: &UnixStream) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn turn_away(mut stream: UnixStream) {
    let error = Refusal::Busy.says("Too many connections to this run are open");
    let _ = timeout(PATIENCE, stream.write_all(&encode(None, Err(error)))).await;
}

/// A line to send, and whether it tells that the run is over.
struct Line {
    bytes: Vec<u8>,
    tells_end: bool,
}

type Lines = FramedRead<OwnedReadHalf, LinesCodec>;

async fn converse(stream: UnixStream, desk: &Arc<Desk>, closing: CancellationToken) {
    let (read, write) = stream.into_split();
    let (answers, queue) = mpsc::channel(IN_FLIGHT);
    let writer = write_answers(write, queue, Arc::clone(desk));
    let talk = async {
        let mut lines = FramedRead::new(read, LinesCodec::new_with_max_length(HELLO_BYTES));
        let hello = timeout(PATIENCE, next_request(&mut lines)).await;
        let introduced = match hello {
            Ok(Some(Ok(line))) => introduce(desk, line).await,
            Ok(Some(Err(error))) => Err((None, error)),
            Ok(None) | Err(_) => return,
        };
        let fence = match introduced {
            Ok((id, fence, welcome)) => {
                send(&answers, Some(id), Ok(welcome)).await;
                fence
            }
            Err((id, error)) => return send(&answers, id, Err(error)).await,
        };
        let lines = lines.map_decoder(|_| LinesCodec::new_with_max_length(REQUEST_BYTES));
        let gone = CancellationToken::new();
        let _ends_polls = gone.clone().drop_guard();
        let conversation = Conversation {
            desk,
            fence,
            answers,
            gone,
        };
        tokio::select! {
            biased;
            () = conversation.fenced() => conversation.end(Refusal::Fenced.says(
                "A newer engine is in charge of this run",
            )).await,
            () = conversation.answer_all(lines) => {}
            () = closing.cancelled() => {}
        }
    };
    tokio::join!(talk, writer);
}

/// Checks hello and takes the fence. The nonce is compared whatever the run, so that neither tells.
async fn introduce(
    desk: &Desk,
    line: RequestLine,
) -> Result<(u64, Fence, Response), (Option<u64>, RpcError)> {
    let refuse = |refusal: Refusal, words: &str| Err((Some(line.id), refusal.says(words)));
    let Request::Hello {
        run,
        nonce,
        epoch,
        run_epoch,
    } = &line.request
    else {
        return refuse(Refusal::NotIntroduced, "The first request must be hello");
    };
    let nonce_fits = equal_in_constant_time(nonce.as_bytes(), desk.nonce.as_bytes());
    if *run != desk.identity.run || !nonce_fits {
        return refuse(Refusal::NotIntroduced, "This shim carries another run");
    }
    let fence = Fence {
        engine: *epoch,
        run: *run_epoch,
    };
    if !desk.fence.admit(fence).await {
        return refuse(Refusal::Fenced, "A newer engine is in charge of this run");
    }
    let welcome = Response::Welcome {
        identity: desk.identity.clone(),
        last_seq: desk.feed.last_durable(),
        revision: desk.arbiter.revision(),
        measures: true,
        publishes: true,
        hears: true,
    };
    Ok((line.id, fence, welcome))
}

/// The next request; `None` when the connection is over.
async fn next_request(lines: &mut Lines) -> Option<Result<RequestLine, RpcError>> {
    match lines.next().await? {
        Ok(line) => Some(serde_json::from_str(&line).map_err(|error| {
            Refusal::Malformed.says(format!("That is not a request of this protocol: {error}"))
        })),
        Err(error) => Some(Err(Refusal::Malformed.says(error.to_string()))),
    }
}

struct Conversation<'a> {
    desk: &'a Arc<Desk>,
    fence: Fence,
    answers: mpsc::Sender<Line>,
    /// Fires when the connection is over, for what waits on its behalf.
    gone: CancellationToken,
}

impl Conversation<'_> {
    /// Waits until somebody with a higher fence has introduced himself.
    async fn fenced(&self) {
        self.desk.fence.above(self.fence).await;
    }

    async fn end(&self, error: RpcError) {
        send(&self.answers, None, Err(error)).await;
    }

    async fn answer_all(&self, mut lines: Lines) {
        let permits = Arc::new(Semaphore::new(IN_FLIGHT));
        while let Some(request) = next_request(&mut lines).await {
            let RequestLine { id, request, .. } = match request {
                Ok(line) => line,
                // After a line that could not be read nothing more is sure about this stream.
                Err(error) => return self.end(error).await,
            };
            // `fenced` ends this soon; a request that overtook it must not have an effect.
            if self.desk.fence.highest() > self.fence {
                return;
            }
            match request {
                Request::Hello { .. } => {
                    let error = Refusal::Malformed.says("This connection is introduced already");
                    send(&self.answers, Some(id), Err(error)).await;
                }
                Request::Stop { grace_ms } => {
                    let grace = Duration::from_millis(u64::from(grace_ms));
                    self.desk.stop.ask(CancelCause::Operator, grace);
                    send(&self.answers, Some(id), Ok(Response::Done)).await;
                }
                Request::Input { bytes } => {
                    let done = match STANDARD.decode(bytes) {
                        Ok(bytes) => self.desk.terminal.order(TerminalOrder::Input(bytes)).await,
                        Err(_) => Err(Refusal::Malformed.says("The bytes are not in base64")),
                    };
                    send(&self.answers, Some(id), done.map(|()| Response::Done)).await;
                }
                Request::Resize { columns, rows } => {
                    let order = TerminalOrder::Resize { columns, rows };
                    let done = self.desk.terminal.order(order).await;
                    send(&self.answers, Some(id), done.map(|()| Response::Done)).await;
                }
                Request::ShellInput { shell, at, bytes } => {
                    let done = match STANDARD.decode(bytes) {
                        Ok(bytes) => self.desk.shells.type_in(&shell, at, bytes).await,
                        Err(_) => Err(Refusal::Malformed.says("The bytes are not in base64")),
                    };
                    send(&self.answers, Some(id), done.map(|()| Response::Done)).await;
                }
                Request::ShellResize {
                    shell,
                    columns,
                    rows,
                } => {
                    let done = self.desk.shells.resize(&shell, columns, rows).await;
                    send(&self.answers, Some(id), done.map(|()| Response::Done)).await;
                }
                Request::ShellEnd { shell } => {
                    let done = self.desk.shells.end(&shell);
                    send(&self.answers, Some(id), done.map(|()| Response::Done)).await;
                }
                request @ (Request::Events { .. }
                | Request::Measure
                | Request::Say { .. }
                | Request::Apply { .. }
                | Request::PublishPort { .. }
                | Request::PublishedPorts
                | Request::ClosePort { .. }
                | Request::Shell { .. }
                | Request::ShellRead { .. }) => {
                    let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                        let error = Refusal::Busy.says("Too many requests wait already");
                        send(&self.answers, Some(id), Err(error)).await;
                        continue;
                    };
                    let (desk, answers) = (Arc::clone(self.desk), self.answers.clone());
                    let gone = self.gone.clone();
                    // A decision is carried out although the engine that made it may be gone.
                    tokio::spawn(async move {
                        let _permit = permit;
                        answer_later(&desk, id, request, &answers, &gone).await;
                    });
                }
            }
        }
    }
}

async fn answer_later(
    desk: &Desk,
    id: u64,
    request: Request,
    answers: &mpsc::Sender<Line>,
    gone: &CancellationToken,
) {
    match request {
        Request::Events {
            after,
            limit,
            wait_ms,
        } => {
            let wait = Duration::from_millis(u64::from(wait_ms)).min(POLL);
            let page = tokio::select! {
                page = poll(desk, id, after, limit.clamp(1, PAGE), wait) => page,
                () = gone.cancelled() => return,
            };
            let _ = answers.send(page).await;
        }
        Request::Apply {
            policy,
            amendment,
            block,
        } => {
            let applied = desk.arbiter.apply(*policy, *amendment, block).await;
            let answer = applied.map(|applied| Response::Applied {
                released: applied.released,
                refused: applied.refused,
                cut: applied.cut,
            });
            send(answers, Some(id), answer).await;
        }
        Request::Shell {
            shell,
            by,
            argv,
            env,
            terminal,
        } => {
            let asked = Asked {
                shell,
                by,
                argv,
                env,
                terminal,
            };
            let opened = desk.shells.open(asked).await;
            send(answers, Some(id), opened.map(|()| Response::Done)).await;
        }
        Request::ShellRead {
            shell,
            after,
            wait_ms,
        } => {
            let wait = Duration::from_millis(u64::from(wait_ms)).min(POLL);
            let read = tokio::select! {
                read = desk.shells.read(&shell, after, wait) => read,
                () = gone.cancelled() => return,
            };
            send(answers, Some(id), read).await;
        }
        Request::PublishPort {
            port,
            to,
            exact,
            by,
        } => {
            let asked = ports::Asked {
                port,
                to,
                exact,
                by,
            };
            let published = desk.ports.publish(asked).await;
            let answer = published.map(|port| Response::Ports { ports: vec![port] });
            send(answers, Some(id), answer).await;
        }
        Request::PublishedPorts => {
            let listed = desk.ports.list().await;
            send(
                answers,
                Some(id),
                listed.map(|ports| Response::Ports { ports }),
            )
            .await;
        }
        Request::ClosePort { port } => {
            let closed = desk.ports.close(port).await;
            let answer = closed.map(|port| Response::Ports { ports: vec![port] });
            send(answers, Some(id), answer).await;
        }
        Request::Say { message, by, text } => {
            let said = desk.messages.say(message, by, text).await;
            send(answers, Some(id), said.map(|()| Response::Done)).await;
        }
        Request::Measure => {
            let usage = tokio::select! {
                usage = desk.gauge.measure() => usage,
                () = gone.cancelled() => return,
            };
            send(answers, Some(id), Ok(Response::Measured { usage })).await;
        }
        Request::Hello { .. }
        | Request::Stop { .. }
        | Request::Input { .. }
        | Request::Resize { .. }
        | Request::ShellInput { .. }
        | Request::ShellResize { .. }
        | Request::ShellEnd { .. } => {}
    }
}

/// A page of events, as soon as there is one.
async fn poll(desk: &Desk, id: u64, after: EventSeq, limit: u32, wait: Duration) -> Line {
    let deadline = Instant::now() + wait;
    let mut news = desk.feed.news();
    let mut ended = desk.ended.subscribe();
    loop {
        // Read before the page: what is told after that ends no page.
        let is_over = *ended.borrow_and_update();
        news.borrow_and_update();
        let feed = desk.feed.clone();
        let read =
            tokio::task::spawn_blocking(move || feed.lines_after(after, limit as usize)).await;
        let lines = match read {
            Ok(Ok(lines)) => lines,
            Ok(Err(error)) => return refuse_page(id, &error.to_string()),
            Err(error) => return refuse_page(id, &error.to_string()),
        };
        let last = lines.last().map_or(after, |(seq, _)| *seq);
        let tells_end = is_over && last >= desk.feed.last_durable();
        if !lines.is_empty() || tells_end || Instant::now() >= deadline {
            return Line {
                bytes: encode_page(id, &lines, tells_end),
                tells_end,
            };
        }
        let woken = async {
            tokio::select! {
                _ = news.changed() => {}
                _ = ended.changed() => {}
            }
        };
        // At the deadline the page is read once more and then sent as it is.
        let _ = timeout_at(deadline, woken).await;
    }
}

fn refuse_page(id: u64, message: &str) -> Line {
    Line {
        bytes: encode(Some(id), Err(Refusal::Disk.says(message))),
        tells_end: false,
    }
}

/// The answer with lines of the journal as they are, without parsing and writing each again.
fn encode_page(id: u64, lines: &[(EventSeq, Vec<u8>)], ended: bool) -> Vec<u8> {
    let size: usize = lines.iter().map(|(_, line)| line.len() + 1).sum();
    let mut bytes = Vec::with_capacity(size + 128);
    let head = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"answer\":\"events\",\"events\":["
    );
    bytes.extend_from_slice(head.as_bytes());
    for (index, (_, line)) in lines.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(line);
    }
    bytes.extend_from_slice(format!("],\"ended\":{ended}}}}}\n").as_bytes());
    bytes
}

fn encode(id: Option<u64>, answer: Result<Response, RpcError>) -> Vec<u8> {
    let (result, error) = match answer {
        Ok(response) => (Some(response), None),
        Err(error) => (None, Some(error)),
    };
    let line = ResponseLine {
        jsonrpc: Version::V2,
        id,
        result,
        error,
    };
    let mut bytes = serde_json::to_vec(&line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

async fn send(answers: &mpsc::Sender<Line>, id: Option<u64>, answer: Result<Response, RpcError>) {
    // A closed channel is a client that went away.
    let _ = answers
        .send(Line {
            bytes: encode(id, answer),
            tells_end: false,
        })
        .await;
}

async fn write_answers(
    mut write: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Line>,
    desk: Arc<Desk>,
) {
    while let Some(Line { bytes, tells_end }) = queue.recv().await {
        match timeout(PATIENCE, write.write_all(&bytes)).await {
            Ok(Ok(())) if tells_end => {
                desk.end_was_read.send_replace(true);
            }
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
    let _ = write.shutdown().await;
}

#[cfg(test)]
#[path = "server/tests.rs"]
mod tests;
