//! A small test runner for suites that libtest does not fit: cases can be skipped with a reason while
//! they run, share what is dear to make, and the closing lines say passed, failed and skipped.
//!
//! Understands what `cargo test` passes: a filter, `--exact`, `--list`, `--test-threads`; other
//! options are ignored. `FOREMAN_TEST_SKIPS=deny` turns skips into failures.

use anyhow::Result;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How a case ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was as it must be.
    Passed,
    /// It cannot be tried here; why.
    Skipped(String),
}

/// One case.
pub struct Case<'a> {
    /// A sentence with underscores, with its group before it: `direct_egress::…`.
    pub name: String,
    run: Box<dyn FnOnce() -> Result<Verdict> + Send + 'a>,
}

impl std::fmt::Debug for Case<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.name)
    }
}

impl<'a> Case<'a> {
    /// A case that may skip.
    pub fn new(name: impl Into<String>, run: impl FnOnce() -> Result<Verdict> + Send + 'a) -> Self {
        Self {
            name: name.into(),
            run: Box::new(run),
        }
    }

    /// A case that cannot skip.
    pub fn plain(name: impl Into<String>, run: impl FnOnce() -> Result<()> + Send + 'a) -> Self {
        Self::new(name, move || run().map(|()| Verdict::Passed))
    }
}

/// What was asked for on the command line.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    filters: Vec<String>,
    exact: bool,
    list: bool,
    threads: Option<usize>,
}

impl Wanted {
    /// From this process's arguments.
    #[must_use]
    pub fn from_arguments() -> Self {
        let mut wanted = Self::default();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--exact" => wanted.exact = true,
                "--list" => wanted.list = true,
                "--test-threads" => {
                    wanted.threads = arguments.next().and_then(|text| text.parse().ok());
                }
                "--format" | "--color" | "--logfile" | "--skip" => drop(arguments.next()),
                other if other.starts_with("--test-threads=") => {
                    wanted.threads = other[15..].parse().ok();
                }
                other if other.starts_with('-') => {}
                other => wanted.filters.push(other.to_owned()),
            }
        }
        wanted
    }

    /// True when a case of this name is wanted.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        self.filters.is_empty()
            || self.filters.iter().any(|filter| {
                if self.exact {
                    filter == name
                } else {
                    name.contains(filter.as_str())
                }
            })
    }

    /// False when only cases of another identity are wanted, so that none of this one's needs a stage.
    #[must_use]
    pub fn may_take(&self, who: crate::Who) -> bool {
        let of =
            |filter: &String, who: crate::Who| filter.starts_with(&format!("{}::", who.name()));
        let all = [crate::Who::Ordinary, crate::Who::Root];
        self.filters.is_empty()
            || self
                .filters
                .iter()
                .any(|filter| of(filter, who) || !all.iter().any(|other| of(filter, *other)))
    }

    /// True when only names are wanted. Nothing dear should be made then.
    #[must_use]
    pub fn lists(&self) -> bool {
        self.list
    }
}

/// Results of a suite.
#[derive(Debug, Default)]
pub struct Tally {
    passed: u32,
    failed: Vec<(String, String)>,
    skipped: Vec<(String, String)>,
}

impl Tally {
    /// Runs the wanted cases, several at a time, and prints a line for each.
    pub fn run(&mut self, wanted: &Wanted, threads: usize, cases: Vec<Case<'_>>) {
        if wanted.list {
            for case in &cases {
                println!("{}: test", case.name);
            }
            return;
        }
        let cases: VecDeque<Case<'_>> = cases
            .into_iter()
            .filter(|case| wanted.takes(&case.name))
            .collect();
        let queue = Mutex::new(cases);
        let tally = Mutex::new(self);
        let threads = wanted.threads.unwrap_or(threads).max(1);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let case = queue.lock().unwrap().pop_front();
                        let Some(case) = case else { return };
                        let begin = Instant::now();
                        let name = case.name.clone();
                        let ended = catch_unwind(AssertUnwindSafe(case.run));
                        tally.lock().unwrap().note(&name, ended, begin.elapsed());
                    }
                });
            }
        });
    }

    fn note(
        &mut self,
        name: &str,
        ended: Result<Result<Verdict>, Box<dyn std::any::Any + Send>>,
        took: Duration,
    ) {
        let seconds = took.as_secs_f32();
        match ended {
            Ok(Ok(Verdict::Passed)) => {
                self.passed += 1;
                println!("ok       {seconds:6.2} s  {name}");
            }
            Ok(Ok(Verdict::Skipped(why))) => {
                println!("skipped  {seconds:6.2} s  {name}: {why}");
                self.skipped.push((name.to_owned(), why));
            }
            Ok(Err(error)) => self.note_failure(name, seconds, format!("{error:#}")),
            Err(panic) => {
                let text = panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_else(|| "it panicked".to_owned());
                self.note_failure(name, seconds, text);
            }
        }
    }

    fn note_failure(&mut self, name: &str, seconds: f32, message: String) {
        println!("FAILED   {seconds:6.2} s  {name}");
        self.failed.push((name.to_owned(), message));
    }

    /// Counts a failure that belongs to no case.
    pub fn fail(&mut self, name: &str, error: &anyhow::Error) {
        self.note_failure(name, 0.0, format!("{error:#}"));
    }

    /// Skips so far, with their reasons.
    #[must_use]
    pub fn skips(&self) -> &[(String, String)] {
        &self.skipped
    }

    /// Prints failures in full, then the closing lines; gives the exit code.
    #[must_use]
    pub fn close(mut self, wanted: &Wanted) -> ExitCode {
        if wanted.list {
            return ExitCode::SUCCESS;
        }
        if std::env::var("FOREMAN_TEST_SKIPS").is_ok_and(|value| value == "deny") {
            for (name, why) in std::mem::take(&mut self.skipped) {
                self.failed
                    .push((name, format!("skipped where skips are not allowed: {why}")));
            }
        }
        for (name, message) in &self.failed {
            println!("\n---- {name}\n{message}");
        }
        if !self.skipped.is_empty() {
            println!("\nskipped:");
            for (name, why) in &self.skipped {
                println!("  {name}: {why}");
            }
        }
        println!(
            "\n{} passed, {} failed, {} skipped",
            self.passed,
            self.failed.len(),
            self.skipped.len()
        );
        if self.failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// A list of cases from functions over a stage; each is named after its function.
#[macro_export]
macro_rules! cases_of {
    ($stage:expr, $group:literal, [$($name:ident),* $(,)?]) => {
        vec![$($crate::suite::Case::plain(
            concat!($group, "::", stringify!($name)),
            move || $name($stage),
        )),*]
    };
}
