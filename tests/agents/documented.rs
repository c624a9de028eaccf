//! docs/agents.md, followed word by word: the packages that it says are the ones that were installed, and the command
//! that it says is typed as it stands, in a shell, in a repository. What a person does in between is done here: logging
//! in leaves a file, and a key is a variable.

use crate::checkout;
use crate::real::{self, BLOCKED, MODEL, MODEL_BLOCK};
use anyhow::{Context, Result, bail, ensure};
use foreman_domain::Subject;
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
        // A key that is added outside needs its host by TLS, under a name that nobody here can have.
        if line.starts_with(&format!("foreman run --agent {agent} "))
            && !line.contains(" --key ")
            && let Some(package) = &package
        {
            return Ok((package.clone(), line.to_owned()));
        }
    }
    bail!("docs/agents.md has no command for {agent}")
}

fn follows_its_page(stage: &Stage, person: &Person) -> Result<Verdict> {
    let (package, line) = page_of(person.agent)?;
    let path = match real::path_of(stage, person.agent) {
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
    let said = bench.scratch("said")?.join("said.txt");
    let output = fs::File::create(&said)?;
    let mut typed = product.program("/bin/sh");
    typed
        .args(["-c", &format!("cd '{}' && {line}", repo.display())])
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    let typed = typed.spawn().with_context(|| line.clone())?;
    let ended = attend(&product, typed);
    let said = fs::read_to_string(&said)?;
    let code = ended.with_context(|| format!("{line}\n{said}"))?;
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

/// Decides what the run asks, until the command has ended; gives its exit code. The model and the host that the
/// agent's tool reaches for are allowed, and so is what it asks by its own rules; what it calls by itself is not.
fn attend(product: &Product<'_>, mut typed: Child) -> Result<Option<i32>> {
    let mut missing = vec![MODEL_BLOCK, BLOCKED];
    let status = until("the command has ended", PATIENCE * 4, || {
        if let Some(status) = typed.try_wait()? {
            return Ok(Some(status));
        }
        // Nobody hosts before the command is up.
        let Ok(answer) = product.call(["blocks", "--json"])?.json() else {
            return Ok(None);
        };
        for block in answer["blocks"].as_array().into_iter().flatten() {
            let id = block["id"].as_str().context("a card's id")?;
            let subject: Subject = serde_json::from_value(block["subject"].clone())?;
            let words = subject.to_string();
            missing.retain(|subject| *subject != words);
            match subject {
                Subject::Question { .. } => product.amend(id, &[]).map(drop)?,
                _ if [MODEL_BLOCK, BLOCKED].contains(&words.as_str()) => {
                    product.amend(id, &[]).map(drop)?;
                }
                _ => product.deny(id, "not for tests").map(drop)?,
            }
        }
        Ok(None)
    });
    if status.is_err() {
        typed.kill()?;
        typed.wait()?;
    }
    ensure!(missing.is_empty(), "never held: {missing:?}");
    Ok(status?.code())
}
