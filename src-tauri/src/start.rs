//! Starting the app, from the first look at the display to its end.

use crate::app::RunsOnQuit;
use crate::desktop::{Desktop, make_window};
use crate::engines::Engines;
use crate::shell::Shell;
use crate::{board, commands, tray};
use foreman_engine::place;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use tauri::{App, AppHandle, Manager, RunEvent};
use tauri_plugin_window_state::StateFlags;
use tokio::signal::unix::{SignalKind, signal};

/// The exit code where the environment is not fit for a window.
const NO_DISPLAY: u8 = 9;

/// Runs the app to its end.
#[must_use]
pub fn run() -> ExitCode {
    start_log();
    if let Err(why) = display() {
        let text = format!(
            "{why}, so there is no window. Without one: `foreman demo` shows what this does, \
             `foreman serve` runs the engine, `foreman --help` has the rest.\n"
        );
        // There is nobody else to tell.
        let _ = std::io::stderr().write_all(text.as_bytes());
        return ExitCode::from(NO_DISPLAY);
    }
    let builder = commands::builder::<tauri::Wry>();
    let app = tauri::Builder::default()
        // First, so that a second start ends before it makes anything.
        .plugin(tauri_plugin_single_instance::init(second_start))
        .plugin(
            tauri_plugin_window_state::Builder::default()
                // Not whether it was hidden: the next start shows it.
                .with_state_flags(
                    StateFlags::SIZE
                        | StateFlags::POSITION
                        | StateFlags::MAXIMIZED
                        | StateFlags::FULLSCREEN,
                )
                .build(),
        )
        .invoke_handler(builder.invoke_handler())
        .setup(move |app| {
            builder.mount_events(app);
            set_up(app)
        })
        .build(context());
    match app {
        Ok(app) => ExitCode::from(u8::try_from(app.run_return(keep_running)).unwrap_or(70)),
        Err(error) => {
            let text = format!("The app could not be started: {error}\n");
            let _ = std::io::stderr().write_all(text.as_bytes());
            ExitCode::from(NO_DISPLAY)
        }
    }
}

/// Configuration, page and icons, as they were when this was built.
#[expect(clippy::exit, reason = "in the code that Tauri generates")]
fn context() -> tauri::Context<tauri::Wry> {
    tauri::generate_context!()
}

/// Logs go to stderr.
fn start_log() {
    let filter = std::env::var("FOREMAN_LOG").unwrap_or_else(|_| "info,sqlx=warn".to_owned());
    // Fails only where there is a log already.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}

/// Looks for a display before anything needs one.
fn display() -> Result<(), &'static str> {
    let is_named = ["WAYLAND_DISPLAY", "DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if !is_named {
        return Err("There is no display here");
    }
    gtk::init().map_err(|_| "The display cannot be opened")
}

fn set_up(app: &mut App) -> Result<(), Box<dyn std::error::Error>> {
    let handle = app.handle().clone();
    let folder = app.path().app_config_dir()?;
    let engines = Engines::new(place::from_environment());
    let shell = Arc::new(Shell::new(engines, &folder));
    app.manage(Arc::clone(&shell.engines));
    app.manage(Arc::clone(&shell));
    shell.appear(Box::new(Desktop(handle.clone())));
    make_window(&handle, &shell)?;
    shell.has_icon(tray::make(&handle, &shell));
    let runtime = tauri::async_runtime::handle();
    shell
        .tasks
        .spawn_on(board::watch(Arc::clone(&shell)), runtime.inner());
    shell
        .tasks
        .spawn_on(Arc::clone(&shell).follow_clicks(), runtime.inner());
    tauri::async_runtime::spawn(end_when_told(Arc::clone(&shell)));
    // What is not text is no link.
    let arguments = std::env::args_os()
        .skip(1)
        .filter_map(|argument| argument.into_string().ok());
    let arguments: Vec<String> = arguments.collect();
    tauri::async_runtime::spawn(async move { shell.open_arguments(&arguments).await });
    Ok(())
}

/// The app was started again: this one comes to the front, and follows the link that was given.
fn second_start(app: &AppHandle, arguments: Vec<String>, _folder: String) {
    let Some(shell) = app.try_state::<Arc<Shell>>() else {
        return;
    };
    let shell = Arc::clone(&shell);
    shell.show();
    tauri::async_runtime::spawn(async move {
        shell
            .open_arguments(arguments.get(1..).unwrap_or_default())
            .await;
    });
}

/// Ends in good order when the session ends. Runs go on.
async fn end_when_told(shell: Arc<Shell>) {
    let told = async |kind: SignalKind| match signal(kind) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(error) => {
            tracing::warn!(%error, "a signal to end is not heard");
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = told(SignalKind::terminate()) => {}
        () = told(SignalKind::interrupt()) => {}
        () = told(SignalKind::hangup()) => {}
        () = shell.cancel.cancelled() => return,
    }
    if let Err(failure) = shell.quit(RunsOnQuit::Keep).await {
        tracing::warn!(%failure, "the app ends all the same");
        shell.end().await;
    }
}

/// A window that went away by itself does not end the app; only quitting does.
fn keep_running(app: &AppHandle, event: RunEvent) {
    if let RunEvent::ExitRequested {
        code: None, api, ..
    } = event
    {
        let is_ending = app
            .try_state::<Arc<Shell>>()
            .is_none_or(|shell| shell.cancel.is_cancelled());
        if !is_ending {
            api.prevent_exit();
            tracing::warn!("the window went away; quitting ends the app");
        }
    }
}
