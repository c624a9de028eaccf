//! The window, as the rest of the app knows it.

use crate::app::{Navigate, Navigation};
use crate::shell::{Shell, Surface};
use crate::tray;
use crate::tray::menu::Picture;
use foreman_domain::{Code, Failure};
use std::path::PathBuf;
use std::sync::Arc;
use tauri::webview::{NewWindowResponse, PageLoadEvent};
use tauri::{AppHandle, Manager, Runtime, Url, WebviewWindow, WebviewWindowBuilder, WindowEvent};
use tauri_specta::Event;
use tokio::sync::oneshot;

/// The one window.
const WINDOW: &str = "main";

/// The app's window and icon.
#[derive(Debug)]
pub struct Desktop<R: Runtime>(pub AppHandle<R>);

/// Makes the window. It shows nothing but the pages of this app.
///
/// # Errors
/// When it cannot be made.
pub fn make_window<R: Runtime>(
    app: &AppHandle<R>,
    shell: &Arc<Shell>,
) -> tauri::Result<WebviewWindow<R>> {
    let config = app
        .config()
        .app
        .windows
        .iter()
        .find(|window| window.label == WINDOW);
    let config = config.ok_or(tauri::Error::WindowNotFound)?;
    let reloading = Arc::clone(shell);
    let window = WebviewWindowBuilder::from_config(app, config)?
        .on_navigation(is_ours)
        .on_new_window(|_, _| NewWindowResponse::Deny)
        .on_page_load(move |_, page| {
            if matches!(page.event(), PageLoadEvent::Started) {
                reloading.navigations.deafen();
            }
        })
        .build()?;
    let closing = Arc::clone(shell);
    window.on_window_event(move |event| {
        if let WindowEvent::CloseRequested { api, .. } = event {
            api.prevent_close();
            let shell = Arc::clone(&closing);
            // Not one of the tasks whose end is waited for: it may be what ends the app.
            tauri::async_runtime::spawn(shell.window_closed());
        }
    });
    Ok(window)
}

/// True for the pages of this app.
fn is_ours(url: &Url) -> bool {
    match url.scheme() {
        "tauri" => url.host_str() == Some("localhost"),
        "http" | "https" => url.host_str() == Some("tauri.localhost"),
        _ => false,
    }
}

impl<R: Runtime> Desktop<R> {
    fn window(&self) -> Option<WebviewWindow<R>> {
        self.0.get_webview_window(WINDOW)
    }
}

fn tell<T>(what: &str, done: tauri::Result<T>) {
    if let Err(error) = done {
        tracing::warn!(%error, "{what}");
    }
}

impl<R: Runtime> Surface for Desktop<R> {
    fn tell(&self, to: &Navigation) {
        tell(
            "the page was not told where to go",
            Navigate(to.clone()).emit(&self.0),
        );
    }

    fn show(&self) {
        if let Some(window) = self.window() {
            tell("the window was not shown", window.show());
            tell("the window was not restored", window.unminimize());
            tell("the window was not put in front", window.set_focus());
        }
    }

    fn hide(&self) {
        if let Some(window) = self.window() {
            tell("the window was not hidden", window.hide());
        }
    }

    fn is_focused(&self) -> bool {
        self.window().is_some_and(|window| {
            window.is_visible().unwrap_or(false) && window.is_focused().unwrap_or(false)
        })
    }

    fn paint(&self, picture: &Picture) {
        let app = self.0.clone();
        let picture = picture.clone();
        let shown = self.0.run_on_main_thread(move || {
            tell("the menu was not made", tray::show(&app, &picture));
        });
        tell("the menu was not shown", shown);
    }

    fn choose_folder(&self, chosen: oneshot::Sender<Option<PathBuf>>) -> Result<(), Failure> {
        let window = self.window();
        self.0
            .run_on_main_thread(move || folder_dialog(window.as_ref(), chosen))
            .map_err(|error| {
                Failure::new(
                    Code::Internal,
                    format!("the dialog cannot be shown: {error}"),
                )
            })
    }

    fn end(&self) {
        self.0.exit(0);
    }
}

/// Shows the desktop's own dialog; `chosen` is dropped where there is none.
fn folder_dialog<R: Runtime>(
    window: Option<&WebviewWindow<R>>,
    chosen: oneshot::Sender<Option<PathBuf>>,
) {
    use gtk::prelude::{FileChooserExt, NativeDialogExt};
    use std::cell::RefCell;
    use std::rc::Rc;

    let parent = window.and_then(|window| window.gtk_window().ok());
    let dialog = Rc::new(gtk::FileChooserNative::new(
        Some("Choose a folder"),
        parent.as_ref(),
        gtk::FileChooserAction::SelectFolder,
        Some("Choose"),
        Some("Cancel"),
    ));
    dialog.set_modal(true);
    let chosen = RefCell::new(Some(chosen));
    // The handler keeps the dialog until it is answered.
    let kept = RefCell::new(Some(Rc::clone(&dialog)));
    dialog.connect_response(move |dialog, response| {
        let path = (response == gtk::ResponseType::Accept)
            .then(|| dialog.filename())
            .flatten();
        if let Some(chosen) = chosen.take() {
            // Whoever asked may not wait any more.
            let _ = chosen.send(path);
        }
        drop(kept.take());
    });
    dialog.show();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_shows_nothing_but_pages_of_this_app() {
        for ours in ["tauri://localhost/", "tauri://localhost/index.html#/run/x"] {
            assert!(is_ours(&ours.parse().unwrap()), "{ours}");
        }
        for other in [
            "https://example.com/",
            "http://localhost:5173/",
            "tauri://evil/",
            "file:///etc/passwd",
            "data:text/html,x",
            "javascript:alert(1)",
            "about:blank",
        ] {
            assert!(!is_ours(&other.parse().unwrap()), "{other}");
        }
    }
}
