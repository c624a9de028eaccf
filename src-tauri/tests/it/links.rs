use super::Bench;
use serde_json::{Value, json};

/// Where a link leads, and that the window came to the front.
fn follow(bench: &Bench, link: &str) -> Value {
    tauri::async_runtime::block_on(bench.shell.open_link(link));
    assert!(bench.seen.has("show"));
    let mut told = bench.call("app_take_navigation", json!({})).unwrap();
    bench.shell.navigations.deafen();
    told.as_array_mut().unwrap().pop().unwrap()
}

#[test]
fn links_to_what_is_not_there_end_in_the_inbox_with_a_sentence() {
    let bench = Bench::new();
    for link in [
        "sdf://block/rkk2mqdx-b1",
        "sdf://run/rkk2mqdx",
        "sdf://run/..%2f..",
        "sdf://elsewhere/x",
        "sdf://block/rkk2mqdx-b1?t=0123456789abcdef",
        &format!("sdf://run/{}", "r".repeat(100_000)),
    ] {
        let to = follow(&bench, link);
        assert_eq!(to["kind"], "inbox", "{to}");
        let sentence = to["sentence"].as_str().unwrap();
        assert!(sentence.len() > 20 && sentence.len() < 300, "{sentence}");
    }
}

#[test]
fn a_link_fills_a_form_in_and_hands_nothing_in() {
    let bench = Bench::new();
    let to = follow(&bench, "sdf://order/new?title=a&prompt=b&repo=/srv/r");
    assert_eq!(
        to,
        json!({ "kind": "order", "draft": { "title": "a", "prompt": "b", "repo": "/srv/r" } })
    );
    let orders = bench
        .call("order_list", json!({ "request": { "all": true } }))
        .unwrap();
    assert_eq!(orders["orders"], json!([]));
}

#[test]
fn a_page_that_listens_is_told_at_once() {
    let bench = Bench::new();
    assert_eq!(
        bench.call("app_take_navigation", json!({})).unwrap(),
        json!([])
    );
    tauri::async_runtime::block_on(
        bench
            .shell
            .open_arguments(&["--flag", "sdf://order/new?title=a"].map(String::from)),
    );
    let told = json!({ "kind": "order", "draft": { "title": "a", "prompt": null, "repo": null } });
    let text = bench
        .seen
        .0
        .lock()
        .unwrap()
        .iter()
        .any(|noted| serde_json::from_str::<Value>(noted).is_ok_and(|noted| noted == told));
    assert!(text);
    assert_eq!(
        bench.call("app_take_navigation", json!({})).unwrap(),
        json!([])
    );
}
