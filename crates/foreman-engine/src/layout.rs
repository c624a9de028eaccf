//! Where everything of a data directory is, and making those places with the right permissions.

use crate::HostOptions;
use crate::file_system::refuse_network;
use foreman_domain::{Code, Failure, RunId};
use foreman_shim::protocol::RunFiles;
use sha2::{Digest, Sha256};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Longest path of a socket: the kernel's field has 108 bytes, one of them the terminator.
const LONGEST_SOCKET_PATH: usize = 107;
/// Length of the longest file name among the sockets: `<run>.sock` and `control.sock`.
const LONGEST_SOCKET_NAME: usize = "control.sock".len();

/// The places of one data directory.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The data directory.
    pub data: PathBuf,
    /// Where sockets are.
    pub sockets: PathBuf,
}

impl Layout {
    /// Makes the directories and says where they are.
    pub fn prepare(options: &HostOptions) -> Result<Self, Failure> {
        if !options.data_dir.exists() {
            refuse_new_one_in_a_repository(&options.data_dir)?;
        }
        private_dir(&options.data_dir)?;
        let data = options
            .data_dir
            .canonicalize()
            .map_err(|error| unusable("the data directory", &options.data_dir, &error))?;
        owned_by_us(&data)?;
        refuse_network(&data)?;
        let sockets = socket_dir(&data, options.runtime_dir.as_deref())?;
        let layout = Self { data, sockets };
        for dir in [
            layout.state(),
            layout.runs(),
            layout.marks(),
            layout.shadows(),
            layout.worktrees(),
            layout.homes(),
            layout.checks(),
        ] {
            private_dir(&dir)?;
        }
        Ok(layout)
    }

    /// Canonical folders of this and of other engines, which no cage may show.
    pub fn own_places(&self) -> Vec<PathBuf> {
        let sockets = self.sockets.parent().map(Path::to_owned);
        let places = [Some(self.data.clone()), sockets].into_iter().flatten();
        places
            .filter_map(|place| place.canonicalize().ok())
            .collect()
    }

    /// Database, journals, locks: never reachable from a cage.
    pub fn state(&self) -> PathBuf {
        self.data.join("state")
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.state().join("foreman.db")
    }

    /// The file whose lock makes a process the engine.
    pub fn lock(&self) -> PathBuf {
        self.state().join("engine.lock")
    }

    /// What the last look at this machine's walls found.
    pub fn doctor_findings(&self) -> PathBuf {
        self.state().join("doctor.json")
    }

    /// Every run's own folder.
    pub fn runs(&self) -> PathBuf {
        self.state().join("runs")
    }

    /// A file for each run whose journal the engine has open for writing.
    pub fn marks(&self) -> PathBuf {
        self.state().join("writing")
    }

    /// That of one run.
    pub fn mark(&self, run: &RunId) -> PathBuf {
        self.marks().join(run.as_str())
    }

    /// Git directories that runs work on.
    pub fn shadows(&self) -> PathBuf {
        self.data.join("shadows")
    }

    /// Worktrees of all repositories.
    pub fn worktrees(&self) -> PathBuf {
        self.data.join("worktrees")
    }

    /// What agents keep of their homes, a folder for each run that has an agent.
    pub fn homes(&self) -> PathBuf {
        self.data.join("homes")
    }

    /// That of one run.
    pub fn home(&self, run: &RunId) -> PathBuf {
        self.homes().join(run.as_str())
    }

    /// Copies of commits that are being checked.
    pub fn checks(&self) -> PathBuf {
        self.data.join("checks")
    }

    /// The copy that is being checked for a run.
    pub fn check_copy(&self, run: &RunId) -> PathBuf {
        self.checks().join(run.as_str())
    }

    /// The socket that the engine listens on.
    pub fn control_socket(&self) -> PathBuf {
        self.sockets.join("control.sock")
    }

    /// Folder of a run.
    pub fn run(&self, run: &RunId) -> PathBuf {
        self.runs().join(run.as_str())
    }

