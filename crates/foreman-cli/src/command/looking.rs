//! `foreman samples`, `amendments`, `agents`, `repos`, `say` and `follow-up`.

use super::Done;
use crate::answer::Answer;
use crate::args::{AmendmentsArgs, FollowUpArgs, SamplesArgs, SayArgs};
use crate::layout::pad;
use crate::words;
use foreman_domain::{AmendmentState, At, Decision, ExitCode, sanitize_line};
use foreman_engine::api::{
    AgentsRequest, AmendmentList, AmendmentView, Commands, FollowUp, KnownRepo, RepoList, SaidHow,
    Sample, Samples, SamplesRequest, Say,
};
use foreman_policy::bytes_in_words;
use std::time::Duration;

/// Longest wait of one look, in milliseconds.
const WAIT_MS: u32 = 5_000;

/// Prints what a run uses.
pub async fn samples(args: SamplesArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let mut after: Option<At> = None;
    loop {
        let request = SamplesRequest {
            run: args.run.clone(),
            after,
            wait_ms: if after.is_some() { WAIT_MS } else { 0 },
        };
        let view = engine.run_samples(request).await?;
        if answer.is_json() {
            answer.object(&view)?;
        } else {
            tell_samples(&view, after.is_none(), answer)?;
        }
        let news = view.samples.last().map(|last| last.at);
        if !args.follow
            || (news.is_none() && after.is_some())
            || (after.is_none() && news.is_none())
        {
            return Ok(ExitCode::Ok);
        }
        after = news.or(after);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn tell_samples(view: &Samples, is_first: bool, answer: &Answer) -> std::io::Result<()> {
    if view.samples.is_empty() && is_first {
        return answer.line("Nothing is measured: the run is not live, or its supervisor cannot.");
    }
    for sample in &view.samples {
        answer.line(&sample_in_words(sample))?;
    }
    if let Some(left) = view.wall_left_ms.filter(|_| is_first) {
        answer.line(&format!("Wall time left: {}.", words::duration(left)))?;
    }
    Ok(())
}

fn sample_in_words(sample: &Sample) -> String {
    let or_dash = |figure: Option<String>| figure.unwrap_or_else(|| "not measured".to_owned());
    let cpu = sample.cpu_millicores;
    let cpu = cpu.map(|cpu| format!("{}.{:02} CPU", cpu / 1000, cpu % 1000 / 10));
    format!(
        "{}  {}  memory {}  processes {}  disk {}",
        sample.at,
        cpu.unwrap_or_else(|| "CPU not measured".to_owned()),
        or_dash(sample.memory_bytes.map(bytes_in_words)),
        or_dash(sample.processes.map(|processes| processes.to_string())),
        or_dash(sample.disk_bytes.map(bytes_in_words)),
    )
}

/// Lists recorded decisions of all runs.
pub async fn amendments(args: AmendmentsArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let list = engine
        .amendment_list(AmendmentList { all: args.all })
        .await?;
    if answer.is_json() {
        answer.object(&list)?;
        return Ok(ExitCode::Ok);
    }
    if list.amendments.is_empty() {
        answer.line(match args.all {
            true => "Nothing was ever decided here.",
            false => "No decision is in force. `foreman amendments --all` shows those that were.",
        })?;
    }
    for one in &list.amendments {
        answer.line(&decision_in_words(one, At::now()))?;
    }
    Ok(ExitCode::Ok)
}

fn decision_in_words(one: &AmendmentView, now: At) -> String {
    let amendment = &one.amendment;
    let verb = match amendment.decision {
        Decision::Allow => "allows",
        Decision::Deny { .. } => "denies",
    };
    let state = match amendment.state {
        AmendmentState::Active => String::new(),
        AmendmentState::Revoked => " (taken back)".to_owned(),
        AmendmentState::Lapsed => " (lapsed)".to_owned(),
    };
    let used = match (one.hits, one.last_hit_at) {
        (0, _) => "never used".to_owned(),
        (hits, Some(at)) => format!(
            "{}, last {}",
            words::count(hits, "hit"),
            words::ago(at, now)
        ),
        (hits, None) => words::count(hits, "hit"),
    };
    let ends = amendment.expires.map(|at| format!("; ends {at}"));
    let written = if one.project_written {
        "; in the policy file"
    } else {
        ""
    };
    format!(
        "{}  {verb}{state}: {}; {used}{}{written}; decided {}",
        amendment.id,
        sanitize_line(&amendment.words),
        ends.unwrap_or_default(),
        words::ago(amendment.decided_at, now),
    )
}

/// Lists agent programs of this machine.
pub async fn agents(engine: &impl Commands, answer: &Answer) -> Done {
    let found = engine.agents_find(AgentsRequest {}).await?;
    if answer.is_json() {
        answer.object(&found)?;
        return Ok(ExitCode::Ok);
    }
    for agent in &found.agents {
        let place = match &agent.path {
            Some(path) => sanitize_line(&path.to_string_lossy()),
            None => "not found".to_owned(),
        };
        let version = agent.version.as_deref().map(sanitize_line);
        let version = version.map(|version| format!("  {version}"));
        answer.line(&format!(
            "{}  {place}{}",
            pad(&agent.name, 13),
            version.unwrap_or_default()
        ))?;
        if agent.path.is_some() {
            answer.line(&format!("               {}.", sanitize_line(&agent.hint)))?;
        }
    }
    Ok(ExitCode::Ok)
}

/// Lists repositories that had runs.
pub async fn repos(engine: &impl Commands, answer: &Answer) -> Done {
    let known = engine.repo_list(RepoList {}).await?;
    if answer.is_json() {
        answer.object(&known)?;
        return Ok(ExitCode::Ok);
    }
    if known.repos.is_empty() {
        answer.line("No repository had a run yet. `foreman run -- CMD` starts one.")?;
    }
    for repo in &known.repos {
        answer.line(&repo_in_words(repo, At::now()))?;
    }
    Ok(ExitCode::Ok)
}

fn repo_in_words(repo: &KnownRepo, now: At) -> String {
    let standing = |name: &str, state: &Option<String>| match state.as_deref() {
        None | Some("absent") => String::new(),
        Some(state) => format!("  {name} {state}"),
    };
    format!(
        "{}{}  {}, last {}{}{}",
        sanitize_line(&repo.path.to_string_lossy()),
        if repo.reachable { "" } else { " (unreachable)" },
        words::count(repo.runs, "run"),
        words::ago(repo.last_used, now),
        standing("policy", &repo.policy_file),
        standing("project file", &repo.project_file),
    )
}

/// Sends the comments of a review back.
pub async fn follow_up(args: FollowUpArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let request = FollowUp {
        run: args.run,
        message: args.message,
    };
    let run = engine.run_follow_up(request).await?;
    if answer.is_json() {
        answer.object(&run)?;
        return Ok(ExitCode::Ok);
    }
    answer.line(&format!(
        "Run {} goes on from the reviewed commits, with your message.",
        run.id
    ))?;
    answer.line(&format!("`foreman attach {}` shows it.", run.id))?;
    Ok(ExitCode::Ok)
}

/// Says something to a run's agent.
pub async fn say(args: SayArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let request = Say {
        run: args.run,
        message: args.message,
        afresh: args.afresh,
    };
    let said = engine.run_say(request).await?;
    if answer.is_json() {
        answer.object(&said)?;
        return Ok(ExitCode::Ok);
    }
    let id = &said.run.id;
    answer.line(&match said.how {
        SaidHow::Waits => {
            format!("The agent of run {id} is given it when its turn ends; the run goes on until then.")
        }
        SaidHow::Resumes => {
            format!("Run {id} goes on from those commits with it, in the agent's own session.")
        }
        SaidHow::Afresh => format!(
            "Run {id} goes on from those commits with it. Its agent starts afresh, and knows nothing of \
             what was said before."
        ),
    })?;
    answer.line(&format!("`foreman attach {id}` shows it."))?;
    Ok(ExitCode::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_said_so_and_never_nought() {
        let sample = Sample {
            at: At::from_millis(0),
            cpu_millicores: Some(1_250),
            memory_bytes: Some(42 << 20),
            processes: None,
            disk_bytes: None,
        };
        let words = sample_in_words(&sample);
        assert!(
            words.contains("1.25 CPU") && words.contains("42 MiB"),
            "{words}"
        );
        assert_eq!(words.matches("not measured").count(), 2, "{words}");
    }
}
