//! `foreman blocks`.

use super::Done;
use crate::answer::Answer;
use crate::args::BlocksArgs;
use crate::card::{Below, Card, render};
use foreman_domain::ExitCode;
use foreman_engine::api::{BlockList, Commands};

/// Lists blocks as cards.
pub async fn list(args: BlocksArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let blocks = engine
        .block_list(BlockList {
            run: args.run,
            all: args.all,
        })
        .await?;
    if answer.is_json() {
        answer.object(&blocks)?;
        return Ok(ExitCode::Ok);
    }
    if blocks.blocks.is_empty() {
        answer.line("Nothing is held.")?;
    }
    let all = blocks.blocks.len();
    for (index, view) in blocks.blocks.iter().enumerate() {
        let below = if view.block.state.is_decidable() {
            Below::List
        } else {
            Below::Nothing
        };
        let place = (index + 1, all);
        let card = Card {
            view,
            place,
            step: None,
            below: &below,
        };
        answer.lines(&render(&card, answer.width(), answer.paint()))?;
        if view.block.state.is_decidable() {
            let id = &view.block.id;
            answer.line(&format!(
                "  foreman amend {id} [--rule N]   foreman deny {id}"
            ))?;
        }
        answer.line("")?;
    }
    Ok(ExitCode::Ok)
}
