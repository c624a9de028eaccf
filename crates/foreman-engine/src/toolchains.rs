//! Toolchain profiles: which of the operator's compilers, interpreters and package managers a run sees.
//!
//! Which ones are needed is found out from the names of files in the repository, unless the operator says
//! so; where they are is found out on this machine alone. The repository says at most a version, in digits
//! and dots, and only one that is installed counts. What is found is shown read-only at its own place, part
//! by part, beside folders of the run's own that it may write; see `profiles`.

mod login;
mod machine;
mod profiles;
mod trusted;

pub(crate) use login::LoginPath;

use crate::api::ToolchainView;
use crate::engine::Engine;
use crate::environment::Account;
use crate::failures::join;
use crate::path_rules::Own;
use foreman_cage::Bind;
use foreman_domain::{Failure, sanitize_line};
use foreman_git::Repository;
use foreman_policy::{Access, Layer, Origin, PathRule, RuleId, Toolchain, Use};
use machine::{Draft, Machine};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use trusted::Trust;

/// Files whose text says a version.
const VERSION_FILES: [&str; 3] = [".nvmrc", ".node-version", ".python-version"];
/// Folders below home where version managers put programs, where the search path does not have them.
const AT_HOME: [&str; 5] = [
    ".local/bin",
    ".cargo/bin",
    "go/bin",
    ".local/share/pnpm",
    ".local/share/fnm",
];

/// Which toolchains a run gets, and who said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// These, as somebody said.
    Said {
        toolchains: Vec<Toolchain>,
        by: String,
    },
    /// Those that the repository tells of.
    Detect,
}

/// What a run sees of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Toolchains {
    pub views: Vec<ToolchainView>,
    pub binds: Vec<Bind>,
}

impl Toolchains {
    /// Folders of their programs, to be looked in before the system's.
    pub fn path(&self) -> Vec<PathBuf> {
        let all = self.views.iter().flat_map(|view| &view.path);
        let mut path: Vec<PathBuf> = Vec::new();
        for folder in all {
            if !path.contains(folder) {
                path.push(folder.clone());
            }
        }
        path
    }

    /// Variables that they set, and those of the operator's that they let through.
    pub fn variables(&self) -> Vec<(String, String)> {
        let set = self.views.iter().flat_map(|view| view.set.clone());
        let passed = self.views.iter().flat_map(|view| &view.passes);
        let passed = passed.filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
        set.chain(passed).collect()
    }

    /// What they open, as rules, so that it is listed and explained like everything else.
    pub fn rules(&self) -> Vec<PathRule> {
        rules_of(&self.views)
    }
}

/// What profiles open, as rules.
pub(crate) fn rules_of(views: &[ToolchainView]) -> Vec<PathRule> {
    let mut rules = Vec::new();
    for view in views {
        for (index, path) in view.mounts.iter().enumerate() {
            rules.push(PathRule {
                origin: Origin {
                    id: RuleId(format!("profile:{}:{}", view.toolchain, index + 1)),
                    layer: Layer::Profile,
                    source: format!("toolchain profile {}", view.toolchain),
                    amendment: None,
                    reason: Some(view.chosen_by.clone()),
                },
                path: path.clone(),
                access: Access::Read,
                applies: Use::Always,
                expires: None,
                sockets: false,
            });
        }
    }
    rules
}

/// One line about a toolchain, for the feed.
pub(crate) fn in_words(view: &ToolchainView) -> String {
    let name = view.toolchain;
    let found = match (view.found, view.mounts.first()) {
        (false, _) => "none of yours was found, so a run has what the system has".to_owned(),
        (true, None) => "the system's".to_owned(),
        (true, Some(first)) => match view.mounts.len() {
            1 => format!("{}, read-only", first.display()),
            many => format!("{} and {} more, read-only", first.display(), many - 1),
        },
    };
    sanitize_line(&format!("{name} ({}): {found}", view.chosen_by))
}

impl Engine {
    /// What a run of a repository at `commit` sees of toolchains.
    pub(crate) async fn toolchains(
        &self,
        repo: &Repository,
        commit: &str,
        choice: &Choice,
    ) -> Result<Toolchains, Failure> {
        let (found, wanted) = self.needed(repo, commit, choice).await?;
        if found.is_empty() {
            return Ok(Toolchains::default());
        }
        let here = std::env::var_os("PATH");
        let path: Vec<PathBuf> = here.iter().flat_map(std::env::split_paths).collect();
        let profiles = self
            .profiles(repo, found.clone(), wanted.clone(), path.clone())
            .await?;
        if profiles.views.iter().all(|view| view.found) {
            return Ok(profiles);
        }
        // A desktop starts programs without what the operator's shell adds.
        let Some(more) = self.login_path.get().await else {
            return Ok(profiles);
        };
        let path = path.into_iter().chain(more).collect();
        self.profiles(repo, found, wanted, path).await
    }

