//! What each toolchain is made of: where it is, which of it a run sees, and which variables go with it.
//!
//! Caches are not here: they are folders below home, and a run's home is its own, empty, writable and gone
//! with it. So nothing that a run puts into one reaches another run or the host, and no file of
//! credentials that lies beside a toolchain (`~/.cargo/credentials.toml`, `~/.npmrc`, `~/.pypirc`,
//! `~/.m2/settings.xml`, `~/.gradle/gradle.properties`) is seen.

use super::machine::{Draft, Machine, names_in, pick, version_in};
use foreman_policy::Toolchain;
use std::path::{Path, PathBuf};

/// Parts of an installation of node or Python. Not `etc`: settings there can hold tokens.
const PARTS: &[&str] = &["lib", "lib64", "libexec", "include", "share"];
/// Parts of an installation of Go.
const GO_PARTS: &[&str] = &["pkg", "src", "lib", "misc", "api", "VERSION", "go.env"];
/// Parts of a JDK, of Maven and of Gradle. Of Maven without its settings, where credentials may stand.
const JDK_PARTS: &[&str] = &["lib", "include", "jmods", "conf", "legal", "release"];
const MAVEN_PARTS: &[&str] = &["boot", "lib", "conf/logging"];
const GRADLE_PARTS: &[&str] = &["lib"];
/// Longest file of a version manager's settings.
const LONGEST: u64 = 4_096;

/// Folders of version managers: the variable, the folder below home, where versions are in it, and what
/// of a version holds the installation.
struct Manager {
    variable: &'static str,
    home: &'static str,
    versions: &'static str,
    inside: &'static str,
    /// The file that names the version in use.
    default: &'static str,
}

const NODE: &[Manager] = &[
    Manager {
        variable: "NVM_DIR",
        home: ".nvm",
        versions: "versions/node",
        inside: "",
        default: "alias/default",
    },
    Manager {
        variable: "FNM_DIR",
        home: ".local/share/fnm",
        versions: "node-versions",
        inside: "installation",
        default: "",
    },
    Manager {
        variable: "VOLTA_HOME",
        home: ".volta",
        versions: "tools/image/node",
        inside: "",
        default: "",
    },
];
const PYTHON: &[Manager] = &[Manager {
    variable: "PYENV_ROOT",
    home: ".pyenv",
    versions: "versions",
    inside: "",
    default: "version",
}];

/// Fills the profile of a toolchain. Blocking.
pub(super) fn fill(draft: &mut Draft<'_>, machine: &Machine<'_>) {
    match draft.view.toolchain {
        Toolchain::Rust => rust(draft, machine),
        Toolchain::Node => node(draft, machine),
        Toolchain::Python => python(draft, machine),
        Toolchain::Go => go(draft, machine),
        Toolchain::Jvm => jvm(draft, machine),
    }
}

fn rust(draft: &mut Draft<'_>, machine: &Machine<'_>) {
    let home = machine.own.home;
    let cargo = machine.folder("CARGO_HOME", ".cargo");
    let rustup = machine.folder("RUSTUP_HOME", ".rustup");
    let programs = cargo.join("bin");
    if programs.join("cargo").exists() {
        draft.installation(&cargo, &[]);
    } else {
        draft.installation_of("cargo", PARTS);
    }
    // Each by itself: rustup may then add one, which is the run's own.
    let toolchains = rustup.join("toolchains");
    draft.show_each(&toolchains, &names_in(&toolchains));
    draft.show(&rustup.join("settings.toml"));
    if rustup != home.join(".rustup") && rustup.exists() {
        draft.set("RUSTUP_HOME", &rustup);
    }
    // What cargo writes goes below the run's own home.
    if cargo != home.join(".cargo") {
        draft.set("CARGO_HOME", home.join(".cargo"));
    }
    for name in ["config.toml", "config"] {
        if cargo.join(name).exists() {
            draft.note(
                "your cargo configuration is not shown, because it can hold tokens; a [[read]] rule for \
                 it opens it",
            );
        }
    }
    draft.passes(&[
        "RUST_BACKTRACE",
        "RUSTFLAGS",
        "RUSTDOCFLAGS",
        "CARGO_TERM_COLOR",
        "CARGO_BUILD_JOBS",
        "CARGO_INCREMENTAL",
        "CARGO_NET_OFFLINE",
    ]);
}

