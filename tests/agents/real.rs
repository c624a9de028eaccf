//! Published agents, unmodified, at pinned versions, in the cage; their model is a script on the far side, reached as
//! a host that is held and then amended.

use crate::checkout;
use crate::scripted::{outcome, run_agent, said};
use anyhow::{Context, Result, ensure};
use foreman_domain::{AgentEvent, AgentOutcome, Subject};
use foreman_testkit::suite::{Case, Verdict};
use foreman_testkit::{Bench, MAIN_V4, Stage, repos};
use std::fs;
use std::path::PathBuf;

/// Where the model is, as agents are told.
pub const MODEL: &str = "http://model.agents.example:8099";
pub const MODEL_BLOCK: &str = "tcp model.agents.example:8099";
/// What its tool reaches for.
pub const BLOCKED: &str = "tcp blocked.example:80";

pub const OPENCODE_SETTINGS: &str = r#"{"autoupdate":false,"share":"disabled","model":"local/scripted-1","small_model":"local/scripted-1","permission":{"edit":"ask","bash":"ask"},
"provider":{"local":{"npm":"@ai-sdk/openai-compatible","name":"local","options":{"baseURL":"@MODEL@/v1","apiKey":"x"},"models":{"scripted-1":{"name":"scripted-1"}}}}}"#;
pub const CODEX_SETTINGS: &str = "model=\"scripted-1\"\nmodel_provider=\"local\"\ncheck_for_update_on_startup=false\nweb_search=\"disabled\"\n\
    [model_providers.local]\nname=\"local\"\nbase_url=\"@MODEL@/v1\"\nwire_api=\"responses\"\n\
    [analytics]\nenabled=false\n[feedback]\nenabled=false\n[features]\nplugins=false\napps=false\n";
pub const QWEN_SETTINGS: &str = r#"{"security":{"auth":{"selectedType":"openai"}},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"general":{"enableAutoUpdate":false}}"#;

struct Agent {
    name: &'static str,
    /// The file of its settings, and its text; `@MODEL@` stands for the model's.
    settings: (&'static str, &'static str),
    options: &'static [&'static str],
    /// Hosts that it tries by itself: refused, so that nothing waits for them.
    tries: &'static [&'static str],
}

static AGENTS: [Agent; 5] = [
    Agent {
        name: "pi",
        settings: (
            ".pi/agent/models.json",
            r#"{"providers":{"local":{"baseUrl":"@MODEL@/v1","api":"openai-completions","apiKey":"x","models":[{"id":"scripted-1"}]}}}"#,
        ),
        options: &["--model", "local/scripted-1"],
        tries: &[],
    },
    Agent {
        name: "opencode",
        settings: (".config/opencode/opencode.json", OPENCODE_SETTINGS),
        options: &[],
        tries: &["registry.npmjs.org", "models.opencode.ai"],
    },
    Agent {
        name: "codex",
        settings: (".codex/config.toml", CODEX_SETTINGS),
        options: &[],
        tries: &[
            "chatgpt.com",
            "github.com",
            "api.github.com",
            "ab.chatgpt.com",
        ],
    },
    Agent {
        name: "gemini",
        settings: (
            ".gemini/settings.json",
            r#"{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"general":{"enableAutoUpdate":false}}"#,
        ),
        options: &[
            "--model",
            "scripted-1",
            "--env",
            "GEMINI_API_KEY=x",
            "--env",
            "GOOGLE_GEMINI_BASE_URL=@MODEL@",
        ],
        tries: &["play.googleapis.com"],
    },
    Agent {
        name: "qwen",
        settings: (".qwen/settings.json", QWEN_SETTINGS),
        options: &[
            "--env",
            "OPENAI_API_KEY=x",
            "--env",
            "OPENAI_MODEL=scripted-1",
            "--env",
            "OPENAI_BASE_URL=@MODEL@/v1",
        ],
        tries: &[],
    },
];

/// The model server's command line, for the far side.
pub fn model_server(bench: &Bench) -> Result<Vec<String>> {
    let folder = bench.scratch("model")?;
    let from = checkout("tests/agents/model");
    bench.write(
        &folder.join("model_server.py"),
        fs::read(from.join("model_server.py"))?,
    )?;
    for entry in fs::read_dir(from.join("scenarios"))? {
        let entry = entry?;
        bench.write(
            &folder.join("scenarios").join(entry.file_name()),
            fs::read(entry.path())?,
        )?;
    }
    let text = |path: PathBuf| path.display().to_string();
    Ok(vec![
        "/usr/bin/python3".to_owned(),
        text(folder.join("model_server.py")),
        "--host".to_owned(),
        MAIN_V4.to_owned(),
        "--port".to_owned(),
        "8099".to_owned(),
        "--scenario".to_owned(),
        text(folder.join("scenarios")),
        "--log".to_owned(),
        text(folder.join("requests.jsonl")),
    ])
}

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    AGENTS
        .iter()
        .map(|agent| {
            Case::new(
                format!("real::{}_does_a_job_in_the_cage", agent.name),
                move || does_a_job(stage, agent),
            )
        })
        .collect()
}

