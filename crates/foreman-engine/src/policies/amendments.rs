//! Recorded decisions of all runs, and what came of them.

use crate::api::{AmendmentList, AmendmentView, Amendments};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use crate::policies::open_repository;
use crate::policies::paths::from_root;
use crate::project_file::NAME;
use crate::socket_rules;
use foreman_domain::{At, Failure, RunId, Scope};
use foreman_policy::{Layer, Rule, parse_policy};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Decisions that are listed.
const MOST: u32 = 1_000;

impl Engine {
    /// Decisions, newest first.
    pub async fn list_amendments(&self, request: AmendmentList) -> Result<Amendments, Failure> {
        let stored = self.store.amendments(request.all, MOST).await.or_fail()?;
        let mut amendments = Vec::with_capacity(stored.len());
        // Several decisions are of one run, and several runs of one repository.
        let mut runs: HashMap<RunId, (String, PathBuf)> = HashMap::new();
        let mut written: HashMap<PathBuf, Vec<Rule>> = HashMap::new();
        for one in stored {
            let id = one.amendment.id.run();
            let (title, repo) = match runs.get(id) {
                Some(known) => known.clone(),
                None => {
                    let run = self.store.run(id).await.or_fail()?;
                    let found = (run.title.clone(), RunDetails::of(&run)?.repo);
                    runs.insert(id.clone(), found.clone());
                    found
                }
            };
            let mut project_written = false;
            if let (Scope::Project, Some(rule)) = (one.amendment.scope, &one.rule) {
                if !written.contains_key(&repo) {
                    let rules = self.written_in(&repo).await;
                    written.insert(repo.clone(), rules);
                }
                let known = written.get(&repo).into_iter().flatten();
                project_written = known.into_iter().any(|known| is_same(known, rule));
            }
            amendments.push(AmendmentView {
                repo,
                run_title: title,
                amendment: one.amendment,
                hits: one.hits,
                last_hit_at: one.last_hit,
                project_written,
            });
        }
        Ok(Amendments { amendments })
    }

    /// The rules of a repository's policy file; none where it cannot be read now.
    async fn written_in(&self, repo: &Path) -> Vec<Rule> {
        let Ok(repo) = open_repository(repo).await else {
            return Vec::new();
        };
        let Ok(Some(file)) = self.project_file(&repo).await else {
            return Vec::new();
        };
        match parse_policy(NAME, &file.text, Layer::Project) {
            Ok(policy) => {
                let egress = policy.egress.into_iter().map(Rule::Egress);
                let own = self.layout.own_places();
                let sockets = socket_rules::resolved(policy.sockets, own).await;
                let sockets = sockets.map_or_else(|_| Vec::new(), |(sockets, _)| sockets);
                egress
                    .chain(from_root(policy.paths).into_iter().map(Rule::Path))
                    .chain(sockets.into_iter().map(Rule::Socket))
                    .collect()
            }
            Err(_) => Vec::new(),
        }
    }

    /// Lets decisions lapse whose time is over. Their rules count for nothing by then, wherever they are.
    pub async fn lapse_expired(&self) -> Result<(), Failure> {
        let over = self.store.lapse_expired(self.epoch, At::now());
        for amendment in over.await.or_fail()? {
            tracing::info!(amendment = %amendment.id, "a decision lapsed");
            self.news.tell(amendment.id.run());
        }
        Ok(())
    }
}

/// Whether two rules open the same, wherever they come from.
fn is_same(one: &Rule, other: &Rule) -> bool {
    let plain = |rule: &Rule| {
        let mut rule = rule.clone();
        *rule.origin_mut() = one.origin().clone();
        rule
    };
    plain(one) == plain(other)
}
