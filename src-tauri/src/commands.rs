//! A typed command for each of the declared command list. The window can call nothing else of the
//! engine, and each argument is checked by its type here and by the engine again.

use foreman_domain::Failure;
use foreman_engine::Host;
use foreman_engine::api::*;
use std::sync::Arc;
use tauri::State;

macro_rules! adapters {
    ($($(#[$doc:meta])* $name:ident = $wire:literal: $request:ty => $response:ty;)*) => {
        $($(#[$doc])*
        #[tauri::command]
        #[specta::specta]
        pub async fn $name(
            host: State<'_, Arc<Host>>,
            request: $request,
        ) -> Result<$response, Failure> {
            Commands::$name(host.inner().as_ref(), request).await
        })*

        /// All of them, with their types.
        pub fn builder<R: tauri::Runtime>() -> tauri_specta::Builder<R> {
            tauri_specta::Builder::new()
                .disable_serde_phases()
                // Ids are text, and counts and bytes stay far below 2^53.
                .dangerously_cast_bigints_to_number()
                .commands(tauri_specta::collect_commands![$($name),*])
        }
    };
}

foreman_engine::for_each_command!(adapters);
