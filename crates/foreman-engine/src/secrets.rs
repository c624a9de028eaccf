//! Secrets of the operator: kept by name, handed to a run by name, never said.
//!
//! A value comes in with `secret.set`, is kept in the keyring of the operator's session or, only where the
//! operator says so, in a file, and goes out in two ways: to a shim that is being started, in memory
//! ([`foreman_shim::secrets`]), and into what looks for it in a run's changes. It is in no answer, no event,
//! no error and no record of a run. Each value that is set has a version of its own, so that it can be told
//! later whether a secret still is what a run was handed.

mod changes;
mod file;
mod keyring;

pub(crate) use changes::no_secret_in;

use crate::api::{SecretRef, SecretSet, SecretStore, SecretView, Secrets};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::programs::agent_key;
use file::FileStore;
use foreman_domain::{At, Code, Failure, Host, Protocol, Subject};
use foreman_policy::{SecretUse, is_secret_name};
use foreman_shim::protocol::Key;
use foreman_shim::redact::why_unfit;
use foreman_shim::secrets::{MOST, Secret};
use std::collections::BTreeMap;

/// Most secrets that are kept in one place.
const MOST_KEPT: usize = 1_000;

/// A value as it is kept.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub value: String,
    /// Changes with every value that is set.
    pub version: String,
    pub set_at: At,
}

/// Never with the value in it.
impl std::fmt::Debug for Kept {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Kept").field(&self.version).finish()
    }
}

impl Engine {
    fn secrets_file(&self) -> FileStore {
        FileStore::at(self.layout.state().join("secrets.json"))
    }

    /// Keeps a value under a name, in place of the one before.
    pub async fn set_secret(&self, request: SecretSet) -> Result<SecretView, Failure> {
        let SecretSet { name, value, store } = request;
        check_name(&name)?;
        if let Some(why) = why_unfit(&value.0) {
            return Err(Failure::new(
                Code::BadInput,
                format!("the value of {name} {why}"),
            ));
        }
        let kept = Kept {
            value: value.0,
            version: format!("{:032x}", rand::random::<u128>()),
            set_at: At::now(),
        };
        let _turn = self.turn_at("secrets").lock_owned().await;
        let set_at = kept.set_at;
        let file = self.secrets_file();
        match store {
            SecretStore::Keyring => {
                if file.get(&name)?.is_some() {
                    return Err(elsewhere(&name, "file"));
                }
                keyring::set(&name, &kept).await?;
            }
            SecretStore::File => {
                // A keyring that does not answer has nothing that could be meant.
                if matches!(keyring::get(&name).await, Ok(Some(_))) {
                    return Err(elsewhere(&name, "keyring"));
                }
                file.set(&name, kept)?;
            }
        }
        Ok(SecretView {
            name,
            store,
            set_at,
        })
    }

