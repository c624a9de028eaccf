//! `foreman policy show`, `why`, `revoke`, `trust` and `write`.

use super::decide::{amendment_id, tell_taken_back};
use super::{Done, absolute, ask, needs_expect};
use crate::answer::Answer;
use crate::args::{AmendmentName, PolicyOf, PolicyWhyArgs, TrustArgs};
use crate::paint::Tone;
use crate::words;
use foreman_domain::{
    AmendmentState, At, Decision, ExitCode, Failure, PathText, sanitize_line, sanitize_text,
};
use foreman_engine::api::{
    Commands, PolicyQuery, PolicyView, PolicyWhy, RevokeRequest, TrustRequest, TrustView,
};
use foreman_policy::{
    Access, Bounds, EgressRule, HostPattern, Layer, Origin, Use, bytes_in_words, microusd_in_words,
    millicores_in_words, socket_gives_away, tokens_in_words,
};
use std::path::Path;

fn query(of: PolicyOf) -> Result<PolicyQuery, Failure> {
    Ok(match (of.run, of.repo) {
        (Some(run), _) => PolicyQuery {
            run: Some(run),
            repo: None,
        },
        (None, repo) => PolicyQuery {
            run: None,
            repo: Some(absolute(repo.as_deref().unwrap_or(Path::new(".")))?),
        },
    })
}

/// Shows the rules in force.
pub async fn show(of: PolicyOf, engine: &impl Commands, answer: &Answer) -> Done {
    let view = engine.policy_show(query(of)?).await?;
    if answer.is_json() {
        answer.object(&view)?;
    } else {
        draw(&view, answer)?;
    }
    Ok(ExitCode::Ok)
}

fn draw(view: &PolicyView, answer: &Answer) -> std::io::Result<()> {
    let heading = |text: &str| answer.line(&answer.paint().paint(Tone::Strong, text));
    let policy = &view.policy;
    heading(&format!("Rules, revision {}", policy.revision))?;
    let is_empty = policy.egress.is_empty() && policy.paths.is_empty();
    if is_empty && policy.sockets.is_empty() && policy.denials.is_empty() {
        answer.line("  none: nothing can be reached, and of the host only the system is seen")?;
    }
    for rule in &policy.egress {
        answer.line(&format!(
            "  allow  {}  {}",
            destination(rule),
            source(&rule.origin)
        ))?;
    }
    for denial in &policy.denials {
        let subject = sanitize_line(&denial.subject.to_string());
        answer.line(&format!("  deny   {subject}  {}", source(&denial.origin)))?;
    }
    for path in &policy.paths {
        let access = match path.access {
            Access::Read => "read ",
            Access::Write => "write",
        };
        let name = named(&path.path, &path.applies, path.expires);
        answer.line(&format!("  {access}  {name}  {}", source(&path.origin)))?;
    }
    for rule in &policy.sockets {
        let name = named(&rule.socket, &rule.applies, rule.expires);
        answer.line(&format!("  socket  {name}  {}", source(&rule.origin)))?;
        if let Some(what) = socket_gives_away(&rule.socket) {
            answer.line(&format!("         {what}"))?;
        }
    }
    for rule in &policy.questions {
        let once = match rule.applies {
            Use::Always => "",
            Use::Holds { .. } => ", once",
        };
        let what = sanitize_line(&rule.to_string());
        answer.line(&format!(
            "  answer yes to {what}{once}  {}",
            source(&rule.origin)
        ))?;
    }
    draw_toolchains(view, answer)?;
    if !view.secrets.is_empty() {
        heading("Secrets that a run is handed")?;
        for secret in &view.secrets {
            answer.line(&format!("  {}", sanitize_line(&secret.to_string())))?;
        }
    }
    heading("Bounds")?;
    answer.line(&format!("  {}", bounds(&view.bounds)))?;
    heading("Decisions, newest first")?;
    if view.amendments.is_empty() {
        answer.line("  none")?;
    }
    for amendment in &view.amendments {
        let what = match amendment.decision {
            Decision::Allow => "amended",
            Decision::Deny { .. } => "denied ",
        };
        let state = match amendment.state {
            AmendmentState::Active => "in force",
            AmendmentState::Revoked => "taken back",
            AmendmentState::Lapsed => "used up",
        };
        answer.line(&format!(
            "  {}  {what}  {} ({}; {state}, {})",
            amendment.id,
            sanitize_line(&amendment.words),
            amendment.scope,
            words::ago(amendment.decided_at, At::now())
        ))?;
    }
    let file = match view.project_file.as_str() {
        "absent" => "there is none",
        "trusted" => "trusted as it is",
        "untrusted" => "not trusted, so it has no effect; see `foreman policy trust`",
        "changed" => {
            "changed since it was trusted, so it has no effect; see `foreman policy trust`"
        }
        other => other,
    };
    heading("The repository's policy file")?;
    answer.line(&format!("  {}", sanitize_line(file)))
}