    /// What the shim is started with.
    pub fn spec(&self, run: &RunId) -> PathBuf {
        self.run(run).join("spec.json")
    }

    /// The git directory that a run works on.
    pub fn shadow(&self, run: &RunId) -> PathBuf {
        self.shadows().join(run.as_str())
    }

    /// The worktree of a run of the repository with this slug.
    pub fn worktree(&self, slug: &str, run: &RunId) -> PathBuf {
        self.worktrees().join(slug).join(run.as_str())
    }

    /// Files that a run's shim and the engine share.
    pub fn files(&self, run: &RunId) -> RunFiles {
        let dir = self.run(run);
        RunFiles {
            journal: dir.join("journal.ndjson"),
            exit: dir.join("exit.json"),
            socket: self.sockets.join(format!("{run}.sock")),
            identity: dir.join("identity.json"),
            bundle: dir.join("harvest.bundle"),
            log: dir.join("shim.log"),
        }
    }
}

/// A directory that only this user can enter, made with everything above it.
pub(crate) fn private_dir(path: &Path) -> Result<(), Failure> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(path)
        .map_err(|error| unusable("the directory", path, &error))
}

fn socket_dir(data: &Path, runtime: Option<&Path>) -> Result<PathBuf, Failure> {
    let hash = Sha256::digest(data.as_os_str().as_encoded_bytes());
    let name: String = hash
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let runtime = runtime.map(|runtime| runtime.join("foreman").join(name));
    let own = data.join("run");
    // A session that was taken over from another user (`su`) still names that user's directory.
    if let Some(dir) = runtime.as_ref().filter(|dir| fits(dir))
        && prepare_sockets(dir).is_ok()
    {
        return Ok(dir.clone());
    }
    if !fits(&own) {
        let tried: Vec<_> = runtime
            .iter()
            .chain([&own])
            .map(|dir| dir.display().to_string())
            .collect();
        return Err(Failure::new(
            Code::Environment,
            format!("the path for sockets is too long: {}", tried.join(", ")),
        )
        .hint("Set XDG_RUNTIME_DIR or FOREMAN_DATA_DIR to a directory with a shorter path."));
    }
    prepare_sockets(&own)?;
    Ok(own)
}

fn prepare_sockets(dir: &Path) -> Result<(), Failure> {
    private_dir(dir)?;
    for place in dir.parent().into_iter().chain([dir]) {
        refuse_link(place)?;
        owned_by_us(place)?;
    }
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(dir, mode)
        .map_err(|error| unusable("the directory for sockets", dir, &error))
}

/// Before anything is made: a data directory in a repository would be that one's untracked files.
fn refuse_new_one_in_a_repository(data: &Path) -> Result<(), Failure> {
    let around = data.ancestors().find(|dir| dir.join(".git").exists());
    around.map_or(Ok(()), |around| Err(inside_a_repository(data, around)))
}

/// Why no run can be made with this data directory.
pub(crate) fn inside_a_repository(data: &Path, around: &Path) -> Failure {
    Failure::new(
        Code::Environment,
        format!(
            "the data directory {} lies inside the repository {}",
            data.display(),
            around.display()
        ),
    )
    .hint("Set FOREMAN_DATA_DIR to a directory outside any repository.")
}

fn fits(dir: &Path) -> bool {
    dir.as_os_str().len() + 1 + LONGEST_SOCKET_NAME.max(RunId::LEN + ".sock".len())
        <= LONGEST_SOCKET_PATH
}

/// A link would lead to a directory that somebody else chose.
fn refuse_link(path: &Path) -> Result<(), Failure> {
    let seen = std::fs::symlink_metadata(path)
        .map_err(|error| unusable("the directory for sockets", path, &error))?;
    if seen.is_dir() {
        return Ok(());
    }
    Err(Failure::new(
        Code::Environment,
        format!(
            "{} is a link, and sockets are kept in no place that a link names",
            path.display()
        ),
    )
    .hint("Remove it, or set XDG_RUNTIME_DIR to a directory of your own."))
}

