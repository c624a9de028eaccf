//! docs/agents.md, followed word by word: the packages that it says are the ones that were installed, and the command
//! that it says is typed as it stands, in a shell, in a repository. What a person does in between is done here: logging
//! in leaves a file, and a key is a variable.

use crate::checkout;
use crate::real::{self, BLOCKED, MODEL, MODEL_BLOCK};
use anyhow::{Context, Result, bail, ensure};
use foreman_testkit::suite::{Case, Verdict};
use foreman_testkit::{PATIENCE, Product, Stage, repos, until};
use serde_json::Value;
use std::fs;
use std::process::{Child, Stdio};

/// What somebody has who has logged in, or set their key, before they type the command.
struct Person {
    agent: &'static str,
    /// Files in their home; `@MODEL@` stands for the model's address.
    files: &'static [(&'static str, &'static str)],
    variables: &'static [(&'static str, &'static str)],
}

/// Gemini's page speaks to its vendor, whose name nobody else can have a certificate for.
static PEOPLE: [Person; 4] = [
    Person {
        agent: "pi",
        files: &[
            (
                ".pi/agent/models.json",
                r#"{"providers":{"local":{"baseUrl":"@MODEL@/v1","api":"openai-completions","apiKey":"x","models":[{"id":"scripted-1"}]}}}"#,
            ),
            (
                ".pi/agent/settings.json",
                r#"{"defaultProvider":"local","defaultModel":"scripted-1"}"#,
            ),
        ],
        variables: &[],
    },
    Person {
        agent: "codex",
        files: &[(".codex/config.toml", real::CODEX_SETTINGS)],
        variables: &[],
    },
    Person {
        agent: "opencode",
        files: &[(".config/opencode/opencode.json", real::OPENCODE_SETTINGS)],
        variables: &[],
    },
    Person {
        agent: "qwen",
        files: &[(".qwen/settings.json", real::QWEN_SETTINGS)],
        variables: &[
            ("OPENAI_API_KEY", "x"),
            ("OPENAI_MODEL", "scripted-1"),
            ("OPENAI_BASE_URL", "@MODEL@/v1"),
        ],
    },
];

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    PEOPLE
        .iter()
        .map(|person| {
            Case::new(format!("documented::{}", person.agent), move || {
                follows_its_page(stage, person)
            })
        })
        .collect()
}

/// The page's command lines for an agent: what installs it, and what runs it.
fn page_of(agent: &str) -> Result<(String, String)> {
    let page = fs::read_to_string(checkout("docs/agents.md"))?;
    let mut package = None;
    for line in page.lines().filter_map(|line| line.strip_prefix("    ")) {
        if let Some(name) = line.strip_prefix("npm install -g ") {
            package = Some(name.trim().to_owned());
        }
        if line.starts_with(&format!("foreman run --agent {agent} "))
            && let Some(package) = &package
        {
            return Ok((package.clone(), line.to_owned()));
        }
    }
    bail!("docs/agents.md has no command for {agent}")
}

fn follows_its_page(stage: &Stage, person: &Person) -> Result<Verdict> {
    let (package, line) = page_of(person.agent)?;
    let path = match real::path_of(stage, person.agent)? {
        Ok(path) => path,
        Err(why) => return Ok(Verdict::Skipped(why)),
    };
    real::has_installed(person.agent, &package)?;
    let bench = &stage.bench;
    let url = format!("{MODEL}/s/hello-then-curl/r/page-{}", person.agent);
    for (file, text) in person.files {
        bench.write(&bench.home().join(file), text.replace("@MODEL@", &url))?;
    }
    let path = format!("{}:{path}", bench.bin().display());
    let mut product = stage
        .product()?
        .with_data(&bench.scratch("data")?)
        .with_variable("PATH", &path);
    for (name, value) in person.variables {
        product = product.with_variable(name, &value.replace("@MODEL@", &url));
    }
    let repo = repos::plain(bench, &format!("page-{}", person.agent))?;
    let mut typed = product.program("/bin/sh");
    typed
        .args(["-c", &format!("cd '{}' && {line}", repo.display())])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let typed = typed.spawn().with_context(|| line.clone())?;
    let amended = [MODEL_BLOCK, BLOCKED]
        .iter()
        .try_for_each(|subject| amend(&product, subject));
    let (code, said) = ended(typed)?;
    amended.with_context(|| format!("{line}\n{said}"))?;
    ensure!(code == Some(0), "{line}\nended with {code:?}\n{said}");
    let run = only_run(&product)?;
    ensure!(run["state"] == "review", "{run}\n{said}");
    let id = run["id"].as_str().context("its id")?;
    let diff = product.call(["diff", id])?.stdout;
    ensure!(diff.contains("hello from the script"), "{diff}\n{said}");
    Ok(Verdict::Passed)
}

fn only_run(product: &Product<'_>) -> Result<Value> {
    let runs = product.ask(&["runs"])?;
    let runs = runs["runs"].as_array().context("a list of runs")?;
    ensure!(runs.len() == 1, "{runs:?}");
    Ok(runs[0].clone())
}

/// Waits for the card and amends it. Cards of what the agent calls by itself are denied meanwhile.
fn amend(product: &Product<'_>, subject: &str) -> Result<()> {
    let block = until(&format!("a card for {subject}"), PATIENCE * 2, || {
        // Nobody hosts before the command is up.
        let ran = product.call(["blocks", "--json"])?;
        let Ok(answer) = ran.json() else {
            return Ok(None);
        };
        let mut found = None;
        for block in answer["blocks"].as_array().into_iter().flatten() {
            let id = block["id"].as_str().context("a card's id")?.to_owned();
            match real::words_of(block) {
                words if words == subject => found = Some(id),
                words if [MODEL_BLOCK, BLOCKED].contains(&words.as_str()) => {}
                _ => drop(product.deny(&id, "not for tests")?),
            }
        }
        Ok(found)
    })?;
    product.amend(&block, &[]).map(drop)
}

/// Its exit code and all that it printed.
fn ended(typed: Child) -> Result<(Option<i32>, String)> {
    let done = typed.wait_with_output()?;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    Ok((done.status.code(), said))
}
