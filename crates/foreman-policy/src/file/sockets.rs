//! `[[socket]]`: which Unix sockets of the host may be connected to.

use super::PolicyFile;
use super::paths::plain;
use super::section::Section;
use crate::error::{Fault, PolicyError, quoted};
use crate::{Origin, SocketRule, Use, socket_floor, socket_gives_away};

pub(super) fn read(
    section: &Section<'_>,
    origin: Origin,
    file: &mut PolicyFile,
) -> Result<(), PolicyError> {
    section.only(&["path", "reason", "expires"])?;
    let text = section.needed_text("path")?;
    let socket = plain(text).map_err(|fault| section.at_value("path", fault))?;
    let fault = match socket_floor(&socket, &[]) {
        Some(why) => Some(Fault::new(format!(
            "{} is {why}, so no rule can open it",
            quoted(text)
        ))),
        None if text.ends_with('/') => Some(
            Fault::new(format!("{} names a folder", quoted(text)))
                .hint("A rule opens one socket; name it."),
        ),
        None => None,
    };
    if let Some(fault) = fault {
        return Err(section.at_value("path", fault));
    }
    if let Some(earlier) = file.sockets.iter().find(|earlier| earlier.socket == socket) {
        let fault = Fault::new(format!(
            "the rule for {} repeats that of {}",
            quoted(text),
            earlier.origin.source
        ));
        return Err(section.at_start(fault.hint("Remove one of them.")));
    }
    if let Some(what) = socket_gives_away(&socket) {
        file.warnings
            .push(format!("{} opens {what}", origin.source));
    }
    file.sockets.push(SocketRule {
        origin,
        socket,
        applies: Use::Always,
        expires: super::egress::expires(section)?,
    });
    Ok(())
}
