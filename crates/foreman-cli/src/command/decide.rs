//! `foreman amend`, `deny` and `undo`.
//!
//! A decision is bound to what was shown: with `--expect` to what the caller saw, without it to the
//! card that is shown here before the question, which needs a terminal.

use super::{Done, ask, needs_expect};
use crate::answer::Answer;
use crate::args::{AmendArgs, DenyArgs, UndoArgs};
use crate::card::{Below, Card, primary, render};
use crate::error::CliError;
use crate::panel::outcome;
use crate::words;
use foreman_domain::{
    AmendmentId, At, Code, Decision, ExitCode, Failure, Scope, Surface, sanitize_line,
};
use foreman_engine::api::{
    AmendRequest, BlockRef, BlockView, Candidate, Commands, Decided, DenyRequest, UndoRequest,
};

/// Lets a held action go on.
pub async fn amend(args: AmendArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let scope = args.scope.map(Scope::from);
    let mut request = AmendRequest {
        limit: args.limit.clone(),
        block: args.block.clone(),
        expect: args.expect.clone().unwrap_or_default(),
        scope,
        rule: args.rule,
        confirmed: args.yes,
        expires: args.expires.map(end_of),
        surface: Some(Surface::CommandLine),
    };
    if args.expect.is_none() {
        if !answer.can_ask() {
            return Err(needs_expect("amend", "foreman blocks --json").into());
        }
        let view = shown(&args.block, engine, answer).await?;
        let candidate = chosen(&view, scope, args.rule)?;
        answer.line(&format!(
            "Rule {}: {}.",
            candidate.number,
            sanitize_line(&candidate.words)
        ))?;
        if !ask("Amend?")? {
            return not_decided(answer);
        }
        if candidate.needs_confirmation && !args.yes {
            answer.line(match candidate.opens.is_empty() {
                true => {
                    "It opens more than the usual: a wildcard, a bare address or every run here."
                }
                false => "It opens more than the usual:",
            })?;
            for opens in &candidate.opens {
                answer.line(&format!("  {}", sanitize_line(opens)))?;
            }
            if !ask("Really?")? {
                return not_decided(answer);
            }
        }
        request.expect = view.expect.clone();
        request.scope = Some(candidate.scope);
        request.rule = Some(candidate.number);
        request.confirmed = true;
    }
    let decided = engine.block_amend(request).await?;
    tell(&decided, answer)
}

/// When a rule ends that ends so long from now.
fn end_of(seconds: u64) -> At {
    let millis = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
    At::from_millis(At::now().as_millis().saturating_add(millis))
}

/// Refuses a held action.
pub async fn deny(args: DenyArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let expect = match args.expect {
        Some(expect) => expect,
        None if !answer.can_ask() => {
            return Err(needs_expect("deny", "foreman blocks --json").into());
        }
        None => {
            let view = shown(&args.block, engine, answer).await?;
            if !ask("Deny?")? {
                return not_decided(answer);
            }
            view.expect
        }
    };
    let request = DenyRequest {
        block: args.block,
        expect,
        reason: args.reason,
        surface: Some(Surface::CommandLine),
    };
    let is_explained = !request.reason.is_empty();
    let decided = engine.block_deny(request).await?;
    let done = tell(&decided, answer)?;
    if is_explained && !answer.is_json() {
        let run = decided.amendment.block.run();
        answer.paragraph(&format!(
            "What was denied is told the reason; `foreman say {run} TEXT` tells the agent itself."
        ))?;
    }
    Ok(done)
}

/// Takes the newest decision back.
pub async fn undo(args: UndoArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let amendment = args.amendment.as_deref().map(amendment_id).transpose()?;
    let decided = engine.undo(UndoRequest { amendment }).await?;
    tell_taken_back(&decided, answer)
}

