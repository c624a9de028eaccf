//! Patterns against patterns, checked against what git itself matches.

use foreman_schedule::{CompareScopes, Globs};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn meet(ours: &str, theirs: &str) -> bool {
    let (ours, theirs) = ([ours.to_owned()], [theirs.to_owned()]);
    let forth = Globs.overlap(&ours, &theirs).is_some();
    let back = Globs.overlap(&theirs, &ours).is_some();
    assert_eq!(
        forth, back,
        "{ours:?} and {theirs:?} are compared alike both ways"
    );
    forth
}

#[test]
fn patterns_that_can_match_one_path_meet() {
    for (ours, theirs) in [
        ("src/**", "src/new.rs"),
        ("src/", "src/a.rs"),
        ("src", "src/a/b/c.rs"),
        ("/src/", "src/a.rs"),
        ("./src/", "src/a.rs"),
        ("*.toml", "crates/a/"),
        ("*.toml", "Cargo.toml"),
        ("**/tests/**", "crates/a/tests/it/main.rs"),
        ("a/**/z", "a/z"),
        ("a/**/z", "a/b/**"),
        ("src/*.rs", "src/m*"),
        ("src/[a-m]*", "src/[k-z]*"),
        ("src/?.rs", "src/a.*"),
        ("SRC/Main.rs", "src/main.rs"),
        ("src/É.rs", "src/é.rs"),
        ("src/??", "src/é"),
        ("src/[é]x", "src/?x"),
        ("src/[A-C].rs", "src/b.rs"),
        ("**", "anything/at/all"),
        ("src/*", "src/a/b"),
        ("\\!a", "!a"),
        ("a\\*b", "a?b"),
    ] {
        assert!(meet(ours, theirs), "{ours} and {theirs}");
    }
}

#[test]
fn patterns_that_can_match_no_common_path_do_not_meet() {
    for (ours, theirs) in [
        ("src/**", "docs/**"),
        ("src/a.rs", "src/b.rs"),
        ("src/*.rs", "src/*.md"),
        ("/src/", "/docs/"),
        ("src/a/", "src/b/**/x"),
        ("crates/*/src/", "crates/a/tests/"),
        ("src/[a-c].rs", "src/[x-z].rs"),
        ("src/?.rs", "src/ab.rs"),
        ("docs/a*", "docs/b*"),
        ("docs/", "src/"),
        ("文書/**", "資料/**"),
        ("docs/", "src/a.rs"),
        ("/a", "/b/*"),
        ("/a\\*b", "/ab"),
    ] {
        assert!(!meet(ours, theirs), "{ours} and {theirs}");
    }
}

#[test]
fn what_is_not_understood_meets_everything() {
    let long = "a".repeat(600);
    for unclear in [
        "../x",
        "src/../../x",
        "{a,b}/c",
        "[abc",
        "x\\",
        "[[:alpha:]]/b",
        "",
        "/",
        "!docs/",
        "[z-a]",
        &long,
    ] {
        assert!(meet(unclear, "src/deep/file.rs"), "{unclear}");
    }
    let many: Vec<String> = (0..300).map(|number| format!("a/{number}")).collect();
    let others: Vec<String> = (0..300).map(|number| format!("b/{number}")).collect();
    assert!(Globs.overlap(&many, &others).is_some());
}

#[test]
fn the_overlap_names_the_patterns() {
    let texts = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    let found = Globs
        .overlap(
            &texts(&["docs/", "src/a.rs"]),
            &texts(&["!src/", "lib/", "src/"]),
        )
        .unwrap();
    assert_eq!(
        (found.ours.as_str(), found.theirs.as_str()),
        ("src/a.rs", "src/")
    );
    assert!(Globs.overlap(&[], &texts(&["**"])).is_none());
}

