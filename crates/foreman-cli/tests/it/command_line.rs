//! Help, usage, and what is said without an engine.

use crate::program::{Program, code, object, stderr, stdout};

#[test]
fn help_lists_every_command_and_goes_to_stdout() {
    let output = Program::new().run(&["--help"]);
    assert_eq!(code(&output), 0);
    let text = stdout(&output);
    for command in [
        "run", "demo", "attach", "blocks", "amend", "deny", "undo", "runs", "show", "events",
        "diff", "merge", "discard", "restore", "stop", "policy", "doctor", "why",
    ] {
        assert!(
            text.contains(&format!("\n  {command} ")),
            "{command} is missing:\n{text}"
        );
    }
    assert!(!text.contains("demo-server"), "hidden commands stay hidden");
    assert!(text.contains("Exit codes:"));
}

#[test]
fn help_of_run_documents_keys_and_terminal_mode() {
    let output = Program::new().run(&["run", "--help"]);
    let text = stdout(&output);
    for words in ["Ctrl-]", "half a second", "--unattended", "Examples:"] {
        assert!(text.contains(words), "{words} is missing:\n{text}");
    }
}

#[test]
fn a_wrong_command_line_is_usage() {
    for args in [
        &["fly"][..],
        &["run"],
        &["amend"],
        &["run", "--bounds", "--", "x"],
    ] {
        let output = Program::new().run(args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(stdout(&output).is_empty());
        assert!(!stderr(&output).is_empty());
    }
}

#[test]
fn a_wrong_command_line_with_json_is_an_error_object_on_stdout() {
    let output = Program::new().run(&["--json", "fly"]);
    assert_eq!(code(&output), 2);
    let value = object(&output);
    assert_eq!(value["error"]["code"], "usage");
    assert!(value["error"]["message"].as_str().unwrap().contains("fly"));
    assert!(stderr(&output).is_empty());
}

#[test]
fn json_behind_the_double_dash_is_the_agents() {
    let output = Program::new().run(&["run", "--nonsense", "--", "agent", "--json"]);
    assert_eq!(code(&output), 2);
    assert!(stdout(&output).is_empty());
}

#[test]
fn why_outside_a_cage_says_that_it_works_inside() {
    let output = Program::new().run(&["why"]);
    assert_eq!(code(&output), 3);
    assert!(
        stderr(&output).contains("inside a cage"),
        "{}",
        stderr(&output)
    );
    assert_eq!(
        object(&Program::new().run(&["why", "--json"]))["error"]["code"],
        "bad_input"
    );
}

#[test]
fn the_version_is_printed() {
    let output = Program::new().run(&["--version"]);
    assert_eq!(
        (code(&output), stdout(&output).starts_with("foreman ")),
        (0, true)
    );
}
