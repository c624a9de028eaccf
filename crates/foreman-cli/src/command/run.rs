//! `foreman run` and `attach`.

use super::{Done, absolute};
use crate::answer::Answer;
use crate::args::{AttachArgs, LendLogin, RunArgs, RunName};
use crate::error::CliError;
use crate::paint::Tone;
use crate::terminal;
use crate::watch::{self, Ended, Watching};
use crate::words;
use foreman_domain::{
    AmendmentState, Code, Decision, EventSeq, ExitCode, FailReason, Failure, Outcome, RunState,
    Tier, sanitize_line,
};
use foreman_engine::api::{
    AgentChoice, Commands, PolicyQuery, PolicySource, Retried, RunCreate, RunRef, RunRetry,
    RunView, TerminalSize,
};
use std::io;

/// Events shown again on attach.
const SHOWN_AGAIN: u64 = 200;

/// Starts a run and follows it.
pub async fn run(args: RunArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let tty = args.tty;
    let request = request(args, answer)?;
    let run = engine.run_create(request).await?;
    if !answer.is_json() {
        introduce(&run, tty, answer)?;
    }
    let mut watching = Watching::after(EventSeq(0));
    watching.tty = tty;
    let ended = watch::follow(engine, &run, watching, answer).await?;
    summary(&run, ended, engine, answer).await
}

/// Tries again what a run was asked to do, and follows that.
pub async fn retry(name: RunName, engine: &impl Commands, answer: &Answer) -> Done {
    let terminal = answer.can_ask().then(|| {
        let (columns, rows) = terminal::size();
        TerminalSize { columns, rows }
    });
    let request = RunRetry {
        run: name.run,
        terminal,
    };
    let Retried { run, terminal } = engine.run_retry(request).await?;
    if !answer.is_json() {
        introduce(&run, terminal, answer)?;
    }
    let mut watching = Watching::after(EventSeq(0));
    watching.tty = terminal;
    let ended = watch::follow(engine, &run, watching, answer).await?;
    summary(&run, ended, engine, answer).await
}

/// Follows a run again.
pub async fn attach(args: AttachArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let run = engine.run_show(RunRef { run: args.run }).await?;
    let after = EventSeq(run.last_seq.0.saturating_sub(SHOWN_AGAIN));
    if !answer.is_json() {
        introduce(&run, false, answer)?;
        if after.0 > 0 {
            let text = format!(
                "{} earlier events are in `foreman events {}`.",
                after.0, run.id
            );
            answer.line(&answer.paint().paint(Tone::Dim, &text))?;
        }
    }
    let ended = watch::follow(engine, &run, Watching::after(after), answer).await?;
    summary(&run, ended, engine, answer).await
}

pub(super) fn request(args: RunArgs, answer: &Answer) -> Result<RunCreate, Failure> {
    let terminal = match args.tty {
        true if !answer.can_ask() => {
            return Err(
                Failure::new(Code::Usage, "--tty needs a terminal, and there is none").hint(
                    "Leave --tty out: the agent then has no terminal, and its output is streamed.",
                ),
            );
        }
        true => {
            let (columns, rows) = terminal::size();
            Some(TerminalSize { columns, rows })
        }
        false => None,
    };
    let policy = args.policy.as_deref().map(policy_file).transpose()?;
    let mut bounds = match &args.bounds {
        Some(text) => foreman_policy::parse_bounds(text).map_err(bad_policy)?,
        None => foreman_policy::Bounds::default(),
    };
    if let Some(limit) = &args.hold_limit {
        let limit = foreman_policy::parse_bounds(&format!("hold={limit}")).map_err(bad_policy)?;
        bounds = limit.or(bounds);
    }
    for allow in &args.allow {
        // Said before anything is prepared; the engine parses it again.
        foreman_policy::parse_allow(allow).map_err(bad_policy)?;
    }
    let prompt = args.task.unwrap_or_default();
    let key = args.key.as_deref().map(foreman_policy::parse_key_use);
    let key = key.transpose().map_err(bad_policy)?;
    let agent = args.agent.map(|name| AgentChoice {
        name,
        prompt,
        model: args.model,
        lend_login: args.lend_login.is_some(),
        refresh_login: args.lend_login == Some(LendLogin::Refresh),
        key,
    });
    Ok(RunCreate {
        repo: absolute(&args.repo)?,
        title: args.title,
        base: args.base,
        allow: args.allow,
        policy,
        bounds,
        setup: args.setup,
        checks: args.check,
        terminal,
        unattended: args.unattended,
        hold_reads: args.hold_reads,
        accept_weaker: args.accept_weaker,
        unconfined: args.unconfined,
        argv: args.argv,
        agent,
        env: variables(&args.env, |name| std::env::var(name).ok())?,
        proxy: proxies(|name| std::env::var(name).ok()),
        prepare: args.prepare.into(),
        toolchains: args
            .toolchain
            .as_deref()
            .map(foreman_policy::parse_toolchains)
            .transpose()
            .map_err(bad_policy)?,
        secrets: args
            .secret
            .iter()
            .map(|secret| foreman_policy::parse_secret_use(secret))
            .collect::<Result<_, _>>()
            .map_err(bad_policy)?,
    })
}