/// Another user's directory would hand that user our sockets and journals.
fn owned_by_us(path: &Path) -> Result<(), Failure> {
    let owner = std::fs::metadata(path)
        .map_err(|error| unusable("the directory", path, &error))?
        .uid();
    let me = nix::unistd::geteuid().as_raw();
    if owner == me {
        return Ok(());
    }
    Err(Failure::new(
        Code::Environment,
        format!(
            "{} belongs to another user (uid {owner}, you are {me})",
            path.display()
        ),
    )
    .hint("Name a directory of your own in FOREMAN_DATA_DIR."))
}

/// A place that cannot be used.
pub(crate) fn unusable(what: &str, path: &Path, error: &io::Error) -> Failure {
    let code = if is_full(error) {
        Code::DiskFull
    } else {
        Code::Environment
    };
    let failure = Failure::new(
        code,
        format!("{what} {} cannot be used: {error}", path.display()),
    );
    match code {
        Code::DiskFull => failure.hint("Free some space there and try again."),
        _ => failure.hint("Make it one that you can write, or set FOREMAN_DATA_DIR to another."),
    }
}

/// The disk or the quota is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(data_dir: PathBuf, runtime_dir: Option<PathBuf>) -> HostOptions {
        HostOptions {
            data_dir,
            runtime_dir,
            shim_program: None,
        }
    }

    #[test]
    fn all_places_are_private_and_sockets_are_apart_per_data_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let runtime = scratch.path().join("xdg");
        let one = Layout::prepare(&options(scratch.path().join("a"), Some(runtime.clone())));
        let two = Layout::prepare(&options(scratch.path().join("b"), Some(runtime)));
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_ne!(one.control_socket(), two.control_socket());
        for dir in [one.state(), one.runs(), one.worktrees(), one.sockets] {
            let mode = std::fs::metadata(&dir).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", dir.display());
        }
    }

    #[test]
    fn a_directory_for_sockets_that_a_link_names_is_not_used() {
        let scratch = tempfile::tempdir().unwrap();
        let (elsewhere, runtime) = (scratch.path().join("e"), scratch.path().join("xdg"));
        for dir in [&elsewhere, &runtime] {
            std::fs::create_dir(dir).unwrap();
        }
        std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(&elsewhere, runtime.join("foreman")).unwrap();
        let layout = Layout::prepare(&options(scratch.path().join("d"), Some(runtime))).unwrap();
        assert_eq!(layout.sockets, layout.data.join("run"));
        let mode = elsewhere.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "what the link names was changed");
    }

    #[test]
    fn a_long_runtime_path_falls_back_to_the_data_directory_and_two_long_ones_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let long = scratch.path().join("x".repeat(90));
        let layout =
            Layout::prepare(&options(scratch.path().join("d"), Some(long.clone()))).unwrap();
        assert_eq!(layout.sockets, layout.data.join("run"));
        let refused = Layout::prepare(&options(long.clone(), Some(long))).unwrap_err();
        assert_eq!(refused.code, Code::Environment);
        assert!(refused.message.contains("too long"), "{refused}");
    }

    #[test]
    fn a_runtime_directory_that_cannot_be_used_falls_back_to_the_data_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let runtime = scratch.path().join("a-file");
        std::fs::write(&runtime, "").unwrap();
        let layout = Layout::prepare(&options(scratch.path().join("d"), Some(runtime))).unwrap();
        assert_eq!(layout.sockets, layout.data.join("run"));
    }

    #[test]
    fn a_new_data_directory_in_a_repository_is_refused_before_it_is_made() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join(".git")).unwrap();
        let data = scratch.path().join("deep/data");
        let refused = Layout::prepare(&options(data.clone(), None)).unwrap_err();
        assert!(
            refused.message.contains("inside the repository"),
            "{refused}"
        );
        assert!(!data.parent().unwrap().exists());
        // One that was there first can still be used: its runs are in it.
        std::fs::create_dir_all(&data).unwrap();
        assert!(Layout::prepare(&options(data, None)).is_ok());
    }
}
