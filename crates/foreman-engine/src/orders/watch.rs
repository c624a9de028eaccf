//! Folders of order files: what is put there is taken in, once. Files are only ever read.
//!
//! A notice of a change is a hint to look; a look compares each file's content with what is on record.
//! So nothing depends on a notice: at start, and once in a while, everything is looked at. New content
//! makes orders, or changes those of the same file that have not started; what cannot be taken in is
//! kept as the file's fault, and never stops the other files. What others than the operator can write
//! is such a fault too: a folder's is that of each of its files ([`super::trust`]).

use super::check::{Drafted, expand};
use super::file::{self, LARGEST};
use super::record::{encode, title_of};
use super::trust::{Links, distrust, fault_of_folder, open_regular, read_up_to};
use crate::api::{OrderSource, WatchChange, Watched, WatchedFile};
use crate::engine::Engine;
use crate::failures::{OrFail, internal, io, join};
use crate::tokens;
use foreman_domain::{At, Code, Failure, OrderId, OrderState};
use foreman_store::{OrderEdit, OrderFile};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Quiet time after the last notice, so that a file that is being written is read when it is whole.
const SETTLE: Duration = Duration::from_millis(250);
/// Longest time between two looks: not every file system gives notice.
const EVERY: Duration = Duration::from_secs(20);
/// Most files of a folder that are looked at.
const MOST_FILES: usize = 2_000;
const MOST_FOLDERS: usize = 50;

/// Takes order files in until hosting ends.
pub(crate) async fn keep_watching(engine: Arc<Engine>) {
    let mut notices = Notices::new(&engine);
    loop {
        if !engine.dispatches() {
            tokio::select! {
                () = engine.queue.files.notified() => continue,
                () = tokio::time::sleep(EVERY) => continue,
                () = engine.cancel.cancelled() => return,
            }
        }
        let folders = match engine.store.watched_folders().await.or_fail() {
            Ok(folders) => folders,
            Err(error) => {
                tracing::warn!(%error, "watched folders could not be read");
                Vec::new()
            }
        };
        // Asked for notice before the look: what changes in between is noticed.
        notices.follow(&folders);
        if let Err(error) = engine.take_files(&folders).await {
            tracing::warn!(%error, "order files could not be looked at");
        }
        tokio::select! {
            () = engine.queue.files.notified() => {}
            () = tokio::time::sleep(EVERY) => {}
            () = engine.cancel.cancelled() => return,
        }
        // Until it is quiet, but not for ever.
        for _ in 0..20 {
            let more = tokio::time::timeout(SETTLE, engine.queue.files.notified()).await;
            if more.is_err() {
                break;
            }
        }
    }
}

/// The file system's notices of changes.
struct Notices {
    watcher: Option<RecommendedWatcher>,
    followed: BTreeSet<String>,
}

impl Notices {
    fn new(engine: &Arc<Engine>) -> Self {
        let told = Arc::downgrade(engine);
        let notice = move |event: notify::Result<notify::Event>| {
            let is_read = matches!(&event, Ok(event) if event.kind.is_access());
            if let Some(engine) = told.upgrade().filter(|_| !is_read) {
                engine.queue.files.notify_one();
            }
        };
        let watcher = match notify::recommended_watcher(notice) {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                tracing::warn!(%error, "no notices of changed files; folders are looked at by time");
                None
            }
        };
        Self {
            watcher,
            followed: BTreeSet::new(),
        }
    }

    fn follow(&mut self, folders: &[String]) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let wanted: BTreeSet<String> = folders.iter().cloned().collect();
        for gone in self.followed.difference(&wanted) {
            // A folder that is gone cannot be let go of, and needs not to be.
            let _ = watcher.unwatch(Path::new(gone));
        }
        self.followed
            .retain(|folder| wanted.contains(folder) && Path::new(folder).is_dir());
        for new in &wanted {
            if self.followed.contains(new) {
                continue;
            }
            match watcher.watch(Path::new(new), RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.followed.insert(new.clone())),
                Err(error) => {
                    tracing::debug!(folder = %new, %error, "no notices of changes there");
                }
            }
        }
    }
}

/// A file's content.
struct Found {
    path: String,
    name: String,
    hash: String,
    text: Result<String, String>,
}

