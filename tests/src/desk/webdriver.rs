//! A small W3C WebDriver client over a Unix socket: the calls that the cases need, each of them blocking.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for one answer of the driver.
const LIMIT: Duration = Duration::from_secs(60);

/// One session: one window of the app.
#[derive(Debug)]
pub struct Session {
    socket: PathBuf,
    path: String,
}

impl Session {
    /// Lets the driver behind `socket` start a program that shows a web view.
    ///
    /// # Errors
    /// The driver did not answer, or the program showed none.
    pub fn start(socket: &Path, program: &Path, arguments: &[String]) -> Result<Self> {
        let options = json!({ "binary": program, "args": arguments });
        let wanted =
            json!({ "capabilities": { "alwaysMatch": { "webkitgtk:browserOptions": options } } });
        let made = call(socket, "POST", "/session", Some(&wanted))?;
        let id = made["sessionId"]
            .as_str()
            .context("a session without an id")?;
        Ok(Self {
            socket: socket.to_owned(),
            path: format!("/session/{id}"),
        })
    }

    /// True when a driver answers behind this socket.
    pub fn is_ready(socket: &Path) -> bool {
        call(socket, "GET", "/status", None).is_ok()
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        call(&self.socket, method, &format!("{}{path}", self.path), body)
    }

    /// The first element that a CSS selector finds, or an XPath when it begins with a slash.
    pub fn find(&self, selector: &str) -> Result<String> {
        let using = if selector.starts_with('/') {
            "xpath"
        } else {
            "css selector"
        };
        let found = self.ask(
            "POST",
            "/element",
            Some(&json!({ "using": using, "value": selector })),
        )?;
        let id = found.as_object().and_then(|one| one.values().next());
        Ok(id
            .and_then(Value::as_str)
            .context("an element without an id")?
            .to_owned())
    }

    /// Clicks in the middle of an element, as a pointer does.
    pub fn click(&self, element: &str) -> Result<()> {
        let done = self.ask(
            "POST",
            &format!("/element/{element}/click"),
            Some(&json!({})),
        );
        done.map(|_| ())
    }

    /// Types into an element.
    pub fn type_into(&self, element: &str, text: &str) -> Result<()> {
        let path = format!("/element/{element}/value");
        self.ask("POST", &path, Some(&json!({ "text": text })))
            .map(|_| ())
    }

    /// Empties a field.
    pub fn clear(&self, element: &str) -> Result<()> {
        let path = format!("/element/{element}/clear");
        self.ask("POST", &path, Some(&json!({}))).map(|_| ())
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub fn press(&self, keys: &[char]) -> Result<()> {
        let mut actions = Vec::new();
        for key in keys {
            actions.push(json!({ "type": "keyDown", "value": key.to_string() }));
            actions.push(json!({ "type": "keyUp", "value": key.to_string() }));
        }
        let keyboard =
            json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] });
        self.ask("POST", "/actions", Some(&keyboard)).map(|_| ())
    }

    /// Presses a key while another one is held down.
    pub fn press_with(&self, held: char, key: char) -> Result<()> {
        let [held, key] = [held, key].map(|one| one.to_string());
        let actions = json!([
            { "type": "keyDown", "value": held },
            { "type": "keyDown", "value": key },
            { "type": "keyUp", "value": key },
            { "type": "keyUp", "value": held },
        ]);
        let keyboard =
            json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] });
        self.ask("POST", "/actions", Some(&keyboard)).map(|_| ())
    }

    /// Text of an element, as shown.
    pub fn text(&self, element: &str) -> Result<String> {
        let text = self.ask("GET", &format!("/element/{element}/text"), None)?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Runs a function body in the page and gives what it returns.
    pub fn script(&self, body: &str, arguments: &[Value]) -> Result<Value> {
        let script = json!({ "script": body, "args": arguments });
        self.ask("POST", "/execute/sync", Some(&script))
    }

    /// As [`Session::script`], with a callback as the last argument that ends it.
    pub fn script_later(&self, body: &str, arguments: &[Value]) -> Result<Value> {
        let script = json!({ "script": body, "args": arguments });
        self.ask("POST", "/execute/async", Some(&script))
    }

    /// How long a script with a callback may take.
    pub fn allow_scripts(&self, limit: Duration) -> Result<()> {
        let limit = u64::try_from(limit.as_millis())?;
        self.ask("POST", "/timeouts", Some(&json!({ "script": limit })))
            .map(|_| ())
    }

    /// The page as PNG, in base64.
    pub fn picture(&self) -> Result<String> {
        let picture = self.ask("GET", "/screenshot", None)?;
        Ok(picture.as_str().unwrap_or_default().to_owned())
    }

    /// Ends it, and the program with it.
    pub fn end(&self) -> Result<()> {
        self.ask("DELETE", "", None).map(|_| ())
    }
}

fn call(socket: &Path, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let mut stream =
        UnixStream::connect(socket).with_context(|| format!("connect to {}", socket.display()))?;
    stream.set_read_timeout(Some(LIMIT))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    let answer = read_answer(&mut stream).with_context(|| format!("{method} {path}"))?;
    let json: Value = serde_json::from_slice(&answer)
        .with_context(|| format!("{method} {path}: {}", String::from_utf8_lossy(&answer)))?;
    let value = json.get("value").cloned().unwrap_or(Value::Null);
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        let message = value["message"].as_str().unwrap_or_default();
        bail!("{method} {path}: {error}: {message}");
    }
    Ok(value)
}

/// The body of an HTTP answer whose length is stated, which is how the driver answers.
fn read_answer(stream: &mut UnixStream) -> Result<Vec<u8>> {
    let mut heard = Vec::new();
    let mut chunk = vec![0_u8; 1 << 16];
    loop {
        let head = heard.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(head) = head {
            let length = content_length(&heard[..head])?;
            if heard.len() >= head + 4 + length {
                return Ok(heard[head + 4..head + 4 + length].to_vec());
            }
        }
        let count = stream
            .read(&mut chunk)
            .context("the driver did not answer")?;
        ensure!(count > 0, "the driver ended its answer early");
        heard.extend_from_slice(&chunk[..count]);
    }
}

fn content_length(head: &[u8]) -> Result<usize> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    Ok(length
        .context("an answer without a length")?
        .trim()
        .parse()?)
}
