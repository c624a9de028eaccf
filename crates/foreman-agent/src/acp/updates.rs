//! What a `session/update` says.

use super::Acp;
use crate::port::Effect;
use crate::text::{Kind, PIECE, cut};
use crate::value::{at, count_at, microusd, name_at, readable};
use foreman_domain::AgentEvent;
use serde_json::Value;
use std::collections::BTreeMap;

/// Calls that are known at one time; the oldest names are forgotten beyond that.
const CALLS: usize = 1_024;

/// What was told of a call already. A call is begun at its first sight, by whatever message that is, and told with its
/// arguments as soon as there are some.
#[derive(Debug, Default)]
pub(super) struct Calls(BTreeMap<String, Call>);

#[derive(Debug, Default)]
struct Call {
    tool: String,
    is_told: bool,
    edits: Vec<String>,
}

impl Acp {
    pub(super) fn update(&mut self, message: &Value, out: &mut Vec<Effect>) {
        let nothing = Value::Null;
        let update = at(message, "params.update").unwrap_or(&nothing);
        let name = name_at(update, "sessionUpdate").unwrap_or_default();
        if let Some(updates) = &mut self.replays {
            *updates = updates.saturating_add(1);
            return;
        }
        let content = update.get("content").map(readable).unwrap_or_default();
        match name.as_str() {
            "agent_message_chunk" => self.text.push(Kind::Message, &content, out),
            "agent_thought_chunk" => self.text.push(Kind::Thought, &content, out),
            "tool_call" | "tool_call_update" => self.call(update, out),
            // How full its context is; only what it has cost so far is kept.
            "usage_update" => {
                let cost = at(update, "cost.amount").and_then(microusd);
                if cost.is_some() {
                    let event = AgentEvent::Usage {
                        total: true,
                        input: 0,
                        output: 0,
                        cached: 0,
                        cost_microusd: cost,
                    };
                    self.tell(event, out);
                }
            }
            // What we said ourselves, and the state of menus that nobody is shown.
            "user_message_chunk"
            | "plan"
            | "available_commands_update"
            | "current_mode_update"
            | "config_option_update"
            | "session_info_update" => {}
            _ => self.tell(AgentEvent::Unknown { name }, out),
        }
    }

    fn call(&mut self, update: &Value, out: &mut Vec<Effect>) {
        let call = name_at(update, "toolCallId").unwrap_or_default();
        if self.calls.0.len() >= CALLS && !self.calls.0.contains_key(&call) {
            self.calls.0.pop_first();
        }
        let known = self.calls.0.entry(call.clone()).or_default();
        if known.tool.is_empty() {
            let tool = name_at(update, "kind").or_else(|| name_at(update, "title"));
            known.tool = tool.unwrap_or_default();
        }
        let status = name_at(update, "status").unwrap_or_default();
        let is_over = matches!(status.as_str(), "completed" | "failed");
        let mut events = Vec::new();
        let arguments = at(update, "rawInput").filter(|input| **input != serde_json::json!({}));
        // The first message of a call has often no arguments yet; its end is the last chance to tell it.
        if !known.is_told && (is_over || (status != "pending" && arguments.is_some())) {
            known.is_told = true;
            let title = at(update, "title");
            events.push(AgentEvent::ToolStarted {
                call: call.clone(),
                tool: known.tool.clone(),
                arguments: cut(
                    &arguments
                        .or(title)
                        .map(Value::to_string)
                        .unwrap_or_default(),
                    PIECE,
                ),
            });
        }
        let changes = at(update, "content").and_then(Value::as_array);
        let diffs = changes
            .into_iter()
            .flatten()
            .filter(|one| name_at(one, "type").as_deref() == Some("diff"));
        let mut files: Vec<String> = diffs.filter_map(|diff| name_at(diff, "path")).collect();
        if known.tool == "edit" && is_over {
            files.extend(name_at(update, "rawOutput.metadata.filepath"));
        }
        for file in files {
            if !known.edits.contains(&file) && known.edits.len() < 64 {
                known.edits.push(file.clone());
                events.push(AgentEvent::Edit {
                    call: call.clone(),
                    file,
                });
            }
        }
        if is_over {
            let given = at(update, "content").or_else(|| at(update, "rawOutput"));
            events.push(AgentEvent::ToolEnded {
                call: call.clone(),
                tool: Some(known.tool.clone()),
                result: cut(&given.map(readable).unwrap_or_default(), PIECE),
                failed: status == "failed",
            });
            self.calls.0.remove(&call);
        }
        for event in events {
            self.tell(event, out);
        }
    }
}

/// Usage, as the answer to a prompt has it: of its last step.
pub(super) fn usage_of(usage: &Value) -> AgentEvent {
    let count = |name| count_at(usage, name).unwrap_or(0);
    AgentEvent::Usage {
        total: false,
        input: count("inputTokens"),
        output: count("outputTokens"),
        cached: count("cachedReadTokens"),
        cost_microusd: None,
    }
}
