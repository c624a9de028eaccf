//! The keyring of the operator's session: the Secret Service of the session bus, as far as it is needed
//! here. A keyring that is locked asks the operator by itself, with a prompt that is waited for.
//!
//! Values cross the bus as they are ("plain"): who can listen to the session bus of this account can ask the
//! keyring itself.

use super::{Kept, MOST_KEPT};
use foreman_domain::{At, Code, Failure};
use futures::StreamExt;
use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;
use zbus::zvariant::{ObjectPath, OwnedObjectPath, OwnedValue, Value};
use zbus::{Connection, Proxy};

const SERVICE: &str = "org.freedesktop.secrets";
const AT: &str = "/org/freedesktop/secrets";
const DEFAULT: &str = "/org/freedesktop/secrets/aliases/default";
const OF_SERVICE: &str = "org.freedesktop.Secret.Service";
const OF_COLLECTION: &str = "org.freedesktop.Secret.Collection";
const OF_ITEM: &str = "org.freedesktop.Secret.Item";
const OF_PROMPT: &str = "org.freedesktop.Secret.Prompt";
/// What marks our items, beside the name of each.
const APPLICATION: (&str, &str) = ("application", "foreman");
const NAME: &str = "secret";
const VERSION: &str = "version";
/// Longest wait, with the operator asked for a password.
const PATIENCE: Duration = Duration::from_secs(120);

/// A secret as it crosses the bus: session, parameters, value, type.
type Crossing = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);

/// Why a keyring did not do what was asked. Never with what was kept.
#[derive(Debug)]
enum Trouble {
    Absent,
    StaysLocked,
    NoCollection,
    Refused,
}

/// Keeps a value under a name, in place of the one before.
pub(super) async fn set(name: &str, kept: &Kept) -> Result<(), Failure> {
    in_time(async {
        let keyring = Keyring::open().await?;
        let before = keyring.find(Some(name)).await?;
        let collection = keyring.at(DEFAULT, OF_COLLECTION).await?;
        let Ok(is_locked) = collection.get_property::<bool>("Locked").await else {
            return Err(Trouble::NoCollection);
        };
        if is_locked {
            keyring.unlock(DEFAULT).await?;
        }
        let attributes =
            HashMap::from([APPLICATION, (NAME, name), (VERSION, kept.version.as_str())]);
        let label = format!("Foreman: {name}");
        let properties: HashMap<&str, Value<'_>> = HashMap::from([
            ("org.freedesktop.Secret.Item.Label", Value::from(label)),
            (
                "org.freedesktop.Secret.Item.Attributes",
                Value::from(attributes),
            ),
        ]);
        let crossing = (
            &keyring.session,
            Vec::<u8>::new(),
            kept.value.as_bytes(),
            "text/plain",
        );
        let (item, prompt): (OwnedObjectPath, OwnedObjectPath) = collection
            .call("CreateItem", &(properties, crossing, false))
            .await
            .map_err(|_| Trouble::Refused)?;
        if item.as_str() == "/" {
            keyring.prompt(&prompt).await?;
        }
        // Only now: the version is an attribute, so the new one is another item.
        for item in before {
            keyring.delete(&item).await?;
        }
        Ok(())
    })
    .await
}

/// The value of a name.
pub(super) async fn get(name: &str) -> Result<Option<Kept>, Failure> {
    in_time(async {
        let keyring = Keyring::open().await?;
        // Where an engine died between a new item and the removal of the old one, there are two.
        let mut newest: Option<(u64, OwnedObjectPath)> = None;
        for path in keyring.find(Some(name)).await? {
            let created = keyring.property::<u64>(&path, "Created").await?;
            if newest.as_ref().is_none_or(|(known, _)| created >= *known) {
                newest = Some((created, path));
            }
        }
        let Some((_, path)) = newest else {
            return Ok(None);
        };
        if keyring.property::<bool>(&path, "Locked").await? {
            keyring.unlock(path.as_str()).await?;
        }
        let item = keyring.at(path.as_str(), OF_ITEM).await?;
        let (_, _, value, _): Crossing = item
            .call("GetSecret", &(&keyring.session,))
            .await
            .map_err(|_| Trouble::StaysLocked)?;
        let value = String::from_utf8(value).map_err(|_| Trouble::Refused)?;
        let version = keyring.attributes(&path).await?.remove(VERSION);
        Ok(Some(Kept {
            value,
            version: version.unwrap_or_default(),
            set_at: keyring.set_at(&path).await?,
        }))
    })
    .await
}

/// Names of all of ours.
pub(super) async fn names() -> Result<Vec<(String, At)>, Failure> {
    in_time(async {
        let keyring = Keyring::open().await?;
        let mut names = Vec::new();
        for path in keyring.find(None).await?.into_iter().take(MOST_KEPT) {
            let name = keyring.attributes(&path).await?.remove(NAME);
            if let Some(name) = name.filter(|name| foreman_policy::is_secret_name(name)) {
                names.push((name, keyring.set_at(&path).await?));
            }
        }
        Ok(names)
    })
    .await
}

/// Forgets a name; when it was set.
pub(super) async fn remove(name: &str) -> Result<Option<At>, Failure> {
    in_time(async {
        let keyring = Keyring::open().await?;
        let mut set_at = None;
        for path in keyring.find(Some(name)).await? {
            set_at = Some(keyring.set_at(&path).await?);
            if keyring.property::<bool>(&path, "Locked").await? {
                keyring.unlock(path.as_str()).await?;
            }
            keyring.delete(&path).await?;
        }
        Ok(set_at)
    })
    .await
}

