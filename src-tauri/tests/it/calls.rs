use super::Bench;
use serde_json::json;

#[test]
fn a_command_of_the_engine_is_answered() {
    let bench = Bench::new();
    let runs = bench.call("run_list", json!({ "request": {} })).unwrap();
    assert_eq!(runs["runs"], json!([]));
    assert!(bench.shell.engines.is_hosting());
    let info = bench.call("app_info", json!({})).unwrap();
    assert_eq!(info["hosting"], true);
    assert_eq!(info["data_dir"], bench.data_dir().to_str().unwrap());
}

#[test]
fn a_refusal_is_typed_and_a_bad_argument_is_text() {
    let bench = Bench::new();
    let refused = bench
        .call("run_show", json!({ "request": { "run": "rkk2mqdx" } }))
        .unwrap_err();
    assert_eq!(refused["code"], "not_found", "{refused}");
    let bad = bench.call("run_show", json!({ "request": 7 })).unwrap_err();
    assert!(bad.is_string(), "{bad}");
    let unknown = bench.call("shell_out", json!({})).unwrap_err();
    assert!(unknown.is_string(), "{unknown}");
}

#[test]
fn an_engine_that_cannot_be_opened_is_said_and_tried_again() {
    let bench = Bench::new();
    std::fs::write(bench.data_dir(), "in the way").unwrap();
    let refused = bench
        .call("run_list", json!({ "request": {} }))
        .unwrap_err();
    assert_eq!(refused["code"], "environment", "{refused}");
    assert_eq!(bench.call("app_info", json!({})).unwrap()["hosting"], false);
    std::fs::remove_file(bench.data_dir()).unwrap();
    bench.call("run_list", json!({ "request": {} })).unwrap();
}

#[test]
fn settings_are_kept_and_checked() {
    let bench = Bench::new();
    let mut settings = bench.call("app_settings", json!({})).unwrap();
    assert_eq!(settings["keep_in_tray"], true);
    settings["theme"] = json!("light");
    bench
        .call("app_settings_save", json!({ "settings": settings }))
        .unwrap();
    assert_eq!(
        bench.call("app_settings", json!({})).unwrap()["theme"],
        "light"
    );
    settings["editor"] = json!("rm -rf /\n");
    let refused = bench
        .call("app_settings_save", json!({ "settings": settings }))
        .unwrap_err();
    assert_eq!(refused["code"], "bad_input");
}

#[test]
fn a_chosen_folder_is_answered() {
    let bench = Bench::new();
    assert_eq!(
        bench.call("app_choose_folder", json!({})).unwrap(),
        json!("/srv/repo")
    );
}

#[test]
fn a_worktree_of_a_run_that_is_not_there_is_not_opened() {
    let bench = Bench::new();
    let request = json!({ "run": "rkk2mqdx", "with": "files", "confirmed": true });
    let refused = bench
        .call("app_open_worktree", json!({ "request": request }))
        .unwrap_err();
    assert_eq!(refused["code"], "not_found");
}

#[test]
fn there_is_no_demo_until_one_is_started() {
    let bench = Bench::new();
    assert_eq!(
        bench.call("app_demo_state", json!({})).unwrap(),
        json!(null)
    );
    bench.call("app_demo_end", json!({})).unwrap();
}

#[test]
fn quitting_ends_the_engine_and_the_app() {
    let bench = Bench::new();
    bench.call("run_list", json!({ "request": {} })).unwrap();
    bench
        .call("app_quit", json!({ "request": { "runs": "keep" } }))
        .unwrap();
    assert!(bench.seen.has("end"));
    assert!(!bench.shell.engines.is_hosting());
    let refused = bench
        .call("run_list", json!({ "request": {} }))
        .unwrap_err();
    assert_eq!(refused["code"], "busy");
}

#[test]
fn closing_the_window_without_a_panel_and_without_runs_quits() {
    let bench = Bench::new();
    tauri::async_runtime::block_on(std::sync::Arc::clone(&bench.shell).window_closed());
    assert!(bench.seen.has("end"));
}
