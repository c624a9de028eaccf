//! `toolchains`, `secrets` and `[env]`: what a run is to be given beside what it may reach.

use super::PolicyFile;
use super::section::Section;
use crate::error::{Fault, PolicyError, quoted};
use crate::secret::{is_secret_name, secret_use};
use crate::toolchain;
use toml_edit::Item;

/// Most entries of one list.
const MOST: usize = 64;

pub(super) fn read(top: &Section<'_>, file: &mut PolicyFile) -> Result<(), PolicyError> {
    if let Some(words) = texts(top, "toolchains", "[\"rust\", \"node\"]")? {
        let found = toolchain::list(&words).map_err(|fault| top.at_value("toolchains", fault))?;
        file.toolchains = Some(found);
    }
    for text in texts(top, "secrets", "[\"NAME\", \"NAME=VARIABLE\"]")?.unwrap_or_default() {
        let found = secret_use(text).map_err(|fault| top.at_value("secrets", fault))?;
        if file
            .secrets
            .iter()
            .any(|known| known.variable == found.variable)
        {
            let fault = Fault::new(format!(
                "the variable {} is to hold two secrets",
                quoted(&found.variable)
            ));
            return Err(top.at_value("secrets", fault));
        }
        file.secrets.push(found);
    }
    let Some(item) = top.get("env") else {
        return Ok(());
    };
    let table = item.as_table_like().ok_or_else(|| {
        let fault = Fault::new("\"env\" is one table").hint("Write [env] and pass = [\"NAME\"].");
        top.at_key("env", fault)
    })?;
    let section = Section::new(top.source(), "[env]", table, item.span());
    section.only(&["pass"])?;
    for name in texts(&section, "pass", "[\"NAME\"]")?.unwrap_or_default() {
        if !is_secret_name(name) {
            let fault = Fault::new(format!("{} is not the name of a variable", quoted(name)))
                .hint("Only names stand here; a value is given with --env NAME=VALUE.");
            return Err(section.at_value("pass", fault));
        }
        file.env.push(name.to_owned());
    }
    Ok(())
}

/// A list of texts, when the key is there.
fn texts<'a>(
    section: &Section<'a>,
    key: &'static str,
    example: &str,
) -> Result<Option<Vec<&'a str>>, PolicyError> {
    let wrong = || {
        let fault = Fault::new(format!("{} is a list of texts", quoted(key)))
            .hint(format!("Write {key} = {example}."));
        section.at_value(key, fault)
    };
    let Some(item) = section.get(key) else {
        return Ok(None);
    };
    let array = match item {
        Item::Value(value) => value.as_array().ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    if array.len() > MOST {
        let fault = Fault::new(format!("{} has more than {MOST} entries", quoted(key)));
        return Err(section.at_value(key, fault));
    }
    array
        .iter()
        .map(|value| value.as_str().ok_or_else(wrong))
        .collect::<Result<_, _>>()
        .map(Some)
}