    /// What a new run of a repository would see, as far as that can be told.
    pub(crate) async fn toolchains_now(
        &self,
        repo: &Repository,
        choice: &Choice,
    ) -> Result<Toolchains, Failure> {
        let looked_at = repo.clone();
        let looking = tokio::task::spawn_blocking(move || looked_at.preflight(None));
        match looking.await.map_err(join)? {
            Ok(found) => self.toolchains(repo, &found.base_commit, choice).await,
            // No run can be made of it as it is, and that is said where one is asked for.
            Err(_) => Ok(Toolchains::default()),
        }
    }

    /// The toolchains that are needed, each with who says so, and the versions that the repository names.
    async fn needed(
        &self,
        repo: &Repository,
        commit: &str,
        choice: &Choice,
    ) -> Result<(Vec<(Toolchain, String)>, HashMap<&'static str, String>), Failure> {
        let (repo, commit, choice) = (repo.clone(), commit.to_owned(), choice.clone());
        let looking = tokio::task::spawn_blocking(move || {
            let needed: Vec<(Toolchain, String)> = match choice {
                Choice::Said { toolchains, by } => toolchains
                    .into_iter()
                    .map(|toolchain| (toolchain, by.clone()))
                    .collect(),
                Choice::Detect => {
                    let marks =
                        repo.files_near_root(&commit, |name| Toolchain::of_mark(name).is_some())?;
                    let of = |toolchain: Toolchain| {
                        let mark = marks.iter().find(|path| {
                            let name = path.rsplit('/').next().unwrap_or_default();
                            Toolchain::of_mark(name) == Some(toolchain)
                        })?;
                        Some((toolchain, sanitize_line(mark)))
                    };
                    Toolchain::ALL.into_iter().filter_map(of).collect()
                }
            };
            let mut wanted = HashMap::new();
            for file in VERSION_FILES {
                if let Some(text) = repo.small_text(&commit, file)? {
                    wanted.insert(file, text);
                }
            }
            Ok::<_, Failure>((needed, wanted))
        });
        looking.await.map_err(join)?
    }

    async fn profiles(
        &self,
        repo: &Repository,
        needed: Vec<(Toolchain, String)>,
        wanted: HashMap<&'static str, String>,
        path: Vec<PathBuf>,
    ) -> Result<Toolchains, Failure> {
        let layout = self.layout.clone();
        let watched = self.watched_places().await?;
        let mut repository = vec![
            repo.root().to_owned(),
            repo.common_dir().to_owned(),
            layout.data.clone(),
        ];
        // The main tree, where this was opened at another one.
        repository.extend(repo.main_tree());
        let looking = tokio::task::spawn_blocking(move || {
            let variable = |name: &str| std::env::var_os(name);
            let account = Account::of_this_process(variable);
            let at_home = AT_HOME.iter().map(|folder| account.home.join(folder));
            let machine = Machine {
                own: Own {
                    home: &account.home,
                    data: &layout.data,
                    sockets: &layout.sockets,
                    watched: &watched,
                },
                trust: Trust {
                    uid: nix::unistd::geteuid().as_raw(),
                    gid: nix::unistd::getegid().as_raw(),
                    home: account.home.clone(),
                    repository,
                },
                path: in_order(path.into_iter().chain(at_home)),
                variable: &variable,
                wanted,
            };
            profiles_on(&machine, needed)
        });
        looking.await.map_err(join)
    }
}

fn profiles_on(machine: &Machine<'_>, needed: Vec<(Toolchain, String)>) -> Toolchains {
    let mut all = Toolchains::default();
    for (toolchain, chosen_by) in needed {
        let mut draft = Draft::new(machine, toolchain, chosen_by);
        profiles::fill(&mut draft, machine);
        let Draft { view, binds, .. } = draft;
        for bind in binds {
            if !all.binds.iter().any(|known| known.target == bind.target) {
                all.binds.push(bind);
            }
        }
        all.views.push(view);
    }
    // A folder comes before what lies in it.
    all.binds
        .sort_by(|one, other| one.target.cmp(&other.target));
    all
}

/// Absolute folders, each once.
fn in_order(folders: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut seen: Vec<PathBuf> = Vec::new();
    for folder in folders.filter(|folder| Path::is_absolute(folder)) {
        if !seen.contains(&folder) {
            seen.push(folder);
        }
    }
    seen
}

#[cfg(test)]
#[path = "toolchains/tests.rs"]
mod tests;
