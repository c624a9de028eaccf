//! The table: what was measured, the budget, and whether it is met.

use std::fmt::Write;

/// One row.
#[derive(Debug, Clone)]
pub struct Row {
    what: String,
    measured: String,
    budget: String,
    verdict: String,
}

impl Row {
    /// A figure that has no budget of its own: a peer, or the bare machine.
    pub fn plain(what: impl Into<String>, measured: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            measured: measured.into(),
            budget: String::new(),
            verdict: String::new(),
        }
    }

    /// A figure that must be at most so much.
    pub fn at_most(what: impl Into<String>, figure: f64, limit: f64, unit: &str) -> Self {
        let verdict = if figure <= limit {
            "met".to_owned()
        } else {
            format!("missed: {:.1} times as much", figure / limit)
        };
        Self {
            what: what.into(),
            measured: match figure < 10.0 {
                true => format!("{figure:.2} {unit}"),
                false => format!("{figure:.1} {unit}"),
            },
            budget: format!("at most {limit} {unit}"),
            verdict,
        }
    }

    /// A figure that must be at least so much.
    pub fn at_least(what: impl Into<String>, figure: f64, limit: f64, unit: &str) -> Self {
        let verdict = if figure >= limit {
            "met".to_owned()
        } else {
            format!("missed: {:.0} % of it", 100.0 * figure / limit)
        };
        Self {
            what: what.into(),
            measured: format!("{figure:.2} {unit}"),
            budget: format!("at least {limit} {unit}"),
            verdict,
        }
    }

    /// Something that cannot be measured here.
    pub fn absent(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            measured: String::new(),
            budget: String::new(),
            verdict: format!("skipped: {}", why.into()),
        }
    }

    /// True for what could not be measured.
    pub fn is_absent(&self) -> bool {
        self.verdict.starts_with("skipped")
    }
}

/// All rows.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds rows.
    pub fn add(&mut self, rows: Vec<Row>) {
        self.rows.extend(rows);
    }

    /// As Markdown.
    pub fn text(&self) -> String {
        let mut text = String::from("| what | measured | budget | verdict |\n|---|---|---|---|\n");
        for row in &self.rows {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                row.what, row.measured, row.budget, row.verdict
            );
        }
        text
    }
}

/// The middle of the values; 0 without any.
pub fn median(values: &mut [f64]) -> f64 {
    percentile(values, 0.5)
}

/// The value below which this share of the values lies.
pub fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index within the values"
    )]
    let index = ((last as f64) * share).round() as usize;
    values.get(index).copied().unwrap_or(0.0)
}

/// The machine in words: no names.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory: u64 = read("/proc/meminfo")
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?
                .trim()
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or(0);
    let kernel = read("/proc/sys/kernel/osrelease");
    let kernel: Vec<&str> = kernel.trim().split(['.', '-']).take(2).collect();
    let load = read("/proc/loadavg");
    format!(
        "a virtual machine with {cores} cores and {} GiB of memory, Linux {}, load {} at the end of the run",
        memory / (1 << 20),
        kernel.join("."),
        load.split(' ').next().unwrap_or("unknown")
    )
}
