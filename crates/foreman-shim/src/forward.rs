//! Adds a key of the operator's to what a run asks of one host, outside of its cage.
//!
//! Inside there is a name, [`NAME`], which takes plain HTTP/1.1. Each connection to it is a connection to the
//! key's host, judged as such by the gateway, which hands over both ends. What is read here is written anew on
//! the other side, over TLS, with the key in its header. So the key is in this process and at its host, and
//! nowhere else; whoever is in the cage can use it, and can use it there only.
//!
//! Everything that comes from inside is hostile. What could be read in two ways is refused (`head`). What the
//! other side answers is passed on as it comes, redirections too, which nobody here follows; should it say the
//! key, that is taken out (`body`). Bytes are passed on as they come in both directions; only a head is kept,
//! up to `LONGEST_HEAD`.
//!
//! What it is not: a proxy. It knows one host, and looks at no path and no content.

mod body;
mod head;
#[cfg(test)]
mod tests;

use crate::protocol::Key;
use crate::redact::Redactor;
use body::{Answer, Asked};
use foreman_cage::gateway::{Carried, Carrier, Outer};
use head::{Refusal, Sender};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// The name that stands for the key's host in a cage.
pub const NAME: &str = "key";
/// Its only port.
pub const PORT: u16 = 80;
/// Longest head of a message, in bytes, and most fields in it.
const LONGEST_HEAD: usize = 64 << 10;
const FIELDS: usize = 128;
/// Longest wait for the other side to agree on TLS.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long somebody who was refused may take to read why, before the connection is closed all the same.
const LINGER: Duration = Duration::from_secs(2);

/// Adds one key for one host.
pub(crate) struct Forwarder {
    host: ServerName<'static>,
    sender: Sender,
    tls: Result<TlsConnector, String>,
    redactor: Redactor,
}

/// Never with the key in it.
impl std::fmt::Debug for Forwarder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Forwarder").field(&self.host).finish()
    }
}

impl Forwarder {
    /// For a key, with its value. Trusts the authorities of this system, or those that the operator's own
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
    ///
    /// # Errors
    /// When the key is none that can be sent.
    pub(crate) fn new(key: &Key, value: &str) -> io::Result<Self> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(found.certs);
        let tls = match (usable, found.errors.first()) {
            (0, None) => Err("this system has no certificate authorities to trust".to_owned()),
            (0, Some(error)) => Err(format!(
                "the certificate authorities of this system cannot be read: {error}"
            )),
            _ => connector(roots),
        };
        Self::trusting(key, value, tls)
    }

    fn trusting(key: &Key, value: &str, tls: Result<TlsConnector, String>) -> io::Result<Self> {
        // Without the value in the error.
        let unfit = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let host = ServerName::try_from(key.host.clone());
        Ok(Self {
            host: host.map_err(|_| unfit("the key's host is no host name"))?,
            sender: Sender::new(key, value)
                .ok_or_else(|| unfit("the key cannot be sent in a field of HTTP"))?,
            tls,
            redactor: Redactor::of([(key.secret.as_str(), value)]),
        })
    }

    async fn exchange(&self, inside: TcpStream, outside: Outer) -> Result<(), String> {
        let connected = self.connect(outside).await;
        let (other, mut connection) = match connected {
            Ok((sender, connection)) => (Ok(Mutex::new(sender)), Some(Box::pin(connection))),
            Err(why) => (Err(why), None),
        };
        let (sender, refused) = (&other, &CancellationToken::new());
        let answering = service_fn(move |request| self.reply(request, sender, refused));
        let serving = hyper::server::conn::http1::Builder::new()
            .max_buf_size(LONGEST_HEAD)
            .max_header_size(LONGEST_HEAD)
            .max_headers(FIELDS)
            .auto_date_header(false)
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(inside), answering);
        let mut serving = pin!(serving);
        loop {
            let other_side = async {
                match &mut connection {
                    // How it ended is told to whoever waits for an answer.
                    Some(connection) => drop(connection.await),
                    None => std::future::pending().await,
                }
            };
            let lingered = async {
                refused.cancelled().await;
                tokio::time::sleep(LINGER).await;
            };
            tokio::select! {
                _ = &mut serving => break,
                () = lingered => break,
                () = other_side => {
                    connection = None;
                    // What is on its way is still answered.
                    serving.as_mut().graceful_shutdown();
                }
            }
        }
        match &other {
            Ok(_) => Ok(()),
            Err(why) => Err(why.clone()),
        }
    }

    async fn reply(
        &self,
        request: Request<Incoming>,
        other: &Result<Mutex<SendRequest<Asked>>, String>,
        refused: &CancellationToken,
    ) -> Result<Response<Answer>, Infallible> {
        let answer = match other {
            Ok(sender) => self.answer(request, sender).await,
            Err(why) => Err(Refusal(StatusCode::BAD_GATEWAY, why.clone())),
        };
        Ok(answer.unwrap_or_else(|why| {
            refused.cancel();
            refusal(why)
        }))
    }

    async fn connect(
        &self,
        outside: Outer,
    ) -> Result<(SendRequest<Asked>, impl Future<Output = hyper::Result<()>>), String> {
        let place = self.host.to_str();
        let tls = self.tls.as_ref().map_err(Clone::clone)?;
        let agreeing = tls.connect(self.host.clone(), outside);
        let stream = match tokio::time::timeout(HANDSHAKE, agreeing).await {
            Ok(agreed) => agreed.map_err(|error| format!("{place} is not trusted: {error}"))?,
            Err(_) => return Err(format!("{place} did not agree on TLS in time")),
        };
        hyper::client::conn::http1::Builder::new()
            .max_buf_size(LONGEST_HEAD)
            .max_header_size(LONGEST_HEAD)
            .max_headers(FIELDS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| format!("{place} cannot be spoken to: {error}"))
    }

    /// One request and its answer.
    async fn answer(
        &self,
        request: Request<Incoming>,
        other: &Mutex<SendRequest<Asked>>,
    ) -> Result<Response<Answer>, Refusal> {
        let (head, body) = request.into_parts();
        let head = self.sender.outward(head)?;
        // Inside, one request follows the other; the lock is never waited for.
        let mut other = other.lock().await;
        let gone = |error: hyper::Error| {
            let what = self.redactor.text(&error.to_string()).into_owned();
            Refusal(
                StatusCode::BAD_GATEWAY,
                format!("{} did not answer: {what}", self.host.to_str()),
            )
        };
        other.ready().await.map_err(gone)?;
        let asked = Request::from_parts(head, Asked::new(body));
        let (head, body) = other.send_request(asked).await.map_err(gone)?.into_parts();
        let head = head::inward(head, &self.redactor)?;
        let body = Answer::of(body, self.redactor.stream());
        Ok(Response::from_parts(head, body))
    }
}

impl Carrier for Forwarder {
    fn carry(&self, inside: TcpStream, outside: Outer) -> Carried<'_> {
        Box::pin(self.exchange(inside, outside))
    }
}

fn connector(roots: RootCertStore) -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config
        .map_err(|error| format!("TLS cannot be used here: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// What is said of a request that was not passed on, in the form in which models' hosts say what is wrong.
fn refusal(Refusal(status, why): Refusal) -> Response<Answer> {
    tracing::info!(%status, why, "a request for the key's host was not passed on");
    let text = serde_json::json!({ "error": { "type": "foreman", "message": why } }).to_string();
    let mut response = Response::new(Answer::ours(text));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(
        hyper::header::CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("application/json"),
    );
    fields.insert(
        hyper::header::CONNECTION,
        hyper::header::HeaderValue::from_static("close"),
    );
    response
}
