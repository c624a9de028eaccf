//! The app without a window system: its commands over mock IPC, its links, its bindings.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bindings;
mod calls;
mod links;

use foreman_engine::HostOptions;
use sdf_lib::app::Navigation;
use sdf_lib::commands;
use sdf_lib::engines::Engines;
use sdf_lib::shell::{Shell, Surface};
use sdf_lib::tray::menu::Picture;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tauri::ipc::{CallbackFn, InvokeBody};
use tauri::test::{
    INVOKE_KEY, MockRuntime, get_ipc_response, mock_builder, mock_context, noop_assets,
};
use tauri::webview::InvokeRequest;
use tauri::{App, WebviewWindow, WebviewWindowBuilder};
use tempfile::TempDir;

/// What a window was asked for.
#[derive(Debug, Default, Clone)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn has(&self, text: &str) -> bool {
        self.0.lock().unwrap().iter().any(|noted| noted == text)
    }
}

impl Surface for Recorder {
    fn tell(&self, to: &Navigation) {
        self.note(serde_json::to_string(to).unwrap());
    }
    fn show(&self) {
        self.note("show");
    }
    fn hide(&self) {
        self.note("hide");
    }
    fn is_focused(&self) -> bool {
        false
    }
    fn paint(&self, _: &Picture) {}
    fn choose_folder(
        &self,
        chosen: tokio::sync::oneshot::Sender<Option<PathBuf>>,
    ) -> Result<(), foreman_domain::Failure> {
        chosen.send(Some("/srv/repo".into())).unwrap();
        Ok(())
    }
    fn end(&self) {
        self.note("end");
    }
}

/// An app on a data directory of its own.
struct Bench {
    folder: TempDir,
    shell: Arc<Shell>,
    seen: Recorder,
    window: WebviewWindow<MockRuntime>,
    _app: App<MockRuntime>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("sdf").tempdir().unwrap();
        let options = HostOptions {
            data_dir: data_dir(folder.path()),
            runtime_dir: None,
            shim_program: None,
        };
        let shell = Arc::new(Shell::new(
            Engines::new(Ok(options)),
            &folder.path().join("config"),
        ));
        let seen = Recorder::default();
        shell.appear(Box::new(seen.clone()));
        let app = mock_builder()
            .manage(Arc::clone(&shell.engines))
            .manage(Arc::clone(&shell))
            .invoke_handler(commands::builder::<MockRuntime>().invoke_handler())
            .build(mock_context(noop_assets()))
            .unwrap();
        let window = WebviewWindowBuilder::new(&app, "main", tauri::WebviewUrl::default())
            .build()
            .unwrap();
        Self {
            folder,
            shell,
            seen,
            window,
            _app: app,
        }
    }

    fn data_dir(&self) -> PathBuf {
        data_dir(self.folder.path())
    }

    /// Calls a command as the page does.
    fn call(
        &self,
        name: &str,
        arguments: serde_json::Value,
    ) -> Result<serde_json::Value, serde_json::Value> {
        let request = InvokeRequest {
            cmd: name.to_owned(),
            callback: CallbackFn(0),
            error: CallbackFn(1),
            url: "tauri://localhost".parse().unwrap(),
            body: InvokeBody::Json(arguments),
            headers: tauri::http::HeaderMap::default(),
            invoke_key: INVOKE_KEY.to_owned(),
        };
        get_ipc_response(&self.window, request).map(|answer| answer.deserialize().unwrap())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        tauri::async_runtime::block_on(self.shell.engines.close());
    }
}

fn data_dir(folder: &Path) -> PathBuf {
    folder.join("data")
}