#[test]
fn absurd_patterns_are_compared_in_no_time() {
    let stars = "*a".repeat(250);
    let deep = "**/a/".repeat(100);
    let start = std::time::Instant::now();
    for _ in 0..50 {
        meet(&stars, &format!("{}b", "a*".repeat(250)));
        meet(&deep, &"**/b/".repeat(100));
    }
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

/// A small generator of numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// A path of few letters, so that patterns match many of them.
    fn path(&mut self) -> String {
        let depth = 1 + self.below(3);
        let segments: Vec<String> = (0..depth)
            .map(|_| {
                (0..=self.below(3))
                    .map(|_| self.pick(&["a", "b", "A", "é", "-", "!", " x", "]"]))
                    .collect()
            })
            .collect();
        segments.join("/")
    }

    /// A pattern that was made out of a path, and often still matches it.
    fn pattern(&mut self) -> String {
        let path = self.path();
        let mut text = String::new();
        for (place, segment) in path.split('/').enumerate() {
            if place > 0 {
                text.push('/');
            }
            match self.below(8) {
                0 => text.push_str("**"),
                1 => text.push('*'),
                2 => text.push_str("**/*"),
                _ => {
                    for letter in segment.chars() {
                        match self.below(9) {
                            0 => text.push('*'),
                            1 => text.push('?'),
                            2 => text.push_str(self.pick(&[
                                "[ab]",
                                "[a-c]",
                                "[!b]",
                                "[^b]",
                                "[]a]",
                                "[a-]",
                                "[!-]",
                                "[[:alpha:]]",
                                "[\\a]",
                                "[",
                                "**",
                                "{a,b}",
                            ])),
                            3 => text.extend(['\\', letter]),
                            _ => text.push(letter),
                        }
                    }
                }
            }
        }
        match self.below(8) {
            0 => format!("/{text}"),
            1 => format!("{text}/"),
            2 => format!("**/{text}"),
            3 => format!("{text}/**"),
            4 => format!("{text} "),
            5 => format!("!{text}"),
            _ => text,
        }
    }
}

/// For each pattern the numbers of the paths that git takes it to match.
fn matched_by_git(patterns: &[String], paths: &[String]) -> Vec<BTreeSet<usize>> {
    let folder = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(args).current_dir(folder.path());
        command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        command
    };
    assert!(git(&["init", "--quiet"]).status().unwrap().success());
    for (number, pattern) in patterns.iter().enumerate() {
        let place = folder.path().join(format!("{number}"));
        std::fs::create_dir(&place).unwrap();
        // The one difference to gitignore: a folder is the one at the root.
        let folder = pattern.find('/') == Some(pattern.len() - 1) && !pattern.starts_with('!');
        let root = if folder { "/" } else { "" };
        std::fs::write(place.join(".gitignore"), format!("{root}{pattern}\n")).unwrap();
    }
    let mut asked = Vec::new();
    for number in 0..patterns.len() {
        for path in paths {
            asked.extend(format!("{number}/{path}\0").bytes());
        }
    }
    let answer = ask(git(&["check-ignore", "--stdin", "-z", "--no-index"]), asked);
    let mut matched = vec![BTreeSet::new(); patterns.len()];
    for line in answer.split('\0').filter(|line| !line.is_empty()) {
        let (number, path) = line.split_once('/').unwrap();
        let place = paths.iter().position(|known| known == path).unwrap();
        matched[number.parse::<usize>().unwrap()].insert(place);
    }
    matched
}

/// Gives a program its input while its output is read.
fn ask(mut command: Command, input: Vec<u8>) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    // 1: nothing matched.
    assert!(
        matches!(out.status.code(), Some(0 | 1)),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn patterns_that_git_matches_to_one_path_are_never_called_disjoint() {
    assert!(Path::new("/dev/null").exists());
    let (mut shared, mut compared, mut disjoint) = (0, 0, 0);
    for seed in 0..3 {
        let mut dice = Dice(0x5eed + seed);
        let patterns: Vec<String> = (0..250).map(|_| dice.pattern()).collect();
        let paths: BTreeSet<String> = (0..160).map(|_| dice.path()).collect();
        let paths: Vec<String> = paths.into_iter().collect();
        let matched = matched_by_git(&patterns, &paths);
        for (ours, our_paths) in patterns.iter().zip(&matched) {
            for (theirs, their_paths) in patterns.iter().zip(&matched) {
                let meets = meet(ours, theirs);
                compared += 1;
                disjoint += u32::from(!meets);
                if let Some(common) = our_paths.intersection(their_paths).next() {
                    shared += 1;
                    assert!(
                        meets,
                        "{ours:?} and {theirs:?} both match {:?}",
                        paths[*common]
                    );
                }
            }
        }
    }
    // The test says something only when both sides occur often.
    assert!(
        shared > 10_000 && disjoint > 10_000,
        "{compared} pairs: {shared} share a path, {disjoint} disjoint"
    );
}
