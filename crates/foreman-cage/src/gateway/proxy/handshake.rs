//! Asks a proxy for a connection to a destination.

use super::{Endpoint, Speaks};
use crate::gateway::reach::words;
use foreman_domain::{Host, sanitize_line};
use std::io;
use std::net::IpAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Why a proxy gave no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// True when it said that the other side refused the connection.
    pub refused: bool,
    /// What it said, as a sentence.
    pub why: String,
}

/// Asks over a fresh connection to the proxy. On success the stream is the destination's; bytes
/// that came with the proxy's answer belong to it and are given back.
///
/// # Errors
/// When the proxy refuses, or answers something else.
pub(crate) async fn open(
    stream: &mut TcpStream,
    proxy: &Endpoint,
    host: &Host,
    port: u16,
) -> Result<Vec<u8>, Refusal> {
    match proxy.speaks {
        Speaks::Http => connect_http(stream, proxy, host, port).await,
        Speaks::Socks5 => connect_socks(stream, proxy, host, port)
            .await
            .map(|()| Vec::new()),
    }
}

fn failed(proxy: &Endpoint, what: &str) -> Refusal {
    Refusal {
        refused: false,
        why: format!("the operator's proxy {proxy} {what}"),
    }
}

fn broken(proxy: &Endpoint) -> impl FnOnce(io::Error) -> Refusal + '_ {
    move |error| failed(proxy, &format!("broke off: {}", words(&error)))
}

async fn connect_http(
    stream: &mut TcpStream,
    proxy: &Endpoint,
    host: &Host,
    port: u16,
) -> Result<Vec<u8>, Refusal> {
    let target = match host {
        Host::Address(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        host => format!("{host}:{port}"),
    };
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some((user, password)) = &proxy.credentials {
        let pair = base64(format!("{user}:{password}").as_bytes());
        request.push_str(&format!("Proxy-Authorization: Basic {pair}\r\n"));
    }
    request.push_str("\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .map_err(broken(proxy))?;
    let (head, early) = read_head(stream, proxy).await?;
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    match status(line) {
        Some(200..=299) => Ok(early),
        Some(407) => Err(failed(proxy, "wants other credentials (407)")),
        Some(_) => {
            let said: String = String::from_utf8_lossy(line).chars().take(100).collect();
            Err(failed(
                proxy,
                &format!("answered \"{}\" for {target}", sanitize_line(&said)),
            ))
        }
        None => Err(failed(proxy, "did not answer in HTTP")),
    }
}

/// Reads up to the empty line; what came behind it is given apart.
async fn read_head(
    stream: &mut TcpStream,
    proxy: &Endpoint,
) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
    const LONGEST: usize = 16 << 10;
    const END: &[u8] = b"\r\n\r\n";
    let mut head = Vec::new();
    loop {
        if let Some(at) = head.windows(END.len()).position(|window| window == END) {
            let early = head.split_off(at + END.len());
            return Ok((head, early));
        }
        if head.len() >= LONGEST {
            return Err(failed(proxy, "answered with headers that are too long"));
        }
        if stream.read_buf(&mut head).await.map_err(broken(proxy))? == 0 {
            return Err(failed(proxy, "closed the connection instead of answering"));
        }
    }
}

/// The number in `HTTP/1.1 200 Connection established`.
fn status(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    let rest = line.strip_prefix("HTTP/1.")?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

async fn connect_socks(
    stream: &mut TcpStream,
    proxy: &Endpoint,
    host: &Host,
    port: u16,
) -> Result<(), Refusal> {
    const VERSION: u8 = 5;
    const NO_AUTHENTICATION: u8 = 0;
    const USER_AND_PASSWORD: u8 = 2;
    let methods: &[u8] = match &proxy.credentials {
        Some(_) => &[VERSION, 2, NO_AUTHENTICATION, USER_AND_PASSWORD],
        None => &[VERSION, 1, NO_AUTHENTICATION],
    };
    stream.write_all(methods).await.map_err(broken(proxy))?;
    let mut answer = [0; 2];
    stream
        .read_exact(&mut answer)
        .await
        .map_err(broken(proxy))?;
    match (answer, &proxy.credentials) {
        ([VERSION, NO_AUTHENTICATION], _) => {}
        ([VERSION, USER_AND_PASSWORD], Some((user, password))) => {
            authenticate(stream, proxy, user, password).await?;
        }
        ([VERSION, _], _) => return Err(failed(proxy, "wants credentials of another kind")),
        _ => return Err(failed(proxy, "did not answer in SOCKS version 5")),
    }
    stream
        .write_all(&socks_request(host, port))
        .await
        .map_err(broken(proxy))?;
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).await.map_err(broken(proxy))?;
    let [version, code, _, kind] = reply;
    if version != VERSION {
        return Err(failed(proxy, "did not answer in SOCKS version 5"));
    }
    if code != 0 {
        let why = format!(
            "could not reach {host} on port {port}: {}",
            socks_words(code)
        );
        return Err(Refusal {
            refused: code == 5,
            ..failed(proxy, &why)
        });
    }
    let bound = match kind {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await.map_err(broken(proxy))?),
        _ => return Err(failed(proxy, "did not answer in SOCKS version 5")),
    };
    let mut rest = vec![0; bound + 2];
    stream.read_exact(&mut rest).await.map_err(broken(proxy))?;
    Ok(())
}

async fn authenticate(
    stream: &mut TcpStream,
    proxy: &Endpoint,
    user: &str,
    password: &str,
) -> Result<(), Refusal> {
    let length = |text: &str| u8::try_from(text.len()).unwrap_or(u8::MAX);
    let mut request = vec![1, length(user)];
    request.extend(user.bytes().take(255));
    request.push(length(password));
    request.extend(password.bytes().take(255));
    stream.write_all(&request).await.map_err(broken(proxy))?;
    let mut answer = [0; 2];
    stream
        .read_exact(&mut answer)
        .await
        .map_err(broken(proxy))?;
    match answer {
        [_, 0] => Ok(()),
        _ => Err(failed(proxy, "wants other credentials")),
    }
}

fn socks_request(host: &Host, port: u16) -> Vec<u8> {
    let mut request = vec![5, 1, 0];
    match host {
        Host::Name(name) => {
            // A canonical name is at most 253 bytes long.
            request.extend([3, u8::try_from(name.len()).unwrap_or(u8::MAX)]);
            request.extend(name.bytes().take(255));
        }
        Host::Address(IpAddr::V4(address)) => {
            request.push(1);
            request.extend(address.octets());
        }
        Host::Address(IpAddr::V6(address)) => {
            request.push(4);
            request.extend(address.octets());
        }
    }
    request.extend(port.to_be_bytes());
    request
}

fn socks_words(code: u8) -> &'static str {
    match code {
        2 => "its rules forbid it",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "it took too long",
        7 | 8 => "it does not support that",
        _ => "it failed",
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            if place <= group.len() {
                let index = (bits >> (18 - 6 * place)) & 0x3f;
                text.push(char::from(LETTERS[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_written_as_the_standard_says() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("user:pass", "dXNlcjpwYXNz"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn a_status_line_is_read() {
        assert_eq!(status(b"HTTP/1.1 200 Connection established"), Some(200));
        assert_eq!(status(b"HTTP/1.0 403 no"), Some(403));
        assert_eq!(status(b"SSH-2.0-x"), None);
        assert_eq!(status(b"HTTP/1.1 \xff"), None);
    }
}
