//! The internet of the demo: a resolver that knows one name, and a web server with one file.
//!
//! Runs on the far side of the demo's world, on addresses of the documentation ranges. Says `ready`
//! on stdout when it listens.

use super::{ADDRESS, NAME, RESOLVER};
use crate::command::Done;
use crate::error::environment;
use foreman_domain::{ExitCode, Failure};
use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record, RecordType};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

/// What the package index says.
const NEWEST: &str = "parser 4.2.0";

/// Longest request, and longest time for one.
const LONGEST: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves until the world ends.
pub async fn serve() -> Done {
    let listen = |what: &'static str| move |error: io::Error| environment(what, &error);
    let datagrams = UdpSocket::bind((RESOLVER, 53))
        .await
        .map_err(listen("the demo's resolver cannot listen"))?;
    let streams = TcpListener::bind((RESOLVER, 53))
        .await
        .map_err(listen("the demo's resolver cannot listen"))?;
    let web = TcpListener::bind((ADDRESS, 80))
        .await
        .map_err(listen("the demo's web cannot listen"))?;
    {
        let mut out = io::stdout().lock();
        writeln!(out, "ready")?;
        out.flush()?;
    }
    tokio::select! {
        end = names_by_datagram(datagrams) => end?,
        end = each(streams, name_by_stream) => end?,
        end = each(web, page) => end?,
    }
    Ok(ExitCode::Ok)
}

/// Serves one connection after the other; the demo makes one.
async fn each<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F) -> Result<(), Failure>
where
    F: Future<Output = io::Result<()>>,
{
    loop {
        let (stream, _) = listener
            .accept()
            .await
            .map_err(|error| environment("the demo's server cannot accept", &error))?;
        // A client that is slow or rude costs itself, not the next one.
        let _ = timeout(PATIENCE, serve(stream)).await;
    }
}

async fn names_by_datagram(socket: UdpSocket) -> Result<(), Failure> {
    let mut buffer = [0; LONGEST];
    loop {
        let (length, from) = socket
            .recv_from(&mut buffer)
            .await
            .map_err(|error| environment("the demo's resolver cannot receive", &error))?;
        if let Some(answer) = buffer.get(..length).and_then(answer) {
            let _ = socket.send_to(&answer, from).await;
        }
    }
}

async fn name_by_stream(mut stream: TcpStream) -> io::Result<()> {
    let length = usize::from(stream.read_u16().await?).min(LONGEST);
    let mut question = vec![0; length];
    stream.read_exact(&mut question).await?;
    if let Some(answer) = answer(&question) {
        stream
            .write_u16(u16::try_from(answer.len()).unwrap_or(0))
            .await?;
        stream.write_all(&answer).await?;
    }
    Ok(())
}

/// The answer to one question in wire form; `None` for what is no question.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    let question = Message::from_vec(question).ok()?;
    if question.metadata.message_type != MessageType::Query {
        return None;
    }
    let query = question.queries.first()?.clone();
    let asked = query.name().to_ascii().to_ascii_lowercase();
    let is_ours = asked.trim_end_matches('.') == NAME;
    let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
    answer.metadata.authoritative = true;
    answer.metadata.recursion_desired = question.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    if !is_ours {
        answer.metadata.response_code = ResponseCode::NXDomain;
    } else if query.query_type() == RecordType::A {
        let address: Ipv4Addr = ADDRESS.parse().ok()?;
        let record = Record::from_rdata(query.name().clone(), 60, RData::A(A(address)));
        answer.add_answer(record);
    }
    answer.add_query(query);
    answer.to_vec().ok()
}

async fn page(mut stream: TcpStream) -> io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 512];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") && request.len() < LONGEST {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            read => request.extend_from_slice(buffer.get(..read).unwrap_or_default()),
        }
    }
    let body = format!("{NEWEST}\n");
    let head = format!(
        "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::op::{OpCode, Query};
    use hickory_proto::rr::Name;

    fn asked(name: &str, kind: RecordType) -> Message {
        let mut question = Message::new(7, MessageType::Query, OpCode::Query);
        question.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        Message::from_vec(&answer(&question.to_vec().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn the_resolver_knows_the_demos_name_and_no_other() {
        let known = asked("Packages.demo.example.", RecordType::A);
        assert_eq!(known.metadata.id, 7);
        assert_eq!(known.answers.len(), 1);
        assert_eq!(known.answers[0].data.to_string(), ADDRESS);
        assert!(
            asked("packages.demo.example.", RecordType::AAAA)
                .answers
                .is_empty()
        );
        let unknown = asked("other.example.", RecordType::A);
        assert_eq!(unknown.metadata.response_code, ResponseCode::NXDomain);
    }

    #[test]
    fn what_is_no_question_gets_no_answer() {
        assert!(answer(b"").is_none());
        assert!(answer(b"nonsense").is_none());
    }
}
