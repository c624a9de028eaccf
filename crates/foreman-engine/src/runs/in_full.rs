//! One run in full: what was asked for, what its walls and steps did, where its things are.

use crate::api::{ProbedWall, RunCreate, RunDetailsView, RunPaths, RunView, SiblingRun, StepView};
use crate::conversation::talks;
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, internal};
use crate::gate::queue::shown;
use foreman_domain::{
    At, Event, EventKind, EventSeq, Failure, RunId, RunState, StepKind, StepName,
};
use foreman_store::{StoreError, StoredRun};
use std::collections::HashMap;
use std::sync::Arc;

/// Far more events of the kinds that are read than a run has.
const MOST: u32 = 4_096;
/// Runs of one order that are named.
const SIBLINGS: usize = 200;
/// Steps that are no command of anybody's.
const OWN_STEPS: [StepKind; 2] = [StepKind::Finish, StepKind::Harvest];

impl Engine {
    /// Everything about a run that its row in a list does not say.
    pub async fn run_in_full(self: &Arc<Self>, typed: &str) -> Result<RunDetailsView, Failure> {
        let id = self.find_run(typed).await?;
        let run = self.store.run(&id).await.or_fail()?;
        let details = RunDetails::of(&run)?;
        let order = match self.store.order(&run.order).await {
            Ok(_) => Some(self.show_order(run.order.as_str()).await?),
            // A run that was started by hand has no recorded order.
            Err(StoreError::NoOrder(_)) => None,
            Err(error) => return Err(error).or_fail(),
        };
        let asked: Option<RunCreate> = match self.store.kept_request(&id).await.or_fail()? {
            Some(kept) => Some(serde_json::from_str(&kept).map_err(internal)?),
            None => None,
        };
        let seen = self.seen_in(&id).await?;
        let steps = self.steps_in_full(&id, &seen).await?;
        let command = |kind| {
            let step = steps.iter().find(|step| step.what == kind);
            step.map(|step| step.argv.clone())
                .filter(|argv| !argv.is_empty())
        };
        let (attempts, followed_by) = self.siblings(&run).await?;
        let prompt = match &asked {
            Some(RunCreate {
                agent: Some(agent), ..
            }) => Some(agent.prompt.clone()),
            Some(asked) => asked
                .env
                .iter()
                .find(|(name, _)| name == crate::orders::PROMPT_VARIABLE)
                .map(|(_, prompt)| prompt.clone()),
            None => None,
        };
        let setup = asked.as_ref().and_then(|asked| asked.setup.clone());
        let agent = asked.as_ref().and_then(|asked| asked.agent.as_ref());
        let agent = agent.map(|agent| agent.name.clone());
        Ok(RunDetailsView {
            argv: match (&asked, command(StepKind::Agent)) {
                (_, Some(started)) => started,
                (Some(asked), None) => asked.argv.clone(),
                (None, None) => Vec::new(),
            },
            talks: talks(&run, agent.as_deref(), order.is_some()),
            agent,
            prompt: prompt.or_else(|| order.as_ref().and_then(|order| order.prompt.clone())),
            bounds: details.bounds.clone().raised_by(&run.policy),
            // What ran, where it was started: the repository's own may stand in for none.
            setup: command(StepKind::Setup)
                .and_then(|mut argv| argv.pop())
                .or(setup),
            checks: details.checks.clone(),
            allow: asked.as_ref().map(|asked| asked.allow.clone()),
            accept_weaker: asked
                .as_ref()
                .map(|asked| asked.accept_weaker.clone())
                .unwrap_or_default(),
            unattended: details.unattended,
            terminal: asked.as_ref().and_then(|asked| asked.terminal),
            env_names: asked
                .iter()
                .flat_map(|asked| &asked.env)
                .map(|(name, _)| name.clone())
                .collect(),
            secrets_notice: details.notice_about(None),
            secrets: details.secrets.clone(),
            toolchains: details.toolchains.clone(),
            bounds_kept: seen.bounds_kept,
            walls: seen.walls,
            steps,
            snapshot: match &run.state {
                RunState::Discarded { snapshot } => Some(snapshot.clone()),
                _ => None,
            },
            paths: RunPaths {
                data: self.layout.data.clone(),
                worktree: details.worktree.path.clone(),
                shadow: details.shadow.clone(),
                journal: details.files.journal.clone(),
            },
            order,
            attempts,
            follows: details.follows.map(|follows| follows.run),
            followed_by,
            merge: self.store.newest_merge(&id).await.or_fail()?.map(shown),
            run: id,
        })
    }

