//! The icon in the panel and its menu. Everything is in the menu: many panels open it on any click.

pub mod menu;

use crate::app::RunsOnQuit;
use crate::shell::Shell;
use menu::{Choice, Entry, Picture};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tauri::menu::{IsMenuItem, Menu, MenuItem, PredefinedMenuItem};
use tauri::tray::TrayIconBuilder;
use tauri::{AppHandle, Runtime};

const ID: &str = "main";

/// Makes the icon. False where that is not possible: the library for it may be missing.
pub fn make<R: Runtime>(app: &AppHandle<R>, shell: &Arc<Shell>) -> bool {
    // The binding of that library panics where it is missing.
    let made = catch_unwind(AssertUnwindSafe(|| build(app, shell)));
    match made {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::warn!(%error, "there is no icon in the panel");
            false
        }
        Err(_) => {
            tracing::warn!("there is no icon in the panel: the library for it is missing");
            false
        }
    }
}

fn build<R: Runtime>(app: &AppHandle<R>, shell: &Arc<Shell>) -> tauri::Result<()> {
    let shell = Arc::clone(shell);
    TrayIconBuilder::with_id(ID)
        .icon(tauri::include_image!("../icons/tray.png"))
        .tooltip("SDF")
        .menu(&menu_of(app, &Picture::default())?)
        .on_menu_event(move |_, event| {
            if let Some(choice) = Choice::of_id(event.id().as_ref()) {
                chosen(&shell, choice);
            }
        })
        .build(app)?;
    Ok(())
}

/// Shows what there is now.
///
/// # Errors
/// When the menu cannot be made.
pub fn show<R: Runtime>(app: &AppHandle<R>, picture: &Picture) -> tauri::Result<()> {
    let Some(tray) = app.tray_by_id(ID) else {
        return Ok(());
    };
    tray.set_menu(Some(menu_of(app, picture)?))?;
    tray.set_icon(Some(match picture.needs_you {
        0 => tauri::include_image!("../icons/tray.png"),
        1.. => tauri::include_image!("../icons/tray-needs-you.png"),
    }))
}

fn menu_of<R: Runtime>(app: &AppHandle<R>, picture: &Picture) -> tauri::Result<Menu<R>> {
    let mut items: Vec<Box<dyn IsMenuItem<R>>> = Vec::new();
    for entry in menu::entries(picture) {
        items.push(match entry {
            Entry::Separator => Box::new(PredefinedMenuItem::separator(app)?),
            Entry::Words(text) => Box::new(MenuItem::new(
                app,
                mnemonic_free(&text),
                false,
                None::<&str>,
            )?),
            Entry::Choice { choice, text } => Box::new(MenuItem::with_id(
                app,
                choice.id(),
                mnemonic_free(&text),
                true,
                None::<&str>,
            )?),
        });
    }
    let items: Vec<&dyn IsMenuItem<R>> = items.iter().map(AsRef::as_ref).collect();
    Menu::with_items(app, &items)
}

/// `&` marks a mnemonic in menus.
fn mnemonic_free(text: &str) -> String {
    text.replace('&', "&&")
}

fn chosen(shell: &Arc<Shell>, choice: Choice) {
    let shell = Arc::clone(shell);
    // Not one of the tasks whose end is waited for: it may be what ends the app.
    let work = async move {
        match choice {
            Choice::Block(id) => shell.go_to_block(id).await,
            Choice::Inbox => shell.navigate(crate::app::Navigation::Inbox { sentence: None }),
            Choice::Open => shell.show(),
            Choice::Pause => shell.pause(true).await,
            Choice::Resume => shell.pause(false).await,
            Choice::QuitAndKeep => shell.quit_or_say(RunsOnQuit::Keep).await,
            Choice::QuitAndStop => shell.quit_or_say(RunsOnQuit::Stop).await,
        }
    };
    tauri::async_runtime::spawn(work);
}