fn node(draft: &mut Draft<'_>, machine: &Machine<'_>) {
    let wanted = machine.wanted_version(&[".nvmrc", ".node-version"]);
    let managed = managed(NODE, machine, wanted.as_deref());
    let of_version = managed.is_some_and(|prefix| {
        // One on the search path wins where the repository asks for none.
        (wanted.is_some() || machine.program("node").is_none())
            && draft.installation(&prefix, PARTS)
    });
    if !of_version {
        draft.installation_of("node", PARTS);
    }
    for program in ["pnpm", "yarn"] {
        draft.companion(program);
    }
    // Its look for a newer npm would ask for a host, now and then, whatever the run is about.
    draft.set("npm_config_update_notifier", "false");
    draft.passes(&["NODE_ENV", "CI", "npm_config_loglevel"]);
}

fn python(draft: &mut Draft<'_>, machine: &Machine<'_>) {
    let wanted = machine.wanted_version(&[".python-version"]);
    let is_shim = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "shims");
    let on_path = machine.program("python3").filter(|path| !is_shim(path));
    let of_version = (wanted.is_some() || on_path.is_none())
        && managed(PYTHON, machine, wanted.as_deref())
            .is_some_and(|prefix| draft.installation(&prefix, PARTS));
    if !of_version && on_path.is_some() {
        draft.installation_of("python3", PARTS);
    }
    // Each by itself: uv may then add one, which is the run's own.
    let pythons = machine.folder("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python");
    draft.show_each(&pythons, &names_in(&pythons));
    for program in ["uv", "uvx"] {
        draft.companion(program);
    }
    // As above.
    draft.set("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    draft.passes(&[
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONUNBUFFERED",
        "PYTHONHASHSEED",
        "CI",
    ]);
}

fn go(draft: &mut Draft<'_>, machine: &Machine<'_>) {
    let places = [
        (machine.variable)("GOROOT").map(PathBuf::from),
        Some(machine.own.home.join(".local/go")),
        Some(PathBuf::from("/usr/local/go")),
        Some(PathBuf::from("/usr/lib/go")),
    ];
    if draft.installation_of("go", GO_PARTS).is_none() {
        let root = places
            .into_iter()
            .flatten()
            .find(|root| root.is_absolute() && root.join("bin/go").exists());
        if let Some(root) = root {
            draft.installation(&root, GO_PARTS);
        }
    }
    draft.passes(&[
        "GOFLAGS",
        "GOOS",
        "GOARCH",
        "GOTOOLCHAIN",
        "GOMAXPROCS",
        "CGO_ENABLED",
    ]);
}

fn jvm(draft: &mut Draft<'_>, machine: &Machine<'_>) {
    let candidates = machine.folder("SDKMAN_DIR", ".sdkman").join("candidates");
    let current = |name: &str| {
        let folder = candidates.join(name);
        let installed = names_in(&folder);
        let link = std::fs::read_link(folder.join("current")).ok();
        let named = link
            .as_deref()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str());
        let found = installed
            .iter()
            .find(|version| Some(version.as_str()) == named)
            .cloned()
            .or_else(|| pick(&installed, None, None));
        found.map(|version| folder.join(version))
    };
    let given = (machine.variable)("JAVA_HOME").map(PathBuf::from);
    let java = given
        .filter(|java| java.is_absolute() && java.join("bin/java").exists())
        .or_else(|| current("java"));
    match java {
        Some(java) => {
            if draft.installation(&java, JDK_PARTS) {
                draft.set("JAVA_HOME", &java);
            }
        }
        None => {
            draft.installation_of("java", JDK_PARTS);
        }
    }
    for (name, parts) in [("maven", MAVEN_PARTS), ("gradle", GRADLE_PARTS)] {
        if let Some(prefix) = current(name) {
            draft.installation(&prefix, parts);
        }
    }
}

/// The installation of the wanted version, of the one in use, or of the newest.
fn managed(managers: &[Manager], machine: &Machine<'_>, wanted: Option<&str>) -> Option<PathBuf> {
    managers.iter().find_map(|manager| {
        let home = machine.folder(manager.variable, manager.home);
        let versions = home.join(manager.versions);
        let in_use = match manager.default {
            "" => None,
            file => small(&home.join(file)).and_then(|text| version_in(&text)),
        };
        let version = pick(&names_in(&versions), wanted, in_use.as_deref())?;
        Some(versions.join(version).join(manager.inside))
    })
}

fn small(path: &Path) -> Option<String> {
    use std::io::Read;
    let file = std::fs::File::open(path).ok()?;
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}