/// Where `npm run test:agents` installs what it tests.
fn installed(program: &str) -> Option<PathBuf> {
    let bin = checkout("target/agents")
        .join(program)
        .join("node_modules/.bin");
    bin.join(program).exists().then_some(bin)
}

/// Where the agent and its runtime are found, or why it cannot be tried.
pub fn path_of(stage: &Stage, agent: &str) -> Result<Result<String, String>> {
    let (Some(bin), Some(node)) = (installed(agent), installed("node")) else {
        return Ok(Err(format!(
            "{agent} is not installed; `npm run test:agents` does that"
        )));
    };
    let bench = &stage.bench;
    let can_read = bench.shell(
        &bench.home(),
        &format!("test -r {} && echo yes", bin.join(agent).display()),
    );
    if !can_read.is_ok_and(|said| said.contains("yes")) {
        return Ok(Err(format!("the test user cannot read {}", bin.display())));
    }
    Ok(Ok(format!(
        "{}:{}:/usr/local/bin:/usr/bin:/bin",
        bin.display(),
        node.display()
    )))
}

/// Whether it is this very package that was installed, `name@version`.
pub fn has_installed(agent: &str, package: &str) -> Result<()> {
    let (name, version) = package.rsplit_once('@').context("a version")?;
    let folder = checkout("target/agents").join(agent).join("node_modules");
    let text = fs::read_to_string(folder.join(name).join("package.json"))
        .with_context(|| format!("{package} is documented and not what is installed"))?;
    let found: serde_json::Value = serde_json::from_str(&text)?;
    ensure!(
        found["version"] == version,
        "{package}: {}",
        found["version"]
    );
    Ok(())
}

/// A card's subject, as it says it.
pub fn words_of(block: &serde_json::Value) -> String {
    serde_json::from_value::<Subject>(block["subject"].clone())
        .map_or_else(|error| error.to_string(), |subject| subject.to_string())
}

fn does_a_job(stage: &Stage, agent: &Agent) -> Result<Verdict> {
    let path = match path_of(stage, agent.name)? {
        Ok(path) => path,
        Err(why) => return Ok(Verdict::Skipped(why)),
    };
    let bench = &stage.bench;
    let product = stage.product()?.with_variable("PATH", &path);
    let (file, text) = agent.settings;
    let url = format!("{MODEL}/s/hello-then-curl/r/{}", agent.name);
    bench.write(&bench.home().join(file), text.replace("@MODEL@", &url))?;
    let repo = repos::plain(bench, &format!("real-{}", agent.name))?;
    let mut options = vec!["--lend-login", "--title", agent.name];
    let filled: Vec<String> = agent
        .options
        .iter()
        .map(|word| word.replace("@MODEL@", &url))
        .collect();
    options.extend(filled.iter().map(String::as_str));
    let run = run_agent(&product, &repo, agent.name, &options)?;
    let block = run
        .block(MODEL_BLOCK)
        .with_context(|| format!("{}\n{}", run.story(), run.errors()))?;
    for host in agent.tries {
        // Only where it tries: some do so only now and then.
        let card = run
            .events()
            .iter()
            .any(|event| format!("{:?}", event.kind).contains(host));
        if card && let Ok(block) = run.block(&format!("tcp {host}:443")) {
            product.deny(&block, "not for tests")?;
        }
    }
    product.amend(&block, &[])?;
    let blocked = run.block(BLOCKED).with_context(|| run.story())?;
    product.amend(&blocked, &[])?;
    let code = run.ended().with_context(|| run.story())?;
    ensure!(code == 0, "{code}: {}", run.story());
    let events = run.events();
    ensure!(
        outcome(&events)? == AgentOutcome::Completed,
        "{}",
        run.story()
    );
    let said = said(&events);
    let has = |what: &str, is: &dyn Fn(&AgentEvent) -> bool| -> Result<()> {
        ensure!(said.iter().any(|event| is(event)), "no {what}: {said:#?}");
        Ok(())
    };
    has(
        "closing message",
        &|event| matches!(event, AgentEvent::Message { text, .. } if text.contains("the page was tried")),
    )?;
    has(
        "result of curl",
        &|event| matches!(event, AgentEvent::ToolEnded { result, .. } if result.contains("curl-exit=0")),
    )?;
    has("usage", &|event| matches!(event, AgentEvent::Usage { .. }))?;
    let strange: Vec<_> = said
        .iter()
        .filter(|event| matches!(event, AgentEvent::Unreadable { .. }))
        .collect();
    ensure!(strange.is_empty(), "{strange:?}");
    let id = run.id()?;
    let diff = product.call(["diff", &id])?.stdout;
    ensure!(diff.contains("hello from the script"), "{diff}");
    let view = product.show(&id)?;
    ensure!(view["state"] == "review", "{view}");
    Ok(Verdict::Passed)
}
