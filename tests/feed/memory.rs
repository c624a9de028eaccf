//! Memory as it is shared out: the proportional set size of a process.

use anyhow::{Context, Result, ensure};
use foreman_tests::desk::App;

/// In MiB.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub app: f64,
    pub web: f64,
}

impl Memory {
    /// Of the app and of the processes that draw its page.
    ///
    /// # Errors
    /// One of them is gone.
    pub fn of(app: &App<'_>) -> Result<Self> {
        let pages = app.processes("WebKitWebProces");
        ensure!(!pages.is_empty(), "no process draws the page");
        let web = pages.into_iter().map(pss).sum::<Result<f64>>()?;
        Ok(Self {
            app: pss(app.pid()?)?,
            web,
        })
    }
}

fn pss(pid: i32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let figure = line
        .and_then(|line| line.split_whitespace().next())
        .context("no such figure")?;
    Ok(figure.parse::<f64>()? / 1024.0)
}
