//! Refusals: one shape, stable exit codes.

use crate::program::{Program, code, object, stderr};

#[test]
fn without_a_home_there_is_a_sentence() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_foreman"))
        .arg("runs")
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(code(&output), 9);
    assert!(
        stderr(&output).contains("no home directory"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn without_runs_the_list_is_empty_in_json() {
    let value = object(&Program::new().run(&["runs", "--json"]));
    assert_eq!(value["v"], 1);
    assert_eq!(value["runs"].as_array().map(Vec::len), Some(0));
}

#[test]
fn without_a_terminal_a_decision_needs_the_token_of_what_was_shown() {
    let program = Program::new();
    for args in [["amend", "b1"], ["deny", "b1"], ["merge", "last"]] {
        let output = program.run(&args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains("--expect"),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn an_unknown_run_is_not_found() {
    let program = Program::new();
    for args in [
        ["show", "last"],
        ["attach", "last"],
        ["diff", "rzzzzzzz"],
        ["events", "last"],
    ] {
        let output = program.run(&args);
        assert_eq!(code(&output), 3, "{args:?}: {}", stderr(&output));
        let value = object(&program.run(&["--json", args[0], args[1]]));
        assert_eq!(value["error"]["code"], "not_found", "{args:?}");
    }
}

#[test]
fn bad_input_of_run_is_said_before_anything_is_made() {
    let program = Program::new();
    for (args, words) in [
        (&["--allow", "registry.example"][..], "port"),
        (&["--bounds", "wall=banana"], "banana"),
        (&["--policy", "missing.toml"], "missing.toml"),
        (&["--env", "NOT_SET_HERE"], "NOT_SET_HERE"),
    ] {
        let args = [&["run"], args, &["--", "true"]].concat();
        let output = program.run(&args);
        assert_eq!(code(&output), 3, "{args:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(words),
            "{args:?}: {}",
            stderr(&output)
        );
    }
    let output = program.run(&["run", "--tty", "--", "true"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("terminal"), "{}", stderr(&output));
}

#[test]
fn not_a_repository_is_a_sentence_of_bad_input() {
    let output = Program::new().run(&["run", "--", "true"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(!stderr(&output).contains("Error"), "{}", stderr(&output));
}
