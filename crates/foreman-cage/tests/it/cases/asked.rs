//! What is asked about: by where a path leads, whatever it is called, and only what is a question.

use crate::fixture::{ATTACKER, attack, run, shell};
use crate::operator::{Held, belongs_to_the_cage, held, outside};
use foreman_cage::Exit;
use foreman_cage::files::FileVerdict;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub fn a_path_is_asked_about_by_where_it_leads() {
    held(async |mut held| {
        let outside = outside();
        std::fs::create_dir(outside.join("deep")).unwrap();
        std::fs::write(outside.join("deep/file"), "words").unwrap();
        for path in ["deep", "deep/file"] {
            belongs_to_the_cage(&outside.join(path));
        }
        let out = outside.display();
        shell(
            &held.at.cage,
            &format!("ln -s '{out}' link; ln -s ~/outside/deep/file last; mkdir -p sub"),
        )
        .await;
        let deep = outside.join("deep/file");
        for (line, path) in [
            (format!("echo >> '{out}/deep/../deep/file'"), deep.clone()),
            ("echo >> link/deep/file".into(), deep.clone()),
            ("echo >> last".into(), deep.clone()),
            ("echo >> sub/../link/./deep//file".into(), deep.clone()),
            ("cd sub; echo >> ../last".into(), deep.clone()),
            ("rm -f link/deep/file".into(), deep.clone()),
            ("echo > link/deep/new".into(), outside.join("deep/new")),
            ("mkdir link/made".into(), outside.join("made")),
            ("mv sub link/moved".into(), outside.join("moved")),
            ("ln -s x link/symlink".into(), outside.join("symlink")),
            ("ln .git link/hard".into(), outside.join("hard")),
        ] {
            // `rm` and `mv` look first: by name, in the shell's own words.
            let cage = &held.at.cage;
            let line = match line.split_once(' ') {
                Some(("rm", _)) => {
                    "python3 -c \"import os; os.unlink('link/deep/file')\"".to_owned()
                }
                Some(("mv", _)) => {
                    "python3 -c \"import os; os.rename('sub', 'link/moved')\"".to_owned()
                }
                Some(("ln", rest)) if rest.starts_with(".git") => {
                    "python3 -c \"import os; os.link('.git', 'link/hard')\"".to_owned()
                }
                _ => line,
            };
            let answering = async {
                let asked = held.asked.recv().await.unwrap();
                assert_eq!(asked.attempt.path, path, "{line}");
                asked.answer(FileVerdict::Refuse);
            };
            let argv = ["sh", "-c", &line];
            let (ended, ()) = tokio::join!(run(cage, &argv), answering);
            assert_ne!(ended.exit, Exit::Code(0), "{line}");
        }
        held.nobody_asks();
        assert_eq!(std::fs::read(&deep).unwrap(), b"words");
    });
}

pub fn a_way_that_changes_meanwhile_gains_nothing() {
    held(async |mut held| {
        let outside = outside();
        let cage = &held.at.cage;
        let arguments = ["swap", text(&outside)];
        let swapping = attack(cage, "file", &arguments);
        tokio::pin!(swapping);
        let said = loop {
            tokio::select! {
                said = &mut swapping => break said,
                asked = held.asked.recv() => {
                    let asked = asked.unwrap();
                    assert_eq!(asked.attempt.path, outside.join("made"));
                    asked.answer(FileVerdict::Refuse);
                }
            }
        };
        let enough = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u32>().unwrap() >= 50;
        assert!(said.lines().all(enough), "{said}");
        assert!(!outside.join("made").exists());
    });
}

/// Runs a line of shell about which nobody may be asked.
async fn unasked(held: &mut Held, line: &str) -> Exit {
    let argv = ["sh", "-c", line];
    tokio::select! {
        ended = run(&held.at.cage, &argv) => ended.exit,
        asked = held.asked.recv() => panic!("{line}: {:?}", asked.map(|asked| asked.attempt)),
    }
}

pub fn what_is_nobodys_question_is_not_asked() {
    held(async |mut held| {
        let outside = outside();
        std::fs::write(outside.join("file"), "words").unwrap();
        belongs_to_the_cage(&outside.join("file"));
        let out = outside.display();
        for line in [
            // What the cage may write, through whatever name.
            "echo x > here; mkdir -p a/b; mv here a/b/; ln a/b/here hard; ln -s a/b soft; echo >> soft/here; rm -r a soft hard".to_owned(),
            "echo x > ~/own; mkdir -p /tmp/t; echo x > /tmp/t/x; rm -r /tmp/t ~/own".to_owned(),
            // Devices, pipes and descriptors.
            "echo x > /dev/null; echo x > /dev/stdout; echo x > /dev/fd/1; echo x > /proc/self/fd/1".to_owned(),
            // What is open already, by its descriptor.
            "exec 3>own; echo y > /proc/self/fd/3; rm own".to_owned(),
        ] {
            assert_eq!(unasked(&mut held, &line).await, Exit::Code(0), "{line}");
        }
        for line in [
            // What the operator's account could not do, or no view could open.
            "echo x > /usr/x".to_owned(),
            "echo x > /etc/x".to_owned(),
            "echo x > /proc/sys/kernel/hostname".to_owned(),
            "echo x > /sys/x".to_owned(),
            "echo x > /dev/x".to_owned(),
            "echo x > /x".to_owned(),
            "echo x > /run/foreman/x".to_owned(),
            "echo x >> .git".to_owned(),
            format!("echo x > '{out}/no/such/folder'"),
            format!("cat '{out}/file'"),
            format!("echo x > /proc/self/root/{out}/x"),
            "echo x > /proc/self/cwd/../../outside/x".to_owned(),
        ] {
            assert_ne!(unasked(&mut held, &line).await, Exit::Code(0), "{line}");
        }
        // A descriptor that is only a path reads and writes nothing.
        let flags = (libc::O_PATH | libc::O_CREAT).to_string();
        let path = outside.join("file");
        let line = format!(
            "{ATTACKER} attack file open '{}' {flags} | grep '^open 2$'",
            path.display()
        );
        assert_eq!(unasked(&mut held, &line).await, Exit::Code(0));
        assert!(!outside.join("x").exists());
    });
}

pub fn a_path_that_changes_meanwhile_gains_nothing() {
    held(async |mut held| {
        let outside = outside();
        let (good, evil) = (outside.join("allowed"), outside.join("refused"));
        for path in [&good, &evil] {
            std::fs::write(path, "words").unwrap();
            belongs_to_the_cage(path);
        }
        let cage = &held.at.cage;
        let arguments = ["flip", text(&good), text(&evil)];
        let flipping = attack(cage, "file", &arguments);
        tokio::pin!(flipping);
        let mut asked_for = HashMap::<PathBuf, usize>::new();
        let said = loop {
            tokio::select! {
                said = &mut flipping => break said,
                asked = held.asked.recv() => {
                    let asked = asked.unwrap();
                    *asked_for.entry(asked.attempt.path.clone()).or_default() += 1;
                    let verdict = if asked.attempt.path == good {
                        FileVerdict::Once
                    } else {
                        FileVerdict::Refuse
                    };
                    asked.answer(verdict);
                }
            }
        };
        let got: Vec<&str> = said
            .lines()
            .filter_map(|line| line.strip_prefix("got "))
            .collect();
        assert!(!got.is_empty(), "{asked_for:?}");
        assert!(got.iter().all(|path| Path::new(path) == good), "{got:?}");
        assert!(asked_for.contains_key(&evil), "{asked_for:?}");
    });
}