fn policy_file(path: &std::path::Path) -> Result<PolicySource, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(
            Code::BadInput,
            format!("the policy file {name} cannot be read: {error}"),
        )
    })?;
    Ok(PolicySource { name, text })
}

fn bad_policy(error: foreman_policy::PolicyError) -> Failure {
    let failure = Failure::new(error.code(), error.to_string());
    match error.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The variables that `--env` names: `NAME=VALUE`, or `NAME` for the caller's own value.
fn variables(
    wanted: &[String],
    own: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, Failure> {
    let mut out = Vec::new();
    for item in wanted {
        match item.split_once('=') {
            Some(("", _)) => {
                return Err(Failure::new(
                    Code::Usage,
                    format!("--env {item} names no variable"),
                ));
            }
            Some((name, value)) => out.push((name.to_owned(), value.to_owned())),
            None => match own(item) {
                Some(value) => out.push((item.clone(), value)),
                None => {
                    let text = format!("--env {item}: that variable is not set here");
                    return Err(Failure::new(Code::BadInput, text)
                        .hint(format!("Set it, or write --env {item}=VALUE.")));
                }
            },
        }
    }
    Ok(out)
}

/// The caller's proxy variables, with lower-cased names; lower case wins, as it does in most clients.
fn proxies(own: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    ["https_proxy", "all_proxy", "no_proxy"]
        .into_iter()
        .filter_map(|name| {
            let value = own(name).or_else(|| own(&name.to_uppercase()))?;
            (!value.is_empty()).then(|| (name.to_owned(), value))
        })
        .collect()
}

/// Says what was started, and where.
fn introduce(run: &RunView, tty: bool, answer: &Answer) -> io::Result<()> {
    let paint = answer.paint();
    let head = format!(
        "Run {} on {}",
        run.id,
        sanitize_line(&run.repo.to_string_lossy())
    );
    answer.line(&paint.paint(Tone::Strong, &head))?;
    // While it is being prepared, the commit is not chosen yet: the feed says which it is.
    let at = match run.freshness {
        None if run.state == RunState::Provisioning => String::new(),
        _ => format!(" at {}", words::short(&run.base)),
    };
    answer.line(&format!(
        "  {} from {}{at}",
        sanitize_line(&run.branch),
        sanitize_line(&run.base_branch)
    ))?;
    let tier = sanitize_line(&run.tier);
    answer.line(&match run.confinement {
        Tier::Unconfined => paint.paint(Tone::Bad, &format!("  {tier}")),
        _ => format!("  {tier}"),
    })?;
    if answer.can_ask() {
        let keys = if tty {
            "  Ctrl-] then a key: ? a d o u, s stops, q leaves; a bell says that something is held."
        } else {
            "  Ctrl-C stops the run; twice leaves it going on by itself."
        };
        answer.line(&paint.paint(Tone::Dim, keys))?;
    }
    Ok(())
}

/// Says how the run ended and what comes next; the exit code is the run's.
pub async fn summary(run: &RunView, ended: Ended, engine: &impl Commands, answer: &Answer) -> Done {
    let run = engine
        .run_show(RunRef {
            run: run.id.to_string(),
        })
        .await?;
    if ended != Ended::Over {
        if !answer.is_json() {
            let how = if ended == Ended::Left {
                "goes on"
            } else {
                "is being stopped"
            };
            answer.line(&format!(
                "Run {} {how}. `foreman attach {}` shows it again.",
                run.id, run.id
            ))?;
        }
        return Ok(if ended == Ended::Left {
            ExitCode::Ok
        } else {
            ExitCode::Cancelled
        });
    }
    if !answer.is_json() {
        outcome(&run, engine, answer).await?;
    } else if let Some(failure) = never_began(&run) {
        return Err(failure.into());
    }
    Ok(match &run.outcome {
        Some(outcome) => words::run_exit(outcome, run.denied_unattended, run.failed_checks == 0),
        None => ExitCode::Bug,
    })
}

/// The refusal of a run that could not be prepared: whoever asked is answered as for any other request.
fn never_began(run: &RunView) -> Option<Failure> {
    match &run.outcome {
        Some(Outcome::Failed {
            reason:
                FailReason::Provision {
                    message,
                    code: Some(code),
                    hint,
                },
        }) => Some(Failure {
            code: *code,
            message: message.clone(),
            hint: hint.clone(),
            about: None,
        }),
        _ => None,
    }
}

async fn outcome(run: &RunView, engine: &impl Commands, answer: &Answer) -> Result<(), CliError> {
    let paint = answer.paint();
    let tone = match &run.outcome {
        Some(
            Outcome::Changes {
                agent_succeeded: true,
                ..
            }
            | Outcome::NoChanges,
        ) => Tone::Good,
        _ => Tone::Bad,
    };
    answer.line("")?;
    let state = words::state(&run.state);
    answer.line(&paint.paint(tone, &format!("Run {}: {state}.", run.id)))?;
    for check in &run.checks {
        answer.line(&format!("  check: {}", sanitize_line(check)))?;
    }
    if run.denied_unattended {
        answer.line(
            "  Something was refused because nobody attends this run; see `foreman blocks --all`.",
        )?;
    }
    let query = PolicyQuery {
        run: Some(run.id.to_string()),
        repo: None,
    };
    // The outcome is told also where the rules cannot be.
    if let Ok(policy) = engine.policy_show(query).await {
        for amendment in &policy.amendments {
            let what = match (&amendment.decision, amendment.state) {
                (_, AmendmentState::Revoked) => "taken back",
                (Decision::Allow, _) => "amended",
                (Decision::Deny { .. }, _) => "denied",
            };
            answer.line(&format!("  {what}: {}", sanitize_line(&amendment.words)))?;
        }
    }
    let id = &run.id;
    match &run.state {
        RunState::Review { .. } => answer.paragraph(&format!(
            "Next: `foreman diff {id}` shows it, `foreman merge {id}` takes it over, `foreman discard \
             {id}` removes it and keeps a snapshot."
        ))?,
        RunState::Cancelled { .. } | RunState::Interrupted { .. } => answer.paragraph(&format!(
            "Next: what it did so far is in {}; `foreman events {id}` has all that happened, \
             `foreman discard {id}` removes it and keeps a snapshot.",
            sanitize_line(&run.worktree.to_string_lossy())
        ))?,
        RunState::Failed {
            reason: FailReason::Provision { .. },
        } => answer.paragraph(&format!(
            "Next: nothing was started and nothing is left of it; `foreman retry {id}` tries again."
        ))?,
        RunState::NoChanges | RunState::Failed { .. } => answer.paragraph(&format!(
            "Next: `foreman events {id}` has all of it, `foreman retry {id}` tries again, `foreman \
             discard {id}` cleans up."
        ))?,
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(name: &str) -> Option<String> {
        match name {
            "LANG" => Some("C".into()),
            "HTTPS_PROXY" => Some("http://upper/".into()),
            "all_proxy" => Some("socks5://lower/".into()),
            "ALL_PROXY" => Some("socks5://upper/".into()),
            "no_proxy" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn a_variable_is_taken_over_or_set() {
        let wanted = ["LANG".to_owned(), "A=b=c".to_owned()];
        let expected = [("LANG", "C"), ("A", "b=c")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(variables(&wanted, own).unwrap(), expected);
        assert_eq!(
            variables(&["X".into()], own).unwrap_err().code,
            Code::BadInput
        );
        assert_eq!(
            variables(&["=x".into()], own).unwrap_err().code,
            Code::Usage
        );
    }

    #[test]
    fn proxies_are_named_in_lower_case_and_lower_case_wins() {
        let expected = [
            ("https_proxy", "http://upper/"),
            ("all_proxy", "socks5://lower/"),
        ]
        .map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(proxies(own), expected);
    }
}
