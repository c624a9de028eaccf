//! The desktop's own commands: what no engine can answer. They are typed and generated like the
//! engine's, and the window can call nothing else of this process.

mod types;

pub use types::*;

use crate::shell::Shell;
use foreman_domain::Failure;
use foreman_engine::api::Nothing;
use std::sync::Arc;
use tauri::State;

/// What this app is and what it finds around it.
///
/// # Errors
/// None today; the window treats all calls alike.
#[tauri::command]
#[specta::specta]
pub async fn app_info(shell: State<'_, Arc<Shell>>) -> Result<AppInfo, Failure> {
    Ok(shell.info().await)
}

/// What the operator set in the window.
///
/// # Errors
/// When the file of settings cannot be read.
#[tauri::command]
#[specta::specta]
pub async fn app_settings(shell: State<'_, Arc<Shell>>) -> Result<Settings, Failure> {
    shell.settings.read()
}

/// Keeps what the operator set.
///
/// # Errors
/// When a program's name cannot be used, or the file cannot be written.
#[tauri::command]
#[specta::specta]
pub async fn app_settings_save(
    shell: State<'_, Arc<Shell>>,
    settings: Settings,
) -> Result<Settings, Failure> {
    shell.settings.save(settings)
}

/// Where the window is to go, as far as it was not told yet. From now on it is told by the event
/// `navigate`: listen first, then call this.
///
/// # Errors
/// None today; the window treats all calls alike.
#[tauri::command]
#[specta::specta]
pub async fn app_take_navigation(shell: State<'_, Arc<Shell>>) -> Result<Vec<Navigation>, Failure> {
    Ok(shell.navigations.take())
}

/// Opens a run's worktree. Where something is planted that a program would load by itself, it only
/// says so, until that is confirmed.
///
/// # Errors
/// When there is no such run or worktree, or no program to open it with.
#[tauri::command]
#[specta::specta]
pub async fn app_open_worktree(
    shell: State<'_, Arc<Shell>>,
    request: OpenWorktree,
) -> Result<Opened, Failure> {
    shell.open_worktree(request).await
}

/// Lets the operator choose a folder; `None` when they choose none.
///
/// # Errors
/// Where there is no such dialog.
#[tauri::command]
#[specta::specta]
pub async fn app_choose_folder(shell: State<'_, Arc<Shell>>) -> Result<Option<String>, Failure> {
    shell.choose_folder().await
}

/// Starts the demo: from now on its own engine, in a private world, answers every command.
///
/// # Errors
/// When the world cannot be made on this machine, or the program `foreman` is not there.
#[tauri::command]
#[specta::specta]
pub async fn app_demo_start(shell: State<'_, Arc<Shell>>) -> Result<DemoView, Failure> {
    shell.inner().start_demo().await
}

/// Leaves the demo: the operator's own engine answers again, and everything of the demo is removed.
///
/// # Errors
/// None today; the window treats all calls alike.
#[tauri::command]
#[specta::specta]
pub async fn app_demo_end(shell: State<'_, Arc<Shell>>) -> Result<Nothing, Failure> {
    shell.end_demo();
    Ok(Nothing {})
}

/// The demo, while it is on.
///
/// # Errors
/// None today; the window treats all calls alike.
#[tauri::command]
#[specta::specta]
pub async fn app_demo_state(shell: State<'_, Arc<Shell>>) -> Result<Option<DemoView>, Failure> {
    Ok(shell.demo_view())
}

/// Ends the app, with or without its runs.
///
/// # Errors
/// When a run could not be stopped; the app goes on then.
#[tauri::command]
#[specta::specta]
pub async fn app_quit(shell: State<'_, Arc<Shell>>, request: Quit) -> Result<Nothing, Failure> {
    shell.inner().quit(request.runs).await?;
    Ok(Nothing {})
}
