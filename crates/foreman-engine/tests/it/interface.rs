//! The machine interface as committed.

#[test]
fn the_committed_schema_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema.json");
    let committed: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(
        committed == foreman_engine::api::schema(),
        "docs/schema.json is out of date; write it anew: \
         cargo run -p foreman-engine --example schema > docs/schema.json"
    );
}

#[test]
fn every_command_has_a_request_and_an_answer_in_the_schema() {
    let schema = foreman_engine::api::schema();
    for name in foreman_engine::api::COMMAND_NAMES {
        let command = &schema["commands"][name];
        assert!(
            command["request"].is_object() && command["response"].is_object(),
            "{name}"
        );
    }
}