/// A session with the service.
struct Keyring {
    bus: Connection,
    session: OwnedObjectPath,
}

impl Keyring {
    async fn open() -> Result<Self, Trouble> {
        let bus = Connection::session().await.map_err(|_| Trouble::Absent)?;
        let service = Proxy::new(&bus, SERVICE, AT, OF_SERVICE)
            .await
            .map_err(|_| Trouble::Absent)?;
        let opened: Result<(OwnedValue, OwnedObjectPath), _> = service
            .call("OpenSession", &("plain", Value::from("")))
            .await;
        let (_, session) = opened.map_err(|_| Trouble::Absent)?;
        drop(service);
        Ok(Self { bus, session })
    }

    async fn at<'a>(&'a self, path: &'a str, of: &'static str) -> Result<Proxy<'a>, Trouble> {
        let path = ObjectPath::try_from(path).map_err(|_| Trouble::Refused)?;
        zbus::proxy::Builder::new(&self.bus)
            .destination(SERVICE)
            .and_then(|proxy| proxy.path(path))
            .and_then(|proxy| proxy.interface(of))
            .map_err(|_| Trouble::Refused)?
            // What is asked once needs no copy that follows.
            .cache_properties(zbus::proxy::CacheProperties::No)
            .build()
            .await
            .map_err(|_| Trouble::Refused)
    }

    async fn find(&self, name: Option<&str>) -> Result<Vec<OwnedObjectPath>, Trouble> {
        let mut attributes = HashMap::from([APPLICATION]);
        if let Some(name) = name {
            attributes.insert(NAME, name);
        }
        let service = self.at(AT, OF_SERVICE).await?;
        let (unlocked, locked): (Vec<OwnedObjectPath>, Vec<OwnedObjectPath>) = service
            .call("SearchItems", &(attributes,))
            .await
            .map_err(|_| Trouble::Refused)?;
        Ok(unlocked.into_iter().chain(locked).collect())
    }

    async fn property<T>(&self, item: &OwnedObjectPath, name: &str) -> Result<T, Trouble>
    where
        T: TryFrom<OwnedValue>,
        T::Error: Into<zbus::Error>,
    {
        let item = self.at(item.as_str(), OF_ITEM).await?;
        item.get_property(name).await.map_err(|_| Trouble::Refused)
    }

    async fn attributes(&self, item: &OwnedObjectPath) -> Result<HashMap<String, String>, Trouble> {
        self.property(item, "Attributes").await
    }

    async fn set_at(&self, item: &OwnedObjectPath) -> Result<At, Trouble> {
        let seconds = self.property::<u64>(item, "Modified").await?;
        let millis = i64::try_from(seconds).unwrap_or(i64::MAX);
        Ok(At::from_millis(millis.saturating_mul(1_000)))
    }

    async fn unlock(&self, path: &str) -> Result<(), Trouble> {
        let path = ObjectPath::try_from(path).map_err(|_| Trouble::Refused)?;
        let service = self.at(AT, OF_SERVICE).await?;
        let (_, prompt): (Vec<OwnedObjectPath>, OwnedObjectPath) = service
            .call("Unlock", &(vec![path],))
            .await
            .map_err(|_| Trouble::StaysLocked)?;
        self.prompt(&prompt).await
    }

    async fn delete(&self, item: &OwnedObjectPath) -> Result<(), Trouble> {
        let item = self.at(item.as_str(), OF_ITEM).await?;
        let prompt: OwnedObjectPath = item
            .call("Delete", &())
            .await
            .map_err(|_| Trouble::Refused)?;
        self.prompt(&prompt).await
    }

    /// Shows a prompt, where the service wants one, and waits until it is answered.
    async fn prompt(&self, path: &OwnedObjectPath) -> Result<(), Trouble> {
        if path.as_str() == "/" {
            return Ok(());
        }
        let prompt = self.at(path.as_str(), OF_PROMPT).await?;
        let mut answers = prompt
            .receive_signal("Completed")
            .await
            .map_err(|_| Trouble::StaysLocked)?;
        prompt
            .call::<_, _, ()>("Prompt", &("",))
            .await
            .map_err(|_| Trouble::StaysLocked)?;
        let answer = answers.next().await.ok_or(Trouble::StaysLocked)?;
        let answer: Result<(bool, OwnedValue), _> = answer.body().deserialize();
        match answer {
            Ok((false, _)) => Ok(()),
            Ok((true, _)) | Err(_) => Err(Trouble::StaysLocked),
        }
    }
}

async fn in_time<T>(asking: impl Future<Output = Result<T, Trouble>>) -> Result<T, Failure> {
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(trouble)) => Err(failure(match trouble {
            Trouble::Absent => {
                "no keyring service answers on the session bus of this account, as is usual on a \
                 machine without a desktop"
            }
            Trouble::StaysLocked => "the keyring stays locked: it was not unlocked when it asked",
            Trouble::NoCollection => "the keyring has no collection to keep secrets in",
            Trouble::Refused => "the keyring refused",
        })),
        Err(_) => Err(failure("the keyring did not answer within two minutes")),
    }
}

fn failure(message: &str) -> Failure {
    Failure::new(Code::Environment, message).hint(
        "Where there is no keyring, `foreman secret set NAME --store file` keeps it in the data directory \
         instead: in a file that only your account can read, not encrypted.",
    )
}