impl Engine {
    /// Watches a folder, or no longer.
    pub async fn change_watch(&self, change: WatchChange) -> Result<Watched, Failure> {
        let given = change.folder;
        if !change.watched {
            let name = given.canonicalize().unwrap_or(given);
            let name = name.to_string_lossy().into_owned();
            if !self
                .store
                .unwatch_folder(self.epoch, &name)
                .await
                .or_fail()?
            {
                return Err(Failure::new(
                    Code::NotFound,
                    format!("the folder {name} is not watched"),
                )
                .hint("See `foreman orders watch list`."));
            }
            self.queue.files.notify_one();
            return self.watched().await;
        }
        let folder = given.canonicalize().map_err(|error| {
            Failure::new(
                Code::BadInput,
                format!("the folder {} cannot be watched: {error}", given.display()),
            )
        })?;
        if !folder.is_dir() {
            let message = format!("{} is no folder", folder.display());
            return Err(Failure::new(Code::BadInput, message));
        }
        let data = self
            .layout
            .data
            .canonicalize()
            .unwrap_or_else(|_| self.layout.data.clone());
        if folder.starts_with(&data) || data.starts_with(&folder) {
            return Err(Failure::new(
                Code::BadInput,
                format!(
                    "{} holds what agents write, or the engine's own data",
                    folder.display()
                ),
            )
            .hint("Order files start programs: watch a folder that only you write to."));
        }
        if let Some(fault) = fault_of_folder(&folder) {
            let message = format!("the folder cannot be watched: {fault}");
            return Err(Failure::new(Code::BadInput, message)
                .hint("Order files start programs: watch a folder that only you write to."));
        }
        let Some(name) = folder.to_str() else {
            let message = format!("{} has no name in UTF-8", folder.display());
            return Err(Failure::new(Code::BadInput, message));
        };
        let known = self.store.watched_folders().await.or_fail()?;
        if known.len() >= MOST_FOLDERS && !known.iter().any(|one| one == name) {
            let message = format!("at most {MOST_FOLDERS} folders can be watched");
            return Err(Failure::new(Code::BadInput, message));
        }
        self.store
            .watch_folder(self.epoch, name, At::now())
            .await
            .or_fail()?;
        self.queue.files.notify_one();
        // Said at once, whoever dispatches.
        self.take_files(&[name.to_owned()]).await?;
        let mut watched = self.watched().await?;
        if let Ok(repo) = crate::policies::open_repository(&folder).await {
            watched.warnings.push(format!(
                "{name} is inside the repository {}: an order file that is merged into it is taken in",
                repo.root().display()
            ));
        }
        Ok(watched)
    }

    /// What is watched, and what became of the files.
    pub async fn watched(&self) -> Result<Watched, Failure> {
        let folders = self.store.watched_folders().await.or_fail()?;
        let files = self.store.order_files().await.or_fail()?;
        let files = files
            .into_iter()
            .filter(|file| folders.contains(&file.folder));
        let places: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
        let looking = tokio::task::spawn_blocking(move || {
            let faults = places.iter().filter_map(|place| fault_of_folder(place));
            faults.collect::<Vec<_>>()
        });
        let faults = looking.await.map_err(join)?;
        Ok(Watched {
            files: files
                .map(|file| WatchedFile {
                    file: file.path,
                    orders: file.orders,
                    fault: file.fault,
                })
                .collect(),
            folders: folders.into_iter().map(PathBuf::from).collect(),
            warnings: faults
                .into_iter()
                .map(|fault| format!("nothing there is taken in: {fault}"))
                .collect(),
        })
    }

    /// The folders that are watched, canonical.
    pub(crate) async fn watched_places(&self) -> Result<Vec<PathBuf>, Failure> {
        let folders = self.store.watched_folders().await.or_fail()?;
        Ok(folders.into_iter().map(PathBuf::from).collect())
    }

