use super::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Mutex as StdMutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

const VALUE: &str = "sk-correct-horse-battery";
const HOST: &str = "model.example";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn key() -> Key {
    Key {
        secret: "API_KEY".into(),
        header: "authorization".into(),
        prefix: "Bearer ".into(),
        host: HOST.into(),
        port: 443,
    }
}

/// An authority with a server's acceptor for the host, and a forwarder that trusts it.
fn trusted() -> (Forwarder, TlsAcceptor) {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let own_key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
    let own = own.signed_by(&own_key, &issuer).unwrap();
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], der)
        .unwrap();
    let forwarder = trusting(authority.der().clone());
    (forwarder, TlsAcceptor::from(Arc::new(config)))
}

fn trusting(authority: CertificateDer<'static>) -> Forwarder {
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    Forwarder::trusting(&key(), VALUE, connector(roots)).unwrap()
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (dialled.unwrap(), accepted.unwrap().0)
}

async fn deadline<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .unwrap()
}

/// Reads until there is this text, or nothing more comes.
async fn read_until(stream: &mut (impl AsyncRead + Unpin), mark: &str) -> String {
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).contains(mark) {
        if stream.read_buf(&mut got).await.unwrap_or(0) == 0 {
            break;
        }
    }
    String::from_utf8_lossy(&got).into_owned()
}

/// Sends bytes from inside to a host that answers each request it sees with one of `answers`; what came back, and
/// all that the host saw.
async fn exchange(sent: &str, answers: &[&str]) -> (String, String) {
    let (forwarder, acceptor) = trusted();
    let (mut client, inside) = pair().await;
    let (outside, server) = pair().await;
    let seen = Arc::new(StdMutex::new(String::new()));
    let (noting, answers) = (seen.clone(), answers.iter().map(|one| (*one).to_owned()));
    let answers: Vec<String> = answers.collect();
    let far = tokio::spawn(async move {
        let Ok(mut stream) = acceptor.accept(server).await else {
            return;
        };
        for answer in answers {
            let request = read_until(&mut stream, "\r\n\r\n").await;
            noting.lock().unwrap().push_str(&request);
            if request.is_empty() || stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
            let _ = stream.flush().await;
        }
        // What is sent beyond what was expected is to be seen, too.
        let rest = read_until(&mut stream, "(never)").await;
        noting.lock().unwrap().push_str(&rest);
    });
    let sent = sent.to_owned();
    let talking = async move {
        let _ = client.write_all(sent.as_bytes()).await;
        read_until(&mut client, "(never)").await
    };
    let carrying = forwarder.carry(inside, Outer::uncounted(outside));
    let (got, _) = deadline(async { tokio::join!(talking, carrying) }).await;
    deadline(far).await.unwrap();
    let seen = seen.lock().unwrap().clone();
    (got, seen)
}

#[tokio::test]
async fn the_key_stands_in_the_place_of_whatever_credentials_were_sent() {
    let request = "POST /v1/messages?beta=true HTTP/1.1\r\nHost: key\r\nAuthorization: Bearer placeholder\r\n\
         X-Api-Key: placeholder\r\nCookie: a=b\r\nProxy-Authorization: Basic x\r\nAccept-Encoding: gzip\r\n\
         Connection: close, x-mine\r\nX-Mine: 1\r\nX-Kept: 2\r\nContent-Length: 5\r\n\r\nhello";
    let (got, seen) = exchange(request, &[OK]).await;
    assert!(
        got.starts_with("HTTP/1.1 200 OK\r\n") && got.contains("ok"),
        "{got}"
    );
    assert!(
        seen.starts_with("POST /v1/messages?beta=true HTTP/1.1\r\n"),
        "{seen}"
    );
    for there in [
        "authorization: Bearer sk-correct-horse-battery\r\n",
        "host: model.example\r\n",
        "accept-encoding: identity\r\n",
        "x-kept: 2\r\n",
        "content-length: 5\r\n",
        "\r\n\r\nhello",
    ] {
        assert!(seen.contains(there), "{there:?} is not in {seen}");
    }
    let lower = seen.to_ascii_lowercase();
    for gone in [
        "placeholder",
        "x-api-key",
        "cookie",
        "proxy-auth",
        "x-mine",
        "gzip",
    ] {
        assert!(!lower.contains(gone), "{gone:?} is in {seen}");
    }
    assert_eq!(lower.matches("authorization:").count(), 1);
}

