//! Prints the JSON Schema of the machine interface, for `docs/schema.json`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(&foreman_engine::api::schema())?;
    writeln!(std::io::stdout(), "{text}")
}