    /// Looks at all files of these folders.
    pub(super) async fn take_files(&self, folders: &[String]) -> Result<(), Failure> {
        let _one_look_at_a_time = self.turn_at("order files").lock_owned().await;
        let mut known: BTreeMap<String, OrderFile> = self
            .store
            .order_files()
            .await
            .or_fail()?
            .into_iter()
            .map(|file| (file.path.clone(), file))
            .collect();
        for folder in folders {
            let place = PathBuf::from(folder);
            let reading = tokio::task::spawn_blocking(move || read_folder(&place));
            let found = match reading.await.map_err(join)? {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%folder, %error, "a watched folder could not be read");
                    continue;
                }
            };
            let present: BTreeSet<String> = found.iter().map(|file| file.path.clone()).collect();
            for file in found {
                let path = file.path.clone();
                if let Err(error) = self.take_file(folder, file, &present, &mut known).await {
                    tracing::warn!(file = %path, %error, "an order file could not be taken in");
                }
            }
            let gone: Vec<String> = known
                .values()
                .filter(|file| file.folder == *folder && !present.contains(&file.path))
                .filter(|file| file.fault.is_some())
                .map(|file| file.path.clone())
                .collect();
            for path in gone {
                self.store
                    .order_file_is_gone(self.epoch, &path)
                    .await
                    .or_fail()?;
            }
        }
        Ok(())
    }

    async fn take_file(
        &self,
        folder: &str,
        found: Found,
        present: &BTreeSet<String>,
        known: &mut BTreeMap<String, OrderFile>,
    ) -> Result<(), Failure> {
        if known
            .get(&found.path)
            .is_some_and(|file| file.hash == found.hash)
        {
            return Ok(());
        }
        if !known.contains_key(&found.path)
            && let Some(twin) = known
                .values()
                .find(|file| file.hash == found.hash && !file.orders.is_empty())
                .cloned()
        {
            if !present.contains(&twin.path) && !Path::new(&twin.path).exists() {
                // It got another name: what it made is known already.
                self.store
                    .move_order_file(self.epoch, &twin.path, &found.path, folder)
                    .await
                    .or_fail()?;
                known.remove(&twin.path);
                let path = found.path;
                let folder = folder.to_owned();
                known.insert(
                    path.clone(),
                    OrderFile {
                        path,
                        folder,
                        ..twin
                    },
                );
                return Ok(());
            }
            let fault = format!("its content is that of {}, which was taken in", twin.path);
            return self.note_file(folder, found, known, fault).await;
        }
        let before = known.get(&found.path).cloned();
        let made = before
            .as_ref()
            .map(|file| file.orders.clone())
            .unwrap_or_default();
        let taken = match &found.text {
            Ok(text) => self.orders_of(&found, folder, text, &made).await,
            Err(message) => Err(Failure::new(Code::BadInput, message.clone())),
        };
        let (new, edits, orders) = match taken {
            Ok(taken) => taken,
            Err(failure) if is_passing(failure.code) => return Err(failure),
            Err(failure) => {
                let fault = match failure.hint {
                    Some(hint) => format!("{}. {hint}", failure.message),
                    None => failure.message,
                };
                return self.note_file(folder, found, known, fault).await;
            }
        };
        let file = OrderFile {
            path: found.path.clone(),
            folder: folder.to_owned(),
            hash: found.hash.clone(),
            orders,
            fault: None,
            seen_at: At::now(),
        };
        let turn = self.queue.turn.lock().await;
        let taken = self
            .store
            .take_order_file(self.epoch, &file, &new, &edits)
            .await
            .or_fail();
        drop(turn);
        match taken {
            Ok(()) => {
                for order in &file.orders {
                    self.order_changed(order);
                }
                known.insert(found.path, file);
                Ok(())
            }
            // Another order has that id, or one of them has started meanwhile.
            Err(failure) if failure.code == Code::Conflict => {
                self.note_file(folder, found, known, failure.message).await
            }
            Err(failure) => Err(failure),
        }
    }

    /// What a file's new content makes and changes, with all orders that are then its own.
    async fn orders_of(
        &self,
        found: &Found,
        folder: &str,
        text: &str,
        made: &[OrderId],
    ) -> Result<
        (
            Vec<foreman_store::NewOrder>,
            Vec<(OrderId, OrderEdit)>,
            Vec<OrderId>,
        ),
        Failure,
    > {
        let source = OrderSource {
            name: found.name.clone(),
            text: text.to_owned(),
            folder: PathBuf::from(folder),
            repo: None,
        };
        let (mut fresh, mut edits) = (Vec::new(), Vec::new());
        let mut orders = made.to_vec();
        for draft in file::parse(&source)? {
            let drafted = expand(draft.clone(), rand::random())?;
            let (old, new): (Vec<_>, Vec<_>) = drafted
                .into_iter()
                .partition(|order| made.contains(&order.id));
            if old.is_empty() {
                orders.extend(new.into_iter().map(|order| order.id));
                fresh.push(draft);
                continue;
            }
            if let Some(other) = new.first() {
                let message = format!(
                    "order {} would be a new attempt beside those that the file made; the number of \
                     attempts cannot be changed",
                    other.id
                );
                return Err(Failure::new(Code::BadInput, message)
                    .hint("Write a new order with an id of its own."));
            }
            for order in old {
                if let Some(edit) = self.edit_of(&order).await? {
                    edits.push((order.id, edit));
                }
            }
        }
        let new = self.prepare_orders(fresh, Some(&found.path)).await?;
        Ok((new, edits, orders))
    }

    /// The change of an order that the file made; nothing where the file says what is on record.
    async fn edit_of(&self, order: &Drafted) -> Result<Option<OrderEdit>, Failure> {
        let stored = self.store.order(&order.id).await.or_fail()?;
        let spec = encode(&order.spec)?;
        if spec == stored.spec {
            return Ok(None);
        }
        if stored.state != OrderState::Queued || self.queue.starting().contains(&order.id) {
            let message = format!(
                "order {} has started already, so the change of its file has no effect",
                order.id
            );
            return Err(Failure::new(Code::Conflict, message)
                .hint("Write a new order with an id of its own."));
        }
        self.refuse_circles(std::slice::from_ref(order)).await?;
        Ok(Some(OrderEdit {
            repo_key: self.repo_key(order).await?,
            title: title_of(order),
            spec,
            parent: order.spec.parent.clone(),
        }))
    }

    async fn note_file(
        &self,
        folder: &str,
        found: Found,
        known: &mut BTreeMap<String, OrderFile>,
        fault: String,
    ) -> Result<(), Failure> {
        let file = OrderFile {
            orders: known
                .get(&found.path)
                .map(|file| file.orders.clone())
                .unwrap_or_default(),
            path: found.path,
            folder: folder.to_owned(),
            hash: found.hash,
            fault: Some(fault),
            seen_at: At::now(),
        };
        self.store
            .take_order_file(self.epoch, &file, &[], &[])
            .await
            .or_fail()?;
        known.insert(file.path.clone(), file);
        Ok(())
    }
}

