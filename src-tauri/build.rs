//! Embeds the UI. Where it was not built, a page that says so stands in its place.

use std::path::Path;

/// What is shown when only the Rust side was built.
const NOT_BUILT: &str = "<!doctype html><title>SDF</title><p>The UI was not built: run \
                         <code>npm run build:ui</code> and build again.</p>";

fn main() -> std::io::Result<()> {
    let page = Path::new("../ui/dist/index.html");
    if !page.exists() {
        std::fs::create_dir_all("../ui/dist")?;
        std::fs::write(page, NOT_BUILT)?;
    }
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The web view loads the system's SQLite, and ours is bundled: what the program exported would
        // take the place of the system's, and both would be mixed.
        println!("cargo::rustc-link-arg-bins=-Wl,--exclude-libs,ALL");
    }
    tauri_build::build();
    Ok(())
}
