use super::*;
use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};

struct Home {
    _dir: tempfile::TempDir,
    root: PathBuf,
    path: Vec<PathBuf>,
    variables: HashMap<&'static str, PathBuf>,
    wanted: HashMap<&'static str, String>,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["home", "repo", "data", "sockets"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        Self {
            _dir: dir,
            root,
            path: Vec::new(),
            variables: HashMap::new(),
            wanted: HashMap::new(),
        }
    }

    fn home(&self, name: &str) -> PathBuf {
        self.root.join("home").join(name)
    }

    /// Files that can be executed.
    fn programs(&self, names: &[&str]) {
        for name in names {
            let path = self.home(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
    }

    fn profile(&self, toolchain: Toolchain) -> Toolchains {
        let (home, data, sockets) = (
            self.root.join("home"),
            self.root.join("data"),
            self.root.join("sockets"),
        );
        let variable = |name: &str| self.variables.get(name).map(OsString::from);
        let machine = Machine {
            own: Own {
                home: &home,
                data: &data,
                sockets: &sockets,
                watched: &[],
            },
            trust: Trust {
                uid: nix::unistd::geteuid().as_raw(),
                gid: nix::unistd::getegid().as_raw(),
                home: home.clone(),
                repository: vec![self.root.join("repo")],
            },
            path: self.path.clone(),
            variable: &variable,
            wanted: self.wanted.clone(),
        };
        profiles_on(&machine, vec![(toolchain, "a file".to_owned())])
    }

    fn targets(&self, toolchain: Toolchain) -> Vec<String> {
        let found = self.profile(toolchain);
        let home = self.root.join("home");
        assert!(found.binds.iter().all(|bind| !bind.writable));
        let within = |bind: &Bind| {
            let path = bind.target.strip_prefix(&home).unwrap_or(&bind.target);
            path.display().to_string()
        };
        found.binds.iter().map(within).collect()
    }
}

#[test]
fn rust_is_shown_part_by_part_and_nothing_with_credentials_or_caches() {
    let home = Home::new();
    home.programs(&[
        ".cargo/bin/cargo",
        ".cargo/credentials.toml",
        ".cargo/registry/cache/x",
        ".rustup/toolchains/stable/bin/rustc",
        ".rustup/settings.toml",
    ]);
    symlink("stable", home.home(".rustup/toolchains/1.95.0")).unwrap();
    assert_eq!(
        home.targets(Toolchain::Rust),
        [
            ".cargo/bin",
            ".rustup/settings.toml",
            ".rustup/toolchains/1.95.0",
            ".rustup/toolchains/stable"
        ]
    );
    let found = home.profile(Toolchain::Rust);
    assert_eq!(found.path(), [home.home(".cargo/bin")]);
    assert_eq!(found.rules().len(), 4);
    assert!(
        found
            .rules()
            .iter()
            .all(|rule| rule.origin.layer == Layer::Profile)
    );
}

#[test]
fn homes_that_variables_name_are_shown_and_cargo_writes_below_the_runs_own() {
    let mut home = Home::new();
    home.programs(&["x/cargo/bin/cargo", "x/rustup/toolchains/stable/bin/rustc"]);
    home.variables.insert("CARGO_HOME", home.home("x/cargo"));
    home.variables.insert("RUSTUP_HOME", home.home("x/rustup"));
    let found = home.profile(Toolchain::Rust);
    let set: HashMap<_, _> = found.variables().into_iter().collect();
    assert_eq!(
        set["RUSTUP_HOME"],
        home.home("x/rustup").display().to_string()
    );
    assert_eq!(set["CARGO_HOME"], home.home(".cargo").display().to_string());
}

#[test]
fn the_repository_says_a_version_and_never_a_place() {
    let mut home = Home::new();
    for version in ["v18.1.0", "v20.2.0"] {
        home.programs(&[&format!(".nvm/versions/node/{version}/bin/node")]);
        home.programs(&[&format!(".nvm/versions/node/{version}/etc/npmrc")]);
    }
    assert_eq!(
        home.targets(Toolchain::Node),
        [".nvm/versions/node/v20.2.0/bin"]
    );
    home.wanted.insert(".nvmrc", "18\n".to_owned());
    assert_eq!(
        home.targets(Toolchain::Node),
        [".nvm/versions/node/v18.1.0/bin"]
    );
    home.wanted
        .insert(".nvmrc", "../../../../../repo".to_owned());
    assert_eq!(
        home.targets(Toolchain::Node),
        [".nvm/versions/node/v20.2.0/bin"]
    );
}

#[test]
fn a_home_that_leads_through_the_repository_is_not_shown_and_said_so() {
    let mut home = Home::new();
    let planted = home.root.join("repo/cargo/bin");
    std::fs::create_dir_all(&planted).unwrap();
    std::fs::write(planted.join("cargo"), "#!/bin/sh\n").unwrap();
    symlink(home.root.join("repo/cargo"), home.home(".cargo")).unwrap();
    let found = home.profile(Toolchain::Rust);
    assert_eq!(found.binds, []);
    assert!(
        found.views[0].notes[0].contains("repository"),
        "{:?}",
        found.views
    );
    home.variables
        .insert("CARGO_HOME", home.root.join("repo/cargo"));
    assert_eq!(home.profile(Toolchain::Rust).binds, []);
}

#[test]
fn a_program_of_a_shared_folder_is_shown_alone() {
    let mut home = Home::new();
    home.programs(&[".local/bin/node", ".local/bin/other", ".local/share/secret"]);
    home.path = vec![home.home(".local/bin")];
    assert_eq!(home.targets(Toolchain::Node), [".local/bin/node"]);
    home.programs(&["opt/node/bin/node", "opt/node/lib/x"]);
    std::fs::remove_file(home.home(".local/bin/node")).unwrap();
    symlink(home.home("opt/node/bin/node"), home.home(".local/bin/node")).unwrap();
    assert_eq!(
        home.targets(Toolchain::Node),
        ["opt/node/bin", "opt/node/lib"]
    );
}

#[test]
fn python_go_and_java_are_found_where_their_managers_put_them() {
    let mut home = Home::new();
    home.programs(&[
        ".pyenv/versions/3.9.1/bin/python3",
        ".pyenv/versions/3.12.1/bin/python3",
        ".pyenv/versions/3.12.1/lib/x",
        ".pyenv/shims/python3",
        ".local/share/uv/python/cpython-3.13/bin/python3",
        ".local/bin/uv",
        ".local/go/bin/go",
        ".local/go/src/x",
        ".sdkman/candidates/java/21.0.1/bin/java",
        ".sdkman/candidates/java/21.0.1/lib/x",
        ".sdkman/candidates/maven/3.9.0/bin/mvn",
        ".sdkman/candidates/maven/3.9.0/conf/settings.xml",
    ]);
    home.path = vec![home.home(".pyenv/shims"), home.home(".local/bin")];
    assert_eq!(
        home.targets(Toolchain::Python),
        [
            ".local/bin/uv",
            ".local/share/uv/python/cpython-3.13",
            ".pyenv/versions/3.12.1/bin",
            ".pyenv/versions/3.12.1/lib"
        ]
    );
    assert_eq!(
        home.targets(Toolchain::Go),
        [".local/go/bin", ".local/go/src"]
    );
    assert_eq!(
        home.targets(Toolchain::Jvm),
        [
            ".sdkman/candidates/java/21.0.1/bin",
            ".sdkman/candidates/java/21.0.1/lib",
            ".sdkman/candidates/maven/3.9.0/bin"
        ]
    );
    let java = home.profile(Toolchain::Jvm).variables();
    assert_eq!(java[0].0, "JAVA_HOME");
}
