//! What a title bar does: there is no window manager on a test's screen.

use anyhow::{Context, Result};
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    AtomEnum, ClientMessageEvent, ConnectionExt as _, EventMask, MapState, Window,
};
use x11rb::rust_connection::RustConnection;

/// A connection to a screen.
#[derive(Debug)]
pub struct Screen {
    connection: RustConnection,
    root: Window,
}

impl Screen {
    /// Connects to a display.
    ///
    /// # Errors
    /// It is not there.
    pub fn of(display: &str) -> Result<Self> {
        let (connection, number) =
            x11rb::connect(Some(display)).context("connect to the screen")?;
        let root = connection.setup().roots[number].root;
        Ok(Self { connection, root })
    }

    /// The window of this title that can be seen.
    ///
    /// # Errors
    /// The screen does not answer.
    pub fn window(&self, title: &str) -> Result<Option<Window>> {
        for window in self.connection.query_tree(self.root)?.reply()?.children {
            let shown = self.connection.get_window_attributes(window)?.reply();
            if !shown.is_ok_and(|shown| shown.map_state == MapState::VIEWABLE) {
                continue;
            }
            let name = self
                .connection
                .get_property(false, window, AtomEnum::WM_NAME, AtomEnum::ANY, 0, 256)?
                .reply();
            if name.is_ok_and(|name| name.value.starts_with(title.as_bytes())) {
                return Ok(Some(window));
            }
        }
        Ok(None)
    }

    /// Asks a window to close, as its title bar's button does.
    ///
    /// # Errors
    /// The screen does not answer.
    pub fn close(&self, window: Window) -> Result<()> {
        let atom = |name: &str| -> Result<u32> {
            Ok(self
                .connection
                .intern_atom(false, name.as_bytes())?
                .reply()?
                .atom)
        };
        let (protocols, delete) = (atom("WM_PROTOCOLS")?, atom("WM_DELETE_WINDOW")?);
        let message = ClientMessageEvent::new(32, window, protocols, [delete, 0, 0, 0, 0]);
        self.connection
            .send_event(false, window, EventMask::NO_EVENT, message)?
            .check()?;
        Ok(())
    }
}
