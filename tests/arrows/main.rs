//! The arrows between crates point down only, and so do the `use` lines between the engine's modules
//! that will become crates. A new edge fails here until it is written into the table below.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which workspace crates each crate may depend on, in code that ships.
const MAY_USE: &[(&str, &[&str])] = &[
    ("foreman-domain", &[]),
    ("foreman-policy", &["foreman-domain"]),
    ("foreman-store", &["foreman-domain", "foreman-policy"]),
    ("foreman-schedule", &["foreman-domain"]),
    ("foreman-git", &["foreman-domain"]),
    ("foreman-cage", &["foreman-domain", "foreman-policy"]),
    ("foreman-agent", &["foreman-domain"]),
    (
        "foreman-shim",
        &[
            "foreman-domain",
            "foreman-policy",
            "foreman-cage",
            "foreman-agent",
        ],
    ),
    (
        "foreman-runner",
        &["foreman-domain", "foreman-policy", "foreman-shim"],
    ),
    (
        "foreman-engine",
        &[
            "foreman-domain",
            "foreman-policy",
            "foreman-store",
            "foreman-schedule",
            "foreman-git",
            "foreman-cage",
            "foreman-agent",
            "foreman-shim",
            "foreman-runner",
        ],
    ),
    (
        "foreman-cli",
        &[
            "foreman-domain",
            "foreman-policy",
            "foreman-schedule",
            "foreman-engine",
        ],
    ),
    (
        "sdf",
        &["foreman-domain", "foreman-policy", "foreman-engine"],
    ),
    ("foreman-testkit", &["foreman-domain"]),
    (
        "foreman-tests",
        &[
            "foreman-domain",
            "foreman-policy",
            "foreman-store",
            "foreman-testkit",
        ],
    ),
];

/// Libraries from outside that a crate must not know, whatever else it needs.
const MUST_NOT_KNOW: &[(&str, &[&str])] = &[
    (
        "foreman-domain",
        &["tokio", "sqlx", "tauri", "git2", "nix", "libc"],
    ),
    (
        "foreman-policy",
        &["tokio", "sqlx", "tauri", "git2", "nix", "libc"],
    ),
    (
        "foreman-schedule",
        &["tokio", "sqlx", "tauri", "git2", "nix", "libc", "rand"],
    ),
    (
        "foreman-agent",
        &["tokio", "sqlx", "tauri", "git2", "nix", "libc", "rand"],
    ),
    ("foreman-git", &["sqlx", "tauri", "tokio"]),
    ("foreman-store", &["git2", "tauri"]),
    ("foreman-cage", &["sqlx", "git2", "tauri"]),
    ("foreman-shim", &["sqlx", "git2", "tauri"]),
    (
        "foreman-runner",
        &["sqlx", "git2", "tauri", "clap", "foreman-cage"],
    ),
    ("foreman-runner", &["sqlx", "git2", "tauri", "clap"]),
    ("foreman-engine", &["sqlx", "git2", "tauri", "clap"]),
    ("foreman-cli", &["sqlx", "git2", "tauri"]),
    ("sdf", &["sqlx", "git2", "clap"]),
];

/// The only crates that may have `unsafe` in code that ships.
const UNSAFE_HOMES: [&str; 2] = ["foreman-cage", "foreman-shim"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

fn packages() -> Vec<Value> {
    let out = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "metadata",
            "--no-deps",
            "--format-version=1",
            "--locked",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let metadata: Value = serde_json::from_slice(&out.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Normal and build dependencies of each crate.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    packages()
        .iter()
        .map(|package| {
            let needs = package["dependencies"].as_array().unwrap().iter();
            let needs = needs.filter(|need| need["kind"] != "dev");
            let needs = needs
                .map(|need| need["name"].as_str().unwrap().to_owned())
                .collect();
            (package["name"].as_str().unwrap().to_owned(), needs)
        })
        .collect()
}

#[test]
fn every_crate_is_in_the_table() {
    let known: BTreeSet<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
    for name in dependencies().keys() {
        assert!(
            known.contains(name.as_str()),
            "{name} has no row in the table of arrows"
        );
    }
}

#[test]
fn arrows_between_crates_point_down() {
    let all = dependencies();
    for (name, allowed) in MAY_USE {
        let Some(needs) = all.get(*name) else {
            panic!("{name} is not in the workspace")
        };
        for need in needs.iter().filter(|need| need.starts_with("foreman-")) {
            assert!(
                allowed.contains(&need.as_str()),
                "{name} must not depend on {need}: see the table of arrows in docs/architecture.md"
            );
        }
    }
}

#[test]
fn no_crate_knows_a_library_that_it_must_not() {
    let all = dependencies();
    for (name, forbidden) in MUST_NOT_KNOW {
        for need in &all[*name] {
            assert!(
                !forbidden.contains(&need.as_str()),
                "{name} must not know {need}"
            );
        }
    }
}

#[test]
fn unsafe_code_is_forbidden_outside_cage_and_shim() {
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let manifest = package["manifest_path"].as_str().unwrap();
        let text = std::fs::read_to_string(manifest).unwrap();
        let manifest: toml::Value = toml::from_str(&text).unwrap();
        let inherits = manifest["lints"]
            .get("workspace")
            .and_then(toml::Value::as_bool)
            == Some(true);
        let forbids = manifest["lints"]
            .get("rust")
            .and_then(|rust| rust.get("unsafe_code"))
            .and_then(toml::Value::as_str)
            == Some("forbid");
        // The testkit's library forbids it in its source; its attack binary needs raw system calls.
        let excused = UNSAFE_HOMES.contains(&name) || name == "foreman-testkit";
        assert!(
            inherits || forbids || excused,
            "{name} must forbid unsafe code"
        );
    }
}

/// Modules of the engine that will become crates of their own, and which of the rest they may use. The
/// command list names the one type that must supply every command.
const ENGINE_MODULES: &[(&str, &[&str])] = &[("api", &["Host"])];

#[test]
fn the_engines_command_list_uses_nothing_of_the_engine() {
    let source = root().join("crates/foreman-engine/src");
    for (module, allowed) in ENGINE_MODULES {
        let mut files = vec![source.join(format!("{module}.rs"))];
        files.extend(rust_files(&source.join(module)));
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for line in code
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
            {
                for used in line.split("crate::").skip(1) {
                    let end = used.find(|next: char| !next.is_alphanumeric() && next != '_');
                    let used = &used[..end.unwrap_or(used.len())];
                    assert!(
                        used == *module || allowed.contains(&used),
                        "{}: `{module}` must not use `{used}`: {line}",
                        file.display()
                    );
                }
            }
        }
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files
}