/// A path of a rule, and for how long it counts.
fn named(path: &Path, applies: &Use, expires: Option<At>) -> String {
    let mut name = PathText::of(path).to_string();
    if let Use::Holds { .. } = applies {
        name.push_str(" once");
    }
    if let Some(expires) = expires {
        name.push_str(&format!(" until {expires}"));
    }
    sanitize_line(&name)
}

fn draw_toolchains(view: &PolicyView, answer: &Answer) -> std::io::Result<()> {
    answer.line(&answer.paint().paint(Tone::Strong, "Toolchains"))?;
    if view.toolchains.is_empty() {
        answer.line("  none: the repository tells of none, or none is wanted")?;
    }
    for toolchain in &view.toolchains {
        let found = match (toolchain.found, toolchain.mounts.is_empty()) {
            (false, _) => "none of yours was found",
            (true, true) => "the system's",
            (true, false) => "yours, read-only, with caches of the run's own",
        };
        let head = format!(
            "  {}  {found} ({})",
            toolchain.toolchain, toolchain.chosen_by
        );
        answer.line(&sanitize_line(&head))?;
        let names = toolchain.set.iter().map(|(name, _)| name);
        let names: Vec<&str> = names.chain(&toolchain.passes).map(String::as_str).collect();
        if !names.is_empty() {
            answer.line(&sanitize_line(&format!(
                "    variables: {}",
                names.join(", ")
            )))?;
        }
        for note in &toolchain.notes {
            answer.line(&format!("    {}", sanitize_line(note)))?;
        }
    }
    Ok(())
}

fn destination(rule: &EgressRule) -> String {
    let host = match &rule.host {
        HostPattern::Name(name) => name.clone(),
        HostPattern::OneLabelUnder(suffix) => format!("*.{suffix}"),
        HostPattern::AnyDepthUnder(suffix) => format!("**.{suffix}"),
        HostPattern::Address(range) => range.to_string(),
    };
    let mut text = format!("{} {host}:{}", rule.protocol, rule.port);
    if let Some(range) = rule.resolves_to {
        text.push_str(&format!(" at {range}"));
    }
    if let Use::Holds { .. } = rule.applies {
        text.push_str(" once");
    }
    if let Some(expires) = rule.expires {
        text.push_str(&format!(" until {expires}"));
    }
    sanitize_line(&text)
}

fn source(origin: &Origin) -> String {
    let reason = origin
        .reason
        .as_deref()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    sanitize_line(&format!("({}{reason})", origin.source))
}

fn bounds(bounds: &Bounds) -> String {
    let mut parts = Vec::new();
    if let Some(seconds) = bounds.wall_seconds {
        parts.push(format!(
            "wall time {}",
            words::duration(seconds.saturating_mul(1000))
        ));
    }
    if let Some(memory) = bounds.memory_bytes {
        parts.push(format!("memory {}", bytes_in_words(memory)));
    }
    if let Some(processes) = bounds.processes {
        parts.push(format!("{processes} processes"));
    }
    if let Some(output) = bounds.output_bytes {
        parts.push(format!("output {}", bytes_in_words(output)));
    }
    if let Some(millis) = bounds.cpu_millicores {
        parts.push(millicores_in_words(millis.into()));
    }
    if let Some(disk) = bounds.disk_bytes {
        parts.push(format!("disk {}", bytes_in_words(disk)));
    }
    if let Some(files) = bounds.open_files {
        parts.push(format!("{files} open files of each process"));
    }
    if let Some(tokens) = bounds.tokens {
        parts.push(tokens_in_words(tokens));
    }
    if let Some(cost) = bounds.cost_microusd {
        parts.push(format!("cost {}", microusd_in_words(cost)));
    }
    if let Some(turns) = bounds.turns {
        parts.push(format!("{turns} turns"));
    }
    if let Some(seconds) = bounds.hold_seconds {
        let limit = words::duration(seconds.saturating_mul(1000));
        parts.push(format!("{limit} for an answer to what is held"));
    }
    if parts.is_empty() {
        "those of the engine".into()
    } else {
        parts.join(", ")
    }
}