    /// Names of all secrets.
    pub async fn list_secrets(&self) -> Result<Secrets, Failure> {
        let view = |store| {
            move |(name, set_at)| SecretView {
                name,
                store,
                set_at,
            }
        };
        let kept = self.secrets_file().names()?;
        let mut secrets: Vec<_> = kept.into_iter().map(view(SecretStore::File)).collect();
        let keyring = match keyring::names().await {
            Ok(names) => {
                secrets.extend(names.into_iter().map(view(SecretStore::Keyring)));
                None
            }
            Err(failure) => Some(failure.message),
        };
        secrets.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Secrets { secrets, keyring })
    }

    /// Forgets a secret, wherever it is kept.
    pub async fn remove_secret(&self, request: SecretRef) -> Result<SecretView, Failure> {
        let name = request.name;
        check_name(&name)?;
        let _turn = self.turn_at("secrets").lock_owned().await;
        if let Some(kept) = self.secrets_file().remove(&name)? {
            return Ok(SecretView {
                name,
                store: SecretStore::File,
                set_at: kept.set_at,
            });
        }
        match keyring::remove(&name).await {
            Ok(Some(set_at)) => Ok(SecretView {
                name,
                store: SecretStore::Keyring,
                set_at,
            }),
            Ok(None) => Err(unknown(&name)),
            Err(failure) => Err(not_looked_up(&name, &failure)),
        }
    }

    /// The value of a secret. For whoever hands it on: a shim, and later what forwards for a run.
    pub(crate) async fn secret(&self, name: &str) -> Result<Kept, Failure> {
        if let Some(kept) = self.secrets_file().get(name)? {
            return Ok(kept);
        }
        match keyring::get(name).await {
            Ok(Some(kept)) => Ok(kept),
            Ok(None) => Err(unknown(name)),
            Err(failure) => Err(not_looked_up(name, &failure)),
        }
    }

    /// The secrets that a run is to be handed, with their values, and the version of each.
    pub(crate) async fn handed(
        &self,
        named: &[SecretUse],
    ) -> Result<(Vec<Secret>, BTreeMap<String, String>), Failure> {
        if named.len() > MOST {
            return Err(Failure::new(
                Code::BadInput,
                format!("a run can be handed at most {MOST} secrets"),
            ));
        }
        let (mut secrets, mut versions) = (Vec::new(), BTreeMap::new());
        for use_as in named {
            let Kept { value, version, .. } = self.secret(&use_as.name).await?;
            versions.insert(use_as.name.clone(), version);
            let use_as = use_as.clone();
            secrets.push(Secret { use_as, value });
        }
        Ok((secrets, versions))
    }
}

/// What an operator must know about a run that was handed secrets; none where there are none.
pub(crate) fn notice(secrets: &[SecretUse]) -> Option<String> {
    let names: Vec<&str> = secrets.iter().map(|secret| secret.name.as_str()).collect();
    let what = match names.as_slice() {
        [] => return None,
        [one] => format!("the secret {one}"),
        several => format!("the secrets {}", several.join(", ")),
    };
    Some(format!(
        "This run has {what} in its environment, which may be sent to any host that the run reaches"
    ))
}

impl RunDetails {
    /// As [`notice`], of this run.
    pub fn secrets_notice(&self) -> Option<String> {
        notice(&self.secrets)
    }

    /// The same on a card about this subject, or where the run is shown when there is none: with a word about
    /// a key, where it is sent there.
    pub fn notice_about(&self, subject: Option<&Subject>) -> Option<String> {
        let is_sent = |key: &&Key| match subject {
            None => true,
            Some(Subject::Egress {
                protocol: Protocol::Tcp,
                host: Host::Name(host),
                port,
                ..
            }) => *host == key.host && *port == key.port,
            Some(_) => false,
        };
        let key = self.key.as_ref().filter(is_sent).map(agent_key::notice);
        let sentences: Vec<_> = self.secrets_notice().into_iter().chain(key).collect();
        (!sentences.is_empty()).then(|| sentences.join(". "))
    }
}

fn check_name(name: &str) -> Result<(), Failure> {
    if is_secret_name(name) {
        return Ok(());
    }
    Err(
        Failure::new(Code::BadInput, "this is not a name of a secret").hint(
            "A name has letters, digits and underscores, does not begin with a digit, and is at most 64 \
             long.",
        ),
    )
}

fn unknown(name: &str) -> Failure {
    Failure::new(Code::NotFound, format!("there is no secret {name}"))
        .hint(format!("`foreman secret set {name}` keeps one."))
}

fn not_looked_up(name: &str, failure: &Failure) -> Failure {
    let message = format!(
        "there is no secret {name} in the file store, and {}",
        failure.message
    );
    Failure::new(failure.code, message).hint(format!(
        "`foreman secret set {name} --store file` keeps it in a file of yours, not encrypted."
    ))
}

fn elsewhere(name: &str, place: &str) -> Failure {
    Failure::new(
        Code::Conflict,
        format!("the secret {name} is kept in the {place} store already"),
    )
    .hint(format!(
        "Replace it there (`--store {place}`), or remove it first: `foreman secret remove {name}`."
    ))
}
