//! A small HTTP/1.1 server: files of the site, `/bytes/N`, `/echo`, `/redirect?URL`, and uploads. Whatever is asked
//! over TLS is written down, because nobody sees it on the way.

use anyhow::{Result, bail};
use std::path::{Component, Path};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Serves requests of one connection until it ends; gives the bytes that came in.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    site: &Path,
    asked: Option<&Path>,
) -> Result<u64> {
    let mut count = 0;
    let mut pending = Vec::new();
    loop {
        let Some(head) = read_head(stream, &mut pending).await? else {
            return Ok(count);
        };
        count += head.len() as u64;
        let text = String::from_utf8_lossy(&head).into_owned();
        if let Some(asked) = asked {
            note(asked, &text)?;
        }
        let mut body = vec![0_u8; content_length(&text)];
        let ready = pending.len().min(body.len());
        body[..ready].copy_from_slice(&pending[..ready]);
        pending.drain(..ready);
        stream.read_exact(&mut body[ready..]).await?;
        count += body.len() as u64;
        let path = text.split_whitespace().nth(1).unwrap_or("/").to_owned();
        if let Some(total) = path
            .strip_prefix("/bytes/")
            .and_then(|text| text.parse().ok())
        {
            send_bytes(stream, total).await?;
            continue;
        }
        let (status, extra, content) = answer(&path, &text, site);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Type: application/octet-stream\r\n{extra}\r\n",
            content.len()
        );
        stream.write_all(head.as_bytes()).await?;
        if !text.starts_with("HEAD ") {
            stream.write_all(&content).await?;
        }
        stream.flush().await?;
        if text.to_ascii_lowercase().contains("connection: close") || text.contains(" HTTP/1.0") {
            stream.shutdown().await?;
            return Ok(count);
        }
    }
}

/// Appends the head of a request to a file, as one line of JSON.
fn note(asked: &Path, head: &str) -> Result<()> {
    use std::io::Write;
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(asked)?;
    Ok(file.write_all(format!("{}\n", serde_json::json!(head)).as_bytes())?)
}

/// As many bytes as were asked for, a block at a time.
async fn send_bytes<S: AsyncWrite + Unpin>(stream: &mut S, total: usize) -> Result<()> {
    stream
        .write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n").as_bytes())
        .await?;
    let block = vec![0x5a_u8; 256 * 1024];
    let mut left = total;
    while left > 0 {
        let now = left.min(block.len());
        stream.write_all(&block[..now]).await?;
        left -= now;
    }
    Ok(stream.flush().await?)
}

async fn read_head<S: AsyncRead + Unpin>(
    stream: &mut S,
    pending: &mut Vec<u8>,
) -> Result<Option<Vec<u8>>> {
    loop {
        if let Some(end) = pending.windows(4).position(|four| four == b"\r\n\r\n") {
            return Ok(Some(pending.drain(..end + 4).collect()));
        }
        if pending.len() > 65_536 {
            bail!("a request head that does not end");
        }
        if stream.read_buf(pending).await? == 0 {
            return Ok(None);
        }
    }
}

fn content_length(head: &str) -> usize {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

fn answer(target: &str, head: &str, site: &Path) -> (&'static str, String, Vec<u8>) {
    let plain = String::new();
    let path = target.split('?').next().unwrap_or("/");
    if let Some(count) = path
        .strip_prefix("/bytes/")
        .and_then(|text| text.parse().ok())
    {
        return ("200 OK", plain, vec![0x5a; count]);
    }
    if path == "/echo" {
        return ("200 OK", plain, head.as_bytes().to_vec());
    }
    if path == "/redirect" {
        let to = target.split_once('?').map_or("/", |(_, to)| to);
        return ("302 Found", format!("Location: {to}\r\n"), Vec::new());
    }
    if path == "/" || path.starts_with("/asked/") {
        return ("200 OK", plain, b"hello from the far side\n".to_vec());
    }
    let relative = Path::new(path.trim_start_matches('/'));
    let inside = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    match std::fs::read(site.join(relative)) {
        Ok(content) if inside => ("200 OK", plain, content),
        _ => ("404 Not Found", plain, b"no such file\n".to_vec()),
    }
}
