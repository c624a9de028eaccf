//! Takes the values of secrets out of everything that is written down or shown.
//!
//! A value is found as it is, whatever the case of its letters, and as programs usually write it: in JSON,
//! URLs, HTML, shell quotes, hexadecimal, and base64 at any alignment. Line ends do not count, so a value
//! that was wrapped, or has lines of its own, is found too. This is for what happens by accident: a program
//! that wants to give a value away can write it in ways that nobody looks for.
//!
//! Cost: one pass of an Aho-Corasick automaton over each byte, and for each chunk at most one step for
//! each byte of each pattern, to see whether a value begins at its end. A run without secrets pays nothing.

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use foreman_agent::SECRET_MARK;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// A value of fewer bytes, line ends aside, would take ordinary words out of everything.
pub const SHORTEST: usize = 8;
/// The longest value.
pub const LONGEST: usize = 16 << 10;
/// So many bytes of what may be the beginning of a value are shown where a program waits behind them.
const SHOWN_ON_PAUSE: usize = 2;

/// Finds values; cheap to clone. Without secrets it finds nothing.
#[derive(Clone, Default)]
pub struct Redactor(Option<Arc<Patterns>>);

struct Patterns {
    automaton: AhoCorasick,
    /// For each pattern, which secret it is of.
    owners: Vec<usize>,
    prefixes: Vec<Prefixes>,
    names: Vec<String>,
}

/// Never with a value in it.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.0.as_ref().map(|patterns| &patterns.names);
        out.debug_tuple("Redactor").field(&names).finish()
    }
}

impl Redactor {
    /// Of these names and values. A value that cannot be looked for is left out: whoever takes one in
    /// refuses it ([`why_unfit`]).
    #[must_use]
    pub fn of<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let (mut names, mut owners, mut all) = (Vec::new(), Vec::new(), Vec::<Vec<u8>>::new());
        for (name, value) in secrets {
            if why_unfit(value).is_some() {
                continue;
            }
            for form in forms(value) {
                owners.push(names.len());
                all.push(form);
            }
            names.push(name.to_owned());
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(&all);
        match automaton {
            Ok(automaton) if !names.is_empty() => Self(Some(Arc::new(Patterns {
                automaton,
                owners,
                prefixes: all.into_iter().map(Prefixes::of).collect(),
                names,
            }))),
            // It is refused only for more patterns than a run can have secrets.
            Ok(_) | Err(_) => Self(None),
        }
    }

    /// True when there is nothing to find.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// The text without values.
    #[must_use]
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.names_in(text.as_bytes()).is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut stream, mut out) = (self.stream(), Vec::new());
        stream.push(text.as_bytes(), &mut out);
        stream.finish(&mut out);
        Cow::Owned(String::from_utf8_lossy(&out).into_owned())
    }

    /// Names of the secrets whose values are in these bytes.
    #[must_use]
    pub fn names_in(&self, bytes: &[u8]) -> BTreeSet<String> {
        let Some(patterns) = &self.0 else {
            return BTreeSet::new();
        };
        let (squeezed, _) = squeeze(bytes);
        let found = patterns.automaton.find_overlapping_iter(&squeezed);
        found
            .filter_map(|found| patterns.name_of(found.pattern().as_usize()))
            .map(str::to_owned)
            .collect()
    }

    /// The same without values in any of its texts.
    ///
    /// # Errors
    /// The names of the secrets in it, where it is nothing any more without them.
    pub fn data<T: Serialize + DeserializeOwned>(&self, data: T) -> Result<T, BTreeSet<String>> {
        if self.is_idle() {
            return Ok(data);
        }
        let Ok(text) = serde_json::to_vec(&data) else {
            return Ok(data);
        };
        let names = self.names_in(&text);
        if names.is_empty() {
            return Ok(data);
        }
        let redacted = serde_json::from_slice(&text).and_then(|mut value: Value| {
            self.walk(&mut value);
            serde_json::from_value(value)
        });
        redacted.map_err(|_| names)
    }

    fn walk(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.text(text) {
                    *text = redacted;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.walk(value)),
            Value::Object(values) => values.values_mut().for_each(|value| self.walk(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// For bytes that come in pieces.
    #[must_use]
    pub fn stream(&self) -> Stream {
        Stream {
            patterns: self.0.clone(),
            pending: Vec::new(),
            told: 0,
        }
    }
}

impl Patterns {
    fn name_of(&self, pattern: usize) -> Option<&str> {
        let owner = *self.owners.get(pattern)?;
        self.names.get(owner).map(String::as_str)
    }

    /// Where values are in squeezed bytes, in order, none touching another; each with the first secret
    /// in it.
    fn find(&self, squeezed: &[u8]) -> Vec<(usize, usize, usize)> {
        let mut found: Vec<_> = self
            .automaton
            .find_overlapping_iter(squeezed)
            .map(|found| (found.start(), found.end(), found.pattern().as_usize()))
            .collect();
        found.sort_unstable();
        let mut merged: Vec<(usize, usize, usize)> = Vec::new();
        for (start, end, pattern) in found {
            match merged.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end, pattern)),
            }
        }
        merged
    }

    /// How many of the last bytes may be the beginning of a value.
    fn beginning_at_end(&self, squeezed: &[u8]) -> usize {
        self.prefixes
            .iter()
            .map(|pattern| pattern.at_end(squeezed))
            .max()
            .unwrap_or(0)
    }

    fn mark(&self, pattern: usize, out: &mut Vec<u8>) {
        let name = self.name_of(pattern).unwrap_or_default();
        out.extend_from_slice(format!("{SECRET_MARK}{name}›").as_bytes());
    }
}