/// Failures of this moment, not of the file: it is looked at again.
fn is_passing(code: Code) -> bool {
    matches!(
        code,
        Code::Busy | Code::DiskFull | Code::Environment | Code::Internal
    )
}

/// The order files of a folder, by name.
fn read_folder(folder: &Path) -> Result<Vec<Found>, Failure> {
    let fail = |error| io(format!("{} cannot be read", folder.display()), &error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        // What editors and writers leave while they work is not meant.
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_meant = matches!(ending, Some("toml" | "md")) && !name.starts_with(['.', '#', '~']);
        if is_meant && !path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort();
    paths.truncate(MOST_FILES);
    let fault = fault_of_folder(folder);
    paths
        .iter()
        .map(|path| found_at(path, fault.as_deref()))
        .collect()
}

/// A file's content, or why it is not taken in: its folder's fault or its own.
fn found_at(path: &Path, fault: Option<&str>) -> Result<Found, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let text = match fault {
        Some(fault) => Err(format!("{name} is not taken in: {fault}")),
        None => read_file(path, &name),
    };
    let path = path
        .to_str()
        .ok_or_else(|| internal("a path changed its name"))?
        .to_owned();
    let hash = match &text {
        Ok(text) => tokens::of_text(text),
        // Each file's own: the same fault of two files is not the same content.
        Err(message) => tokens::of_text(&format!("{path}: {message}")),
    };
    Ok(Found {
        path,
        name: name.into_owned(),
        hash,
        text,
    })
}

fn read_file(path: &Path, name: &str) -> Result<String, String> {
    let fail = |error| format!("{name} cannot be read: {error}");
    let (file, found) = open_regular(path, Links::Refuse).map_err(fail)?;
    if let Some(why) = distrust(&found) {
        return Err(format!("{name} is not taken in: it {why}"));
    }
    let bytes = read_up_to(file, LARGEST as u64).map_err(fail)?;
    String::from_utf8(bytes).map_err(|_| format!("{name} is no text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn texts(folder: &Path) -> Vec<Result<String, String>> {
        let found = read_folder(folder).unwrap();
        found.into_iter().map(|file| file.text).collect()
    }

    #[test]
    fn files_that_others_can_write_and_links_and_pipes_are_faults_beside_good_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        for name in ["a.toml", "b.toml"] {
            std::fs::write(path(name), "text").unwrap();
            mode(&path(name), 0o644);
        }
        mode(&path("b.toml"), 0o664);
        std::os::unix::fs::symlink(path("a.toml"), path("c.toml")).unwrap();
        nix::unistd::mkfifo(&path("d.toml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let found = texts(dir.path());
        assert_eq!(found[0].as_deref(), Ok("text"));
        for (place, word) in [(1, "mode 664"), (2, "link"), (3, "no regular file")] {
            let fault = found[place].as_ref().unwrap_err();
            assert!(fault.contains(word), "{fault}");
        }

        mode(dir.path(), 0o777);
        let found = read_folder(dir.path()).unwrap();
        assert!(found.iter().all(|file| file.text.is_err()));
        let hashes: BTreeSet<&str> = found.iter().map(|file| file.hash.as_str()).collect();
        assert_eq!(hashes.len(), found.len(), "two files are taken for one");
    }
}