#[tokio::test]
async fn what_is_not_plainly_a_request_to_the_one_host_is_not_passed_on() {
    let long = format!(
        "GET / HTTP/1.1\r\nHost: key\r\nX-Long: {}\r\n\r\n",
        "x".repeat(70_000)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nHost: key\r\n{}\r\n",
        "X-A: 1\r\n".repeat(200)
    );
    for request in [
        "GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n",
        "GET http://key/ HTTP/1.1\r\nHost: key\r\n\r\n",
        "GET https://model.example/ HTTP/1.1\r\nHost: key\r\n\r\n",
        "CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n",
        "CONNECT key:80 HTTP/1.1\r\nHost: key\r\n\r\n",
        "TRACE / HTTP/1.1\r\nHost: key\r\n\r\n",
        "DEBUG / HTTP/1.1\r\nHost: key\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: key\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: other.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: model.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: key:443\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: key@other.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: key\r\nHost: other.example\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: key\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: key\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: key\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : key\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: key\r\n folded: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: key\r\nX: a\0b\r\n\r\n",
        "GET /\u{1} HTTP/1.1\r\nHost: key\r\n\r\n",
        "GET //a b HTTP/1.1\r\nHost: key\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: key\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: key\r\nContent-Length: 5, 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: key\r\nContent-Length: +5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: key\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: key\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: key\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &long,
        &many,
    ] {
        let (got, seen) = exchange(request, &[OK]).await;
        let shown: String = request.chars().take(100).collect();
        assert_eq!(seen, "", "{shown:?} was passed on");
        assert!(!got.contains(VALUE), "{shown:?}: {got}");
        let status = got.get(9..10);
        assert!(
            got.is_empty() || matches!(status, Some("4" | "5")),
            "{shown:?}: {got}"
        );
    }
}

#[tokio::test]
async fn what_could_be_read_as_two_requests_arrives_as_one() {
    let hidden = "GET /hidden HTTP/1.1\r\nHost: key\r\n\r\n";
    let within = format!(
        "POST / HTTP/1.1\r\nHost: key\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{hidden}",
        hidden.len()
    );
    // A length that a chunked body has as well: whichever counts, the host gets one of them only.
    let both = format!(
        "POST / HTTP/1.1\r\nHost: key\r\nConnection: close\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\n{hidden}"
    );
    for request in [within, both] {
        let (_, seen) = exchange(&request, &[OK]).await;
        let lower = seen.to_ascii_lowercase();
        let framed =
            lower.matches("content-length:").count() + lower.matches("transfer-encoding:").count();
        assert!(framed <= 1, "{seen}");
        assert!(lower.matches("authorization:").count() <= 1, "{seen}");
        assert!(
            !seen.contains("hidden") || seen.contains(&format!("content-length: {}", hidden.len())),
            "{seen}"
        );
    }
}

#[tokio::test]
async fn requests_follow_each_other_and_a_redirection_is_the_callers_own_affair() {
    let away = "HTTP/1.1 307 Temporary Redirect\r\nlocation: https://other.example/\r\nalt-svc: h3=\":443\"\r\n\
         strict-transport-security: max-age=1\r\ncontent-length: 0\r\n\r\n";
    let requests = "GET /a HTTP/1.1\r\nHost: KEY:80\r\n\r\nGET /b HTTP/1.1\r\nHost: key\r\nConnection: close\r\n\r\n";
    let (got, seen) = exchange(requests, &[away, OK]).await;
    assert!(got.starts_with("HTTP/1.1 307"), "{got}");
    assert!(
        got.contains("location: https://other.example/\r\n"),
        "{got}"
    );
    assert!(
        !got.contains("alt-svc") && !got.contains("strict-transport"),
        "{got}"
    );
    assert!(got.contains("HTTP/1.1 200 OK"), "{got}");
    assert_eq!(seen.matches("host: model.example\r\n").count(), 2, "{seen}");
    assert_eq!(seen.matches(VALUE).count(), 2, "{seen}");
}

