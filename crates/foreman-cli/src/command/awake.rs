//! `foreman awake`.

use super::Done;
use crate::answer::Answer;
use crate::args::AwakeArgs;
use foreman_domain::{ExitCode, sanitize_line};
use foreman_engine::api::{AwakeRequest, Commands, KeepAwake};

/// Sets when sleep is held off, and says how it stands.
pub async fn awake(args: AwakeArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let request = AwakeRequest {
        when: args.when.map(Into::into),
        floor: args.floor,
    };
    let view = engine.awake(request).await?;
    if answer.is_json() {
        answer.object(&view)?;
        return Ok(ExitCode::Ok);
    }
    let set = match view.when {
        KeepAwake::Never => "never".to_owned(),
        KeepAwake::Power => "while a run is at work, on external power".to_owned(),
        KeepAwake::Always => format!(
            "while a run is at work, on battery down to {} %",
            view.floor
        ),
    };
    answer.line(&format!("Sleep is held off {set}."))?;
    answer.line(&format!("Now: {}.", sanitize_line(&view.words)))?;
    Ok(ExitCode::Ok)
}