/// A stream of bytes on its way through a redactor. What may be the beginning of a value waits for what
/// comes next.
pub struct Stream {
    patterns: Option<Arc<Patterns>>,
    pending: Vec<u8>,
    /// Bytes at the beginning of `pending` that were given away: they are there to be looked at.
    told: usize,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl Stream {
    /// Takes bytes; gives those that are no beginning of a value.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.patterns.is_none() {
            out.extend_from_slice(bytes);
            return;
        }
        self.pending.extend_from_slice(bytes);
        self.give(false, out);
    }

    /// Nothing comes for a while: gives the rest if it is too short to say anything.
    pub fn pause(&mut self, out: &mut Vec<u8>) {
        let length = self
            .pending
            .iter()
            .filter(|byte| !is_line_end(**byte))
            .count();
        if length <= SHOWN_ON_PAUSE {
            out.extend_from_slice(self.pending.get(self.told..).unwrap_or_default());
            self.told = self.pending.len();
        }
    }

    /// Nothing comes any more: gives the rest.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.patterns.is_some() {
            self.give(true, out);
        }
    }

    /// True while bytes wait that a pause does not give.
    #[must_use]
    pub fn holds_back(&self) -> bool {
        self.told < self.pending.len()
    }

    fn give(&mut self, is_end: bool, out: &mut Vec<u8>) {
        let Some(patterns) = self.patterns.clone() else {
            return;
        };
        let (squeezed, places) = squeeze(&self.pending);
        let raw = |at: usize| places.get(at).copied().unwrap_or(self.pending.len());
        let hold = match is_end {
            true => squeezed.len(),
            false => squeezed.len() - patterns.beginning_at_end(&squeezed),
        };
        let mut given = self.told;
        let give = |upto: usize, given: &mut usize, out: &mut Vec<u8>| {
            out.extend_from_slice(self.pending.get(*given..upto).unwrap_or_default());
            *given = upto.max(*given);
        };
        for (start, end, pattern) in patterns.find(&squeezed) {
            if start >= hold {
                break;
            }
            give(raw(start), &mut given, out);
            let end = raw(end - 1) + 1;
            if end > given {
                patterns.mark(pattern, out);
                given = end;
            }
        }
        give(raw(hold), &mut given, out);
        let keep = raw(hold);
        self.pending.drain(..keep);
        self.told = given - keep;
    }
}

/// A pattern in lower case, and for each beginning of it the longest shorter one that it ends with.
struct Prefixes {
    pattern: Vec<u8>,
    shorter: Vec<usize>,
}