#[tokio::test]
async fn a_host_that_says_the_key_is_not_heard() {
    let request = "GET / HTTP/1.1\r\nHost: key\r\nConnection: close\r\n\r\n";
    let body = format!("you sent {VALUE}, in base64 c2stY29ycmVjdC1ob3JzZS1iYXR0ZXJ5.");
    let said = format!(
        "HTTP/1.1 401 {VALUE}\r\nx-echo: Bearer {VALUE}\r\nx-other: 1\r\nset-cookie: k={VALUE}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (got, seen) = exchange(request, &[&said]).await;
    assert!(seen.contains(VALUE));
    assert!(
        got.starts_with("HTTP/1.1 401 ") && got.contains("x-other: 1"),
        "{got}"
    );
    assert!(
        got.contains("you sent ‹secret API_KEY›, in base64"),
        "{got}"
    );
    assert!(
        !got.contains(VALUE) && !got.contains("c2stY29ycmVjd"),
        "{got}"
    );
    let cut = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-t\r\n\r\n4\r\nsk-c\r\n14\r\n{}\r\n0\r\nx-t: {VALUE}\r\n\r\n",
        &VALUE[4..]
    );
    let (got, _) = exchange(request, &[&cut]).await;
    assert!(
        got.contains("‹secret API_KEY›") && !got.contains("orrect-horse"),
        "{got}"
    );
}

#[tokio::test]
async fn an_answer_that_cannot_be_looked_through_is_refused() {
    let request = "GET / HTTP/1.1\r\nHost: key\r\nConnection: close\r\n\r\n";
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        "garbage\r\n\r\n",
    ] {
        let (got, _) = exchange(request, &[answer]).await;
        assert!(got.starts_with("HTTP/1.1 502"), "{answer:?}: {got}");
        assert!(got.contains("\"error\""), "{got}");
    }
}

#[tokio::test]
async fn bytes_go_on_as_they_come_in_both_directions() {
    let (forwarder, acceptor) = trusted();
    let (mut client, inside) = pair().await;
    let (outside, server) = pair().await;
    let (first_was_read, read) = oneshot::channel::<()>();
    let far = tokio::spawn(async move {
        let mut stream = acceptor.accept(server).await.unwrap();
        let head = read_until(&mut stream, "one").await;
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        let begin = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
             e\r\ndata: {\"a\":1}\n\r\n";
        stream.write_all(begin.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        // The second event comes only when the first has arrived, and the request still goes on.
        read.await.unwrap();
        read_until(&mut stream, "two").await;
        stream
            .write_all(b"e\r\ndata: {\"a\":2}\n\r\n0\r\n\r\n")
            .await
            .unwrap();
        stream.flush().await.unwrap();
        read_until(&mut stream, "(never)").await;
    });
    let talking = async move {
        let head = "POST / HTTP/1.1\r\nHost: key\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\none\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        let first = read_until(&mut client, "{\"a\":1}\n").await;
        assert!(first.contains("{\"a\":1}"), "{first}");
        first_was_read.send(()).unwrap();
        client.write_all(b"3\r\ntwo\r\n0\r\n\r\n").await.unwrap();
        let second = read_until(&mut client, "(never)").await;
        assert!(second.contains("{\"a\":2}"), "{second}");
    };
    let carrying = forwarder.carry(inside, Outer::uncounted(outside));
    let ((), carried) = deadline(async { tokio::join!(talking, carrying) }).await;
    assert_eq!(carried, Ok(()));
    deadline(far).await.unwrap();
}

#[tokio::test]
async fn a_host_that_is_not_trusted_gets_nothing_and_the_caller_is_told() {
    let (_, acceptor) = trusted();
    let (forwarder, _) = trusted();
    let (mut client, inside) = pair().await;
    let (outside, server) = pair().await;
    let far = tokio::spawn(async move { acceptor.accept(server).await.is_ok() });
    let talking = async move {
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: key\r\n\r\n")
            .await
            .unwrap();
        read_until(&mut client, "(never)").await
    };
    let carrying = forwarder.carry(inside, Outer::uncounted(outside));
    let (got, carried) = deadline(async { tokio::join!(talking, carrying) }).await;
    assert!(
        got.starts_with("HTTP/1.1 502") && got.contains("is not trusted"),
        "{got}"
    );
    assert!(
        carried
            .unwrap_err()
            .contains("model.example is not trusted")
    );
    assert!(!deadline(far).await.unwrap());
}

#[test]
fn a_key_that_no_field_can_hold_is_refused_without_being_said() {
    for bad in ["with\nline", "with\0nul"] {
        let error = Forwarder::trusting(&key(), bad, Err("no".into())).unwrap_err();
        assert!(!error.to_string().contains("with"), "{error}");
    }
    let fine = Forwarder::trusting(&key(), VALUE, Err("no".into())).unwrap();
    assert!(!format!("{fine:?}").contains(VALUE));
}