    /// One run, as it is now, with who keeps its bounds.
    pub async fn show_run(&self, run: &RunId) -> Result<RunView, Failure> {
        let bounds_kept = self.seen_in(run).await?.bounds_kept;
        Ok(RunView {
            bounds_kept,
            ..self.view_of(run).await?
        })
    }

    /// What the events say about walls, bounds and times.
    async fn seen_in(&self, run: &RunId) -> Result<Seen, Failure> {
        let kinds = ["probe", "progress", "step_started", "step_ended"].map(str::to_owned);
        let page = self
            .store
            .events(run, EventSeq(0), MOST, &kinds)
            .await
            .or_fail()?;
        let mut seen = Seen::default();
        for event in page.events {
            seen.take_in(event);
        }
        Ok(seen)
    }

    async fn steps_in_full(&self, run: &RunId, seen: &Seen) -> Result<Vec<StepView>, Failure> {
        let stored = self.store.steps(run).await.or_fail()?;
        Ok(stored
            .into_iter()
            .map(|step| StepView {
                started_at: seen.started.get(&step.name).copied(),
                millis: seen.took.get(&step.name).copied(),
                name: step.name.0,
                what: step.kind,
                argv: match OWN_STEPS.contains(&step.kind) {
                    true => Vec::new(),
                    false => step.argv,
                },
                ended: step.result,
            })
            .collect())
    }

    /// Runs of the same order, oldest first, and the newest that goes on from this one.
    async fn siblings(&self, run: &StoredRun) -> Result<(Vec<SiblingRun>, Option<RunId>), Failure> {
        let mut ids = self.store.runs_of_order(&run.order).await.or_fail()?;
        let first = ids.len().saturating_sub(SIBLINGS);
        let (mut siblings, mut newest) = (Vec::new(), None);
        for id in ids.drain(first..) {
            let sibling = self.store.run(&id).await.or_fail()?;
            if RunDetails::of(&sibling)?
                .follows
                .is_some_and(|follows| follows.run == run.id)
            {
                newest = Some(id.clone());
            }
            siblings.push(SiblingRun {
                run: id,
                state: sibling.state,
                created_at: sibling.created_at,
            });
        }
        Ok((siblings, newest))
    }
}

/// What events said.
#[derive(Debug, Default)]
struct Seen {
    walls: Vec<ProbedWall>,
    bounds_kept: Option<String>,
    started: HashMap<StepName, At>,
    took: HashMap<StepName, u64>,
}

impl Seen {
    fn take_in(&mut self, event: Event) {
        match (event.kind, event.step) {
            (
                EventKind::Probe {
                    wall,
                    holds,
                    detail,
                },
                _,
            ) => {
                let probed = ProbedWall {
                    wall,
                    holds,
                    detail,
                };
                // Several probes of one wall: one that does not hold is what counts.
                match self.walls.iter_mut().find(|known| known.wall == wall) {
                    Some(known) if known.holds && !probed.holds => *known = probed,
                    Some(_) => {}
                    None => self.walls.push(probed),
                }
            }
            (EventKind::Progress { stage, message }, _) if stage == "bounds" => {
                self.bounds_kept = Some(message);
            }
            (EventKind::StepStarted { .. }, Some(step)) => {
                self.started.insert(step, event.at);
            }
            (EventKind::StepEnded { millis, .. }, Some(step)) => {
                self.took.insert(step, millis);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{WIRE_VERSION, Wall};

    #[test]
    fn a_wall_that_failed_one_of_its_probes_does_not_hold() {
        let mut seen = Seen::default();
        for (holds, detail) in [(true, "a"), (false, "b"), (true, "c")] {
            seen.take_in(Event {
                v: WIRE_VERSION,
                run: RunId::from_random(1),
                seq: EventSeq(1),
                at: At::from_millis(0),
                step: None,
                process: None,
                kind: EventKind::Probe {
                    wall: Wall::Mounts,
                    holds,
                    detail: detail.into(),
                },
            });
        }
        assert_eq!(seen.walls.len(), 1);
        assert_eq!(
            (seen.walls[0].holds, seen.walls[0].detail.as_str()),
            (false, "b")
        );
    }
}
