//! Writes the TypeScript bindings: `cargo run -q -p sdf --example bindings -- ui/src/ipc/bindings.ts`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1).ok_or("name the file to write")?;
    let builder = sdf_lib::commands::builder::<tauri::Wry>();
    builder.export(specta_typescript::Typescript::default(), file)?;
    Ok(())
}
