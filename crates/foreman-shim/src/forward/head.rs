//! Heads of messages on their way through: what of a request is passed on, and what of an answer.
//!
//! What goes out is put together from what was understood, so that there is one way to read it. Framing is
//! hyper's own on both sides: fields that say it are taken out and made anew.

use super::{NAME, PORT};
use crate::protocol::Key;
use crate::redact::Redactor;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::{Extensions, request, response};
use hyper::{Method, StatusCode, Uri, Version};

/// A message that is not passed on: what the caller gets, and why, as a sentence.
#[derive(Debug)]
pub(super) struct Refusal(pub StatusCode, pub String);

/// Fields that are about one connection, or about how a message is framed.
static OF_A_CONNECTION: [HeaderName; 11] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
    header::UPGRADE,
    header::EXPECT,
];
/// Fields in which somebody says who they are. Nobody inside is anybody there.
static CREDENTIALS: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::COOKIE,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-forwarded-authorization"),
];
/// Fields of an answer that would have the caller leave plain HTTP, which is all that there is inside.
static OF_THE_PLACE: [HeaderName; 2] = [
    HeaderName::from_static("alt-svc"),
    header::STRICT_TRANSPORT_SECURITY,
];

/// What stands in every request that goes out.
pub(super) struct Sender {
    host: HeaderValue,
    field: HeaderName,
    value: HeaderValue,
}

impl Sender {
    /// Of a key; none where it cannot be sent.
    pub fn new(key: &Key, value: &str) -> Option<Self> {
        let host = match key.port {
            443 => key.host.clone(),
            port => format!("{}:{port}", key.host),
        };
        let mut value = HeaderValue::from_str(&format!("{}{value}", key.prefix)).ok()?;
        // It is in no debug output of anybody's.
        value.set_sensitive(true);
        Some(Self {
            host: HeaderValue::from_str(&host).ok()?,
            field: HeaderName::from_bytes(key.header.as_bytes()).ok()?,
            value,
        })
    }

    /// The head of a request as it goes out.
    ///
    /// # Errors
    /// For what is not plainly a request to the name that stands for the host.
    pub fn outward(&self, head: request::Parts) -> Result<request::Parts, Refusal> {
        let request::Parts {
            method,
            uri,
            version,
            headers,
            ..
        } = head;
        plain_method(&method)?;
        if version != Version::HTTP_11 {
            return refuse(
                StatusCode::HTTP_VERSION_NOT_SUPPORTED,
                "only HTTP/1.1 is passed on",
            );
        }
        let target = origin_form(&uri)?;
        addressed_to_us(&headers)?;
        framed_once(&headers)?;
        if headers.contains_key(header::UPGRADE) {
            return refuse(
                StatusCode::NOT_IMPLEMENTED,
                "no other protocol is passed on than HTTP/1.1",
            );
        }
        let mut fields = without(headers, OF_A_CONNECTION.iter().chain(&CREDENTIALS));
        fields.remove(&self.field);
        // An answer that is compressed could say the key unseen.
        fields.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        fields.insert(header::HOST, self.host.clone());
        fields.insert(self.field.clone(), self.value.clone());
        let (mut out, ()) = hyper::Request::new(()).into_parts();
        out.method = method;
        out.uri = target;
        out.version = Version::HTTP_11;
        out.headers = fields;
        Ok(out)
    }
}

/// The head of an answer as it goes in: without what would say the key.
///
/// # Errors
/// For an answer that cannot be looked through, or is none.
pub(super) fn inward(
    head: response::Parts,
    redactor: &Redactor,
) -> Result<response::Parts, Refusal> {
    let response::Parts {
        status, headers, ..
    } = head;
    if status.is_informational() {
        return refuse(
            StatusCode::BAD_GATEWAY,
            "the host wants to change the protocol, which is not passed on",
        );
    }
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let is_plain = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or("?").trim().to_ascii_lowercase();
        matches!(text.as_str(), "" | "identity")
    };
    if !encodings.all(is_plain) {
        return refuse(
            StatusCode::BAD_GATEWAY,
            "the host compressed its answer although it was asked not to, so it cannot be looked through",
        );
    }
    let mut fields = HeaderMap::with_capacity(headers.len());
    let kept = without(headers, OF_A_CONNECTION.iter().chain(&OF_THE_PLACE));
    for (name, value) in &kept {
        let says_it = |bytes: &[u8]| !redactor.names_in(bytes).is_empty();
        if !says_it(value.as_bytes()) && !says_it(name.as_str().as_bytes()) {
            fields.append(name, value.clone());
        }
    }
    let (mut out, ()) = hyper::Response::new(()).into_parts();
    out.status = status;
    out.headers = fields;
    // The words behind the status are in there; they are the host's, too.
    out.extensions = Extensions::new();
    Ok(out)
}

fn refuse<T>(status: StatusCode, why: &str) -> Result<T, Refusal> {
    Err(Refusal(status, why.to_owned()))
}

fn plain_method(method: &Method) -> Result<(), Refusal> {
    let plain = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    match plain.contains(method) {
        true => Ok(()),
        // TRACE would say the key by design; CONNECT is for proxies.
        false => refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            "this method is not passed on",
        ),
    }
}

/// The path and query, where a request says nothing else.
fn origin_form(uri: &Uri) -> Result<Uri, Refusal> {
    let named = uri.scheme().is_some() || uri.authority().is_some();
    let path = uri.path_and_query().map(|path| path.as_str());
    match path {
        Some(path) if !named && path.starts_with('/') => path.parse().map_err(|_| {
            let why = "this is no path that can be passed on".to_owned();
            Refusal(StatusCode::BAD_REQUEST, why)
        }),
        _ => refuse(
            StatusCode::BAD_REQUEST,
            "only a path is asked for here: there is one host, and it cannot be named",
        ),
    }
}

fn addressed_to_us(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let is_us = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or_default().to_ascii_lowercase();
        text == NAME || text == format!("{NAME}:{PORT}")
    };
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_us(host) => Ok(()),
        _ => refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "a request here is for the host \"key\", which stands for the only host that there is",
        ),
    }
}

/// Whether there is one way to tell where the request ends.
fn framed_once(headers: &HeaderMap) -> Result<(), Refusal> {
    let lengths = headers.get_all(header::CONTENT_LENGTH).iter().count();
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let coding = codings.next();
    let is_plain = coding.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    let once = lengths <= 1 && codings.next().is_none() && (lengths == 0 || coding.is_none());
    match once && is_plain {
        true => Ok(()),
        false => refuse(
            StatusCode::BAD_REQUEST,
            "where this request ends can be read in two ways",
        ),
    }
}

/// The fields without these, and without those that the message calls its connection's own.
fn without<'a>(mut fields: HeaderMap, taken: impl Iterator<Item = &'a HeaderName>) -> HeaderMap {
    let named: Vec<HeaderName> = fields
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in &named {
        fields.remove(name);
    }
    for name in taken {
        fields.remove(name);
    }
    fields
}
