use specta_typescript::Typescript;

#[test]
fn the_bindings_in_the_tree_are_those_of_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bindings.ts");
    sdf_lib::commands::builder::<tauri::Wry>()
        .export(Typescript::default(), &file)
        .unwrap();
    let fresh = std::fs::read_to_string(file).unwrap();
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../ui/src/ipc/bindings.ts");
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(
        fresh == kept,
        "cargo run -q -p sdf --example bindings -- ui/src/ipc/bindings.ts"
    );
}
