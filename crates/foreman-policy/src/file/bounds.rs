//! `[bounds]` and `--bounds`: how much a run may use.

use super::section::{Section, unknown_key};
use crate::Bounds;
use crate::error::{Fault, PolicyError, quoted};
use crate::quantity::{
    bytes, bytes_in_words, duration, duration_in_words, microusd, microusd_in_words, millicores,
    millicores_in_words, tokens, tokens_in_words,
};
use toml_edit::{Item, Value};

const KEYS: &[&str] = &[
    "wall",
    "memory",
    "processes",
    "output",
    "cpu",
    "disk",
    "open_files",
    "hold",
    "tokens",
    "cost",
    "turns",
];
/// Bounds that a reader of the documentation may expect and that nothing enforces so far.
const NOT_YET: &[&str] = &[
    "cpus",
    "cpu_time",
    "files",
    "file_size",
    "inodes",
    "network",
    "bandwidth",
    "gpu",
    "swap",
];

const WALL: (u64, u64) = (1, 30 * 86_400);
const MEMORY: (u64, u64) = (16 << 20, 64 << 40);
const PROCESSES: (u64, u64) = (8, 1 << 20);
const OUTPUT: (u64, u64) = (4 << 10, 1 << 40);
/// In thousandths of a processor.
const CPU: (u64, u64) = (50, 4_096_000);
const DISK: (u64, u64) = (1 << 20, 64 << 40);
const OPEN_FILES: (u64, u64) = (32, 1 << 20);
const TOKENS: (u64, u64) = (100, 1 << 50);
/// In millionths of a dollar.
const COST: (u64, u64) = (100, 1_000_000_000_000);
const TURNS: (u64, u64) = (1, 1 << 32);
const HOLD: (u64, u64) = (1, 30 * 86_400);

/// Reads `--bounds`: `wall=2h,memory=4GiB,processes=512,output=256MiB`, each part once.
///
/// # Errors
/// A sentence for an unknown or repeated part, an absurd figure, and what is not enforced yet.
pub fn parse_bounds(text: &str) -> Result<Bounds, PolicyError> {
    let read = || -> Result<Bounds, Fault> {
        let mut bounds = Bounds::default();
        let mut seen = Vec::new();
        if text.len() > 1_024 {
            return Err(Fault::new("the bounds are too long to be meant"));
        }
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                Fault::new(format!("{} is not a bound", quoted(part.trim())))
                    .hint("Write them as \"wall=2h,memory=4GiB,processes=512,output=256MiB\".")
            })?;
            let key = key.trim();
            if seen.contains(&key) {
                return Err(Fault::new(format!("{} is given twice", quoted(key))));
            }
            seen.push(key);
            set(&mut bounds, key, value.trim())?;
        }
        Ok(bounds)
    };
    read().map_err(|fault| fault.in_argument("--bounds"))
}

pub(super) fn read(section: &Section<'_>) -> Result<Bounds, PolicyError> {
    let mut bounds = Bounds::default();
    for key in section.keys() {
        known(key).map_err(|fault| section.at_key(key, fault))?;
        let value = match section.get(key) {
            Some(Item::Value(Value::Integer(number))) => number.value().to_string(),
            Some(Item::Value(Value::Float(number))) if matches!(key, "cpu" | "cost") => {
                number.value().to_string()
            }
            Some(Item::Value(Value::String(text))) => text.value().clone(),
            _ => {
                return Err(section.at_value(
                    key,
                    Fault::new(format!("{} is a number or a text with a unit", quoted(key))),
                ));
            }
        };
        set(&mut bounds, key, &value).map_err(|fault| section.at_value(key, fault))?;
    }
    Ok(bounds)
}

fn known(key: &str) -> Result<(), Fault> {
    if KEYS.contains(&key) {
        Ok(())
    } else if NOT_YET.contains(&key) {
        Err(Fault::not_enforced(format!(
            "a bound on {} is not enforced yet, so it is refused",
            quoted(key)
        ))
        .hint(format!("Remove it; enforced are {}.", KEYS.join(", "))))
    } else {
        Err(unknown_key(key, "the bounds", KEYS))
    }
}

fn set(bounds: &mut Bounds, key: &str, value: &str) -> Result<(), Fault> {
    known(key)?;
    match key {
        "wall" => {
            let seconds = within(key, duration(value)?, WALL, duration_in_words)?;
            bounds.wall_seconds = Some(seconds);
        }
        "memory" => {
            bounds.memory_bytes = Some(within(key, bytes(value)?, MEMORY, bytes_in_words)?);
        }
        "output" => {
            bounds.output_bytes = Some(within(key, bytes(value)?, OUTPUT, bytes_in_words)?);
        }
        "disk" => {
            bounds.disk_bytes = Some(within(key, bytes(value)?, DISK, bytes_in_words)?);
        }
        "cpu" => {
            let millis = within(key, millicores(value)?, CPU, millicores_in_words)?;
            bounds.cpu_millicores = u32::try_from(millis).ok();
        }
        "open_files" => {
            let count = count(value, "open files", "1024")?;
            let count = within(key, count, OPEN_FILES, |count| count.to_string())?;
            bounds.open_files = u32::try_from(count).ok();
        }
        "hold" => {
            let seconds = within(key, duration(value)?, HOLD, duration_in_words)?;
            bounds.hold_seconds = Some(seconds);
        }
        "tokens" => {
            let count = tokens(value)?;
            bounds.tokens = Some(within(key, count, TOKENS, tokens_in_words)?);
        }
        "cost" => {
            let micros = microusd(value)?;
            bounds.cost_microusd = Some(within(key, micros, COST, microusd_in_words)?);
        }
        "turns" => {
            let count = count(value, "turns", "200")?;
            bounds.turns = Some(within(key, count, TURNS, |count| count.to_string())?);
        }
        _ => {
            let count = count(value, "processes", "512")?;
            let count = within(key, count, PROCESSES, |count| count.to_string())?;
            bounds.processes = u32::try_from(count).ok();
        }
    }
    Ok(())
}

fn count(value: &str, of: &str, example: &str) -> Result<u64, Fault> {
    value.parse::<u64>().map_err(|_| {
        Fault::new(format!("{} is not a number of {of}", quoted(value)))
            .hint(format!("Write a whole number, as {example}."))
    })
}

fn within(
    key: &str,
    value: u64,
    (least, most): (u64, u64),
    words: impl Fn(u64) -> String,
) -> Result<u64, Fault> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    let which = if value < least {
        "too small"
    } else {
        "too large"
    };
    Err(Fault::new(format!(
        "{} of {} is {which} to be meant",
        quoted(key),
        words(value)
    ))
    .hint(format!(
        "From {} to {} is possible.",
        words(least),
        words(most)
    )))
}