/// The id of a recorded decision, as typed.
pub fn amendment_id(text: &str) -> Result<AmendmentId, Failure> {
    text.parse().map_err(|error: foreman_domain::IdError| {
        Failure::new(Code::BadInput, error.to_string())
            .hint("`foreman policy show --run RUN` lists the decisions behind a run's rules.")
    })
}

/// Says that a decision was taken back.
pub fn tell_taken_back(decided: &Decided, answer: &Answer) -> Done {
    if answer.is_json() {
        answer.object(decided)?;
        return Ok(ExitCode::Ok);
    }
    answer.line(&format!(
        "Taken back: {}.",
        sanitize_line(&decided.amendment.words)
    ))?;
    if decided.cut > 0 {
        let cut = words::count(decided.cut.into(), "open connection");
        answer.line(&format!("{cut} cut."))?;
    }
    if decided.amendment.decision == Decision::Allow {
        answer.paragraph(
            "Bytes already sent and files already written stay, and a file that is open stays open.",
        )?;
    }
    Ok(ExitCode::Ok)
}

fn tell(decided: &Decided, answer: &Answer) -> Done {
    if answer.is_json() {
        answer.object(decided)?;
        return Ok(ExitCode::Ok);
    }
    answer.line(&format!("{}.", outcome(decided)))?;
    let id = &decided.amendment.id;
    answer.paragraph(&format!(
        "`foreman undo` takes it back within 10 seconds, `foreman policy revoke {id}` at any time."
    ))?;
    Ok(ExitCode::Ok)
}

fn not_decided(answer: &Answer) -> Done {
    answer.line("Nothing was decided; it still waits.")?;
    Ok(ExitCode::Ok)
}

/// Shows the card that the decision is about.
async fn shown(
    block: &str,
    engine: &impl Commands,
    answer: &Answer,
) -> Result<BlockView, CliError> {
    let view = engine
        .block_show(BlockRef {
            block: block.to_owned(),
        })
        .await?;
    let card = Card {
        view: &view,
        place: (1, 1),
        step: None,
        below: &Below::List,
    };
    answer.lines(&render(&card, answer.width(), answer.paint()))?;
    if !view.block.state.is_decidable() {
        let decided = view.decided.as_deref().unwrap_or("it was decided already");
        return Err(Failure::new(Code::AlreadyDecided, sanitize_line(decided))
            .hint("`foreman policy revoke` takes a recorded decision back.")
            .into());
    }
    Ok(view)
}

/// The candidate that scope and number name; the narrowest that lasts when neither is given.
fn chosen(
    view: &BlockView,
    scope: Option<Scope>,
    rule: Option<u32>,
) -> Result<&Candidate, Failure> {
    let fits = |candidate: &&Candidate| {
        scope.is_none_or(|scope| candidate.scope == scope)
            && rule.is_none_or(|rule| candidate.number == rule)
    };
    let found = match (scope, rule) {
        (None, None) => primary(view),
        _ => view.candidates.iter().find(fits),
    };
    found.ok_or_else(|| {
        Failure::new(Code::BadInput, "the card has no such rule").hint(
            "Choose --rule by the numbers on the card, or --scope once, run, order or project.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panel::tests::view;

    #[test]
    fn scope_and_number_choose_among_the_cards_rules() {
        let view = view(1);
        let number = |scope, rule| {
            chosen(&view, scope, rule)
                .map(|candidate| candidate.number)
                .ok()
        };
        assert_eq!(number(None, None), Some(2));
        assert_eq!(number(Some(Scope::Once), None), Some(1));
        assert_eq!(number(None, Some(3)), Some(3));
        assert_eq!(number(Some(Scope::Once), Some(3)), None);
        assert_eq!(number(Some(Scope::Order), None), None);
    }

    #[test]
    fn a_wrong_amendment_id_says_where_to_look() {
        let failure = amendment_id("nonsense").unwrap_err();
        assert_eq!(failure.code, Code::BadInput);
        assert!(failure.hint.is_some());
    }
}