/// Explains a verdict.
pub async fn why(args: PolicyWhyArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let request = PolicyWhy {
        of: query(args.of)?,
        destination: args.destination,
    };
    let explanation = engine.policy_why(request).await?;
    if answer.is_json() {
        answer.object(&explanation)?;
        return Ok(ExitCode::Ok);
    }
    answer.line(&format!(
        "{}: {}",
        sanitize_line(&explanation.verdict),
        sanitize_line(&explanation.words)
    ))?;
    if let (Some(layer), Some(rule)) = (explanation.layer, &explanation.rule) {
        let layer = match layer {
            Layer::Floor => "the floor, which no rule opens",
            Layer::Profile => "a preset",
            Layer::Project => "the repository",
            Layer::Order => "the work order",
            Layer::Amendment => "a decision on this run",
        };
        answer.line(&format!("Decided by {} from {layer}.", sanitize_line(rule)))?;
    }
    Ok(ExitCode::Ok)
}

/// Takes a recorded decision back.
pub async fn revoke(name: AmendmentName, engine: &impl Commands, answer: &Answer) -> Done {
    let amendment = amendment_id(&name.amendment)?;
    let decided = engine.policy_revoke(RevokeRequest { amendment }).await?;
    tell_taken_back(&decided, answer)
}

/// Trusts a repository's policy file as it is now.
pub async fn trust(args: TrustArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let repo = absolute(&args.repo)?;
    let expect = match args.expect {
        Some(expect) => expect,
        None => {
            let view = engine
                .policy_trust(TrustRequest {
                    repo: repo.clone(),
                    expect: None,
                })
                .await?;
            if answer.is_json() {
                answer.object(&view)?;
                return Ok(ExitCode::Ok);
            }
            file(&view, answer)?;
            if view.trusted {
                answer.line("Exactly this text is trusted already.")?;
                return Ok(ExitCode::Ok);
            }
            if !answer.can_ask() {
                let source = "foreman policy trust REPO --json";
                return Err(needs_expect("policy trust", source).into());
            }
            if !ask("Trust exactly this text, for every run in this repository?")? {
                answer.line("It is not trusted and has no effect.")?;
                return Ok(ExitCode::Ok);
            }
            view.expect
        }
    };
    let view = engine
        .policy_trust(TrustRequest {
            repo,
            expect: Some(expect),
        })
        .await?;
    if answer.is_json() {
        answer.object(&view)?;
    } else {
        answer.line("Trusted. A change to the file ends that until you trust it again.")?;
    }
    Ok(ExitCode::Ok)
}

/// Writes a decision of project scope into the repository's policy file.
pub async fn write(name: AmendmentName, engine: &impl Commands, answer: &Answer) -> Done {
    let amendment = amendment_id(&name.amendment)?;
    let view = engine.policy_write(RevokeRequest { amendment }).await?;
    if answer.is_json() {
        answer.object(&view)?;
        return Ok(ExitCode::Ok);
    }
    file(&view, answer)?;
    answer.line("Written. Commit the file if others shall have it; it is not committed by us.")?;
    Ok(ExitCode::Ok)
}

fn file(view: &TrustView, answer: &Answer) -> std::io::Result<()> {
    let name = sanitize_line(&view.file.to_string_lossy());
    answer.line(&answer.paint().paint(Tone::Strong, &name))?;
    for line in sanitize_text(&view.text).lines() {
        answer.line(&format!("{}{line}", crate::feed::GUTTER))?;
    }
    Ok(())
}