impl Prefixes {
    fn of(mut pattern: Vec<u8>) -> Self {
        pattern.make_ascii_lowercase();
        let mut shorter = vec![0; pattern.len()];
        let mut length = 0;
        for at in 1..pattern.len() {
            while length > 0 && pattern.get(at) != pattern.get(length) {
                length = shorter.get(length - 1).copied().unwrap_or(0);
            }
            length += usize::from(pattern.get(at) == pattern.get(length));
            if let Some(slot) = shorter.get_mut(at) {
                *slot = length;
            }
        }
        Self { pattern, shorter }
    }

    /// Length of the longest beginning of the pattern, but not all of it, that the bytes end with.
    fn at_end(&self, bytes: &[u8]) -> usize {
        let most = self.pattern.len().saturating_sub(1);
        let tail = bytes.get(bytes.len().saturating_sub(most)..);
        let mut length = 0;
        for byte in tail.unwrap_or_default() {
            let byte = byte.to_ascii_lowercase();
            while length > 0 && self.pattern.get(length) != Some(&byte) {
                length = self.shorter.get(length - 1).copied().unwrap_or(0);
            }
            length += usize::from(self.pattern.get(length) == Some(&byte));
        }
        length
    }
}

/// Why a value cannot be a secret, as a phrase that follows "the value".
#[must_use]
pub fn why_unfit(value: &str) -> Option<String> {
    let length = value.bytes().filter(|byte| !is_line_end(*byte)).count();
    if length < SHORTEST {
        return Some(format!(
            "is shorter than {SHORTEST} bytes: taking it out of what is written down would take ordinary \
             words out"
        ));
    }
    if value.len() > LONGEST {
        return Some(format!("is longer than {} KiB", LONGEST >> 10));
    }
    value
        .contains('\0')
        .then(|| "has a NUL byte in it, which no variable can hold".to_owned())
}

fn is_line_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// The bytes without line ends, and where each of them was.
fn squeeze(bytes: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let kept = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| !is_line_end(**byte));
    kept.map(|(at, byte)| (*byte, at)).unzip()
}

/// How a value may be written, each once, without line ends.
fn forms(value: &str) -> BTreeSet<Vec<u8>> {
    let bytes = value.as_bytes();
    let json = serde_json::to_string(value).unwrap_or_default();
    let json = json.strip_prefix('"').unwrap_or(&json);
    let json = json.strip_suffix('"').unwrap_or(json).to_owned();
    let mut texts = vec![
        value.to_owned(),
        json.replace('/', "\\/"),
        ascii_json(&json),
        json,
        value
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;")
            .replace('\'', "&#39;"),
        value.replace('\'', "'\\''"),
        escaped(value, &['\\', '$', '`', '"']),
        hexadecimal(bytes),
    ];
    // What the usual encoders leave as it is, beside letters and digits.
    for plain in ["-_.~", "-_.~/", "-_.!~*'()", "-_.!~*'();/?:@&=+$,#", "*-._"] {
        let encoded = percent(bytes, plain);
        texts.push(encoded.replace("%20", "+"));
        texts.push(encoded);
    }
    let mut forms: BTreeSet<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
    for before in 0..3 {
        let padded = [vec![0; before], bytes.to_vec()].concat();
        // Whole letters that depend on the value alone.
        let (from, to) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
        for encoded in [
            STANDARD_NO_PAD.encode(&padded),
            URL_SAFE_NO_PAD.encode(&padded),
        ] {
            if let Some(core) = encoded.get(from..to) {
                forms.insert(core.as_bytes().to_vec());
            }
        }
    }
    let squeezed = forms.into_iter().map(|form| squeeze(&form).0);
    squeezed.filter(|form| form.len() >= SHORTEST).collect()
}

/// JSON text with everything beyond ASCII written out.
fn ascii_json(json: &str) -> String {
    let mut out = String::new();
    for letter in json.chars() {
        if letter.is_ascii() {
            out.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a text cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

fn escaped(value: &str, special: &[char]) -> String {
    let mut out = String::new();
    for letter in value.chars() {
        if special.contains(&letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

fn percent(bytes: &[u8], plain: &str) -> String {
    let mut out = String::new();
    for byte in bytes {
        match char::from(*byte) {
            letter if letter.is_ascii_alphanumeric() || plain.contains(letter) => out.push(letter),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
#[path = "redact/tests.rs"]
mod tests;
