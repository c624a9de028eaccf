//! Whether what a run changed says a secret that it was handed.

use crate::details::RunDetails;
use crate::engine::Engine;
use crate::review::git;
use foreman_domain::{Code, Failure, sanitize_line};
use foreman_shim::redact::Redactor;
use std::collections::BTreeMap;

/// Places that are named for one secret.
const NAMED: usize = 3;

/// What looks for the secrets of a run, and what cannot be looked for.
pub(crate) struct Watch {
    pub redactor: Redactor,
    unknown: Vec<String>,
}

impl Engine {
    /// Looks the secrets of a run up again. One that is not what the run was handed cannot be looked for.
    pub(crate) async fn secrets_of(&self, details: &RunDetails) -> Watch {
        let mut values = BTreeMap::new();
        let mut unknown = Vec::new();
        for secret in &details.secrets {
            let name = &secret.name;
            let why = match self.secret(name).await {
                Ok(kept) if details.secret_versions.get(name) == Some(&kept.version) => {
                    values.insert(name.clone(), kept.value);
                    continue;
                }
                Ok(_) => "it has been set anew since".to_owned(),
                Err(failure) => failure.message,
            };
            // A run that never had it cannot say it.
            if details.secret_versions.contains_key(name) {
                unknown.push(format!(
                    "whether this change contains the secret {name} cannot be told: {why}"
                ));
            }
        }
        let pairs = values.iter();
        Watch {
            redactor: Redactor::of(pairs.map(|(name, value)| (name.as_str(), value.as_str()))),
            unknown,
        }
    }

    /// What a reviewer must know about secrets in the commits up to `head`: sentences; none when there is
    /// nothing to say.
    pub(crate) async fn secrets_in(
        &self,
        details: &RunDetails,
        head: &str,
    ) -> Result<Vec<String>, Failure> {
        if details.secrets.is_empty() {
            return Ok(Vec::new());
        }
        let Watch { redactor, unknown } = self.secrets_of(details).await;
        let mut sentences = unknown;
        if redactor.is_idle() {
            return Ok(sentences);
        }
        let (looking, head) = (redactor.clone(), head.to_owned());
        let (found, unread) = git(details, move |repo, details| {
            let mut found = BTreeMap::<String, Vec<String>>::new();
            let unread = repo.each_content(&details.worktree, &head, &mut |place, bytes| {
                for name in looking.names_in(bytes) {
                    let places = found.entry(name).or_default();
                    if !places.iter().any(|known| known == place) {
                        places.push(place.to_owned());
                    }
                }
            })?;
            Ok((found, unread))
        })
        .await?;
        for (name, places) in found {
            let named: Vec<_> = places
                .iter()
                .take(NAMED)
                .map(|place| redactor.text(&sanitize_line(place)).into_owned())
                .collect();
            let more = match places.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            sentences.push(format!(
                "this change contains the secret {name} ({}{more})",
                named.join(", ")
            ));
        }
        let unread = unread.iter().take(NAMED);
        sentences.extend(unread.map(|path| {
            let path = redactor.text(&sanitize_line(path)).into_owned();
            format!("whether {path} contains a secret cannot be told: it is too large to be looked through")
        }));
        Ok(sentences)
    }
}

/// Refuses to give on what says a secret, unless the operator says so.
pub(crate) fn no_secret_in(
    sentences: &[String],
    is_meant: bool,
    what: &str,
) -> Result<(), Failure> {
    let Some(first) = sentences.first().filter(|_| !is_meant) else {
        return Ok(());
    };
    let more = match sentences.len() {
        1 => String::new(),
        many => format!(", and {} more", many - 1),
    };
    Err(
        Failure::new(Code::Conflict, format!("not {what}: {first}{more}")).hint(
            "A secret that was given away must be replaced where it counts. To take the change over all \
             the same, say --with-secret.",
        ),
    )
}
