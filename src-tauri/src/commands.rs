//! A typed command for each of the declared command list, and the desktop's own. The window can call
//! nothing else, and each argument is checked by its type here and by the engine again.

use crate::app;
use crate::engines::Engines;
use foreman_domain::Failure;
use foreman_engine::api::*;
use std::sync::Arc;
use tauri::State;

macro_rules! adapters {
    ($($(#[$doc:meta])* $name:ident = $wire:literal: $request:ty => $response:ty;)*) => {
        $($(#[$doc])*
        #[tauri::command]
        #[specta::specta]
        pub async fn $name(
            engines: State<'_, Arc<Engines>>,
            request: $request,
        ) -> Result<$response, Failure> {
            let engine = engines.current().await?;
            Remote(engine).$name(request).await
        })*

        /// All of them, with their types.
        pub fn builder<R: tauri::Runtime>() -> tauri_specta::Builder<R> {
            tauri_specta::Builder::new()
                .disable_serde_phases()
                // Ids are text, and counts and bytes stay far below 2^53.
                .dangerously_cast_bigints_to_number()
                .commands(tauri_specta::collect_commands![
                    $($name,)*
                    app::app_info,
                    app::app_settings,
                    app::app_settings_save,
                    app::app_take_navigation,
                    app::app_open_worktree,
                    app::app_choose_folder,
                    app::app_demo_start,
                    app::app_demo_end,
                    app::app_demo_state,
                    app::app_quit
                ])
                .events(tauri_specta::collect_events![app::Navigate])
        }
    };
}

foreman_engine::for_each_command!(adapters);
