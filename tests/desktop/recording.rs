//! Records what the real engine answers the window, for the browser suite: scenes, and what leads from one
//! to the next. Everything is asked through the app's own commands, in its own page; nothing is made up.
//! The result is `target/recording/recording.json`.

mod story;

use anyhow::{Context, Result, ensure};
use foreman_testkit::suite::Case;
use foreman_testkit::{PATIENCE, Stage, cases_of, until};
use foreman_tests::desk::App;
use serde_json::{Value, json};
use story::scenes_for_the_browser_are_recorded;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(stage, "recording", [scenes_for_the_browser_are_recorded])
}

/// Asks in the page, all at the same time, and gives each answer as `{ok}` or `{err}`.
const ASK: &str = "const done = arguments[arguments.length - 1]; \
    const ask = ([command, given]) => window.__TAURI_INTERNALS__.invoke(command, given).then( \
        (ok) => ({ ok: ok ?? null }), (err) => ({ err })); \
    Promise.all(arguments[0].map(ask)).then(done)";

/// What may change with anything that is done.
const LISTS: [&str; 3] = ["run_list", "block_list", "amendment_list"];

/// Questions asked at the same time.
const BATCH: usize = 16;

struct Recorder<'a> {
    app: App<'a>,
    scenes: Vec<Value>,
    steps: Vec<Value>,
}

type Question = (&'static str, Value);

impl Recorder<'_> {
    fn answers(&self, questions: &[Question]) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        for batch in questions.chunks(BATCH) {
            let answers = self.app.session.script_later(ASK, &[json!(batch)])?;
            all.extend(answers.as_array().context("answers")?.iter().cloned());
        }
        for ((command, given), answer) in questions.iter().zip(&all) {
            // A plain text is the framework's: no such command, or another shape than it takes.
            ensure!(!answer["err"].is_string(), "{command} {given}: {answer}");
        }
        Ok(all)
    }

    /// Answers to all of these; asked for are those that are not known.
    fn answers_but(
        &self,
        questions: &[Question],
        known: impl Fn(&Question) -> Option<Value>,
    ) -> Result<Vec<Value>> {
        let known: Vec<_> = questions.iter().map(known).collect();
        let open = questions.iter().zip(&known);
        let open: Vec<Question> = open
            .filter(|(_, known)| known.is_none())
            .map(|(question, _)| question.clone())
            .collect();
        let mut asked = self.answers(&open)?.into_iter();
        let all = known
            .into_iter()
            .map(|known| known.or_else(|| asked.next()));
        all.collect::<Option<_>>().context("an answer to each")
    }

    fn ask(&self, command: &'static str, request: Value) -> Result<Value> {
        let given = json!({ "request": request });
        let answer = self.answers(&[(command, given.clone())])?.remove(0);
        ensure!(answer.get("ok").is_some(), "{command} {given}: {answer}");
        Ok(answer["ok"].clone())
    }

    /// Does something, writes down what it answered, and records the scene that it leads to.
    fn step(
        &mut self,
        command: &'static str,
        request: Value,
        settle: impl FnMut() -> Result<bool>,
    ) -> Result<Value> {
        let answer = self.ask(command, request.clone())?;
        self.settled(command, settle)?;
        let name = format!("after {command}");
        // A decision can be undone for ten seconds: so long the next step may take to be asked.
        let about = request["block"]
            .as_str()
            .and_then(|block| block.rsplit_once('-'));
        self.scene(&name, about.map(|(run, _)| run))?;
        self.steps.push(json!({
            "command": command,
            "request": request,
            "answer": answer,
            "from": self.scenes.len() - 2,
            "to": self.scenes.len() - 1,
        }));
        Ok(answer)
    }

    fn settled(&self, what: &str, mut level: impl FnMut() -> Result<bool>) -> Result<()> {
        until(&format!("{what} has come to rest"), PATIENCE, || {
            Ok(level()?.then_some(()))
        })
        .with_context(|| self.app.desk.log())
    }

    /// Every event of a run.
    fn events(&self, run: &str) -> Result<Value> {
        let mut events = Vec::new();
        let mut after = 0;
        loop {
            let request = json!({ "run": run, "after": after, "before": null, "limit": 512, "wait_ms": 0, "kinds": [] });
            let page = self.ask("run_events", request)?;
            let some = page["events"].as_array().context("events")?;
            events.extend(some.iter().cloned());
            let cursor = page["cursor"].as_u64().context("a cursor")?;
            if some.is_empty() || cursor <= after {
                return Ok(json!({ "events": events, "ended": page["ended"], "page": page }));
            }
            after = cursor;
        }
    }

    /// Writes down everything that there is to read now. After something that is about one run only what is of
    /// that run, and the lists, are asked for; the rest is as it was.
    fn scene(&mut self, name: &str, about: Option<&str>) -> Result<()> {
        let before = about.and(self.scenes.last().cloned());
        let kept = |(command, given): &Question| -> Option<Value> {
            let request = &given["request"];
            let names = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
            let is_about =
                about.is_some_and(|run| names("run") == run || names("block").starts_with(run));
            if is_about || LISTS.contains(command) {
                return None;
            }
            let answers = before.as_ref()?["answers"].as_array()?;
            let same = |one: &&Value| one["command"] == *command && one["given"] == *given;
            Some(answers.iter().find(same)?["answer"].clone())
        };
        let runs = self.ask("run_list", json!({ "limit": 200 }))?;
        let orders = self.ask("order_list", json!({ "all": true }))?;
        let blocks = self.ask("block_list", json!({ "run": null, "all": true }))?;
        let repos = self.ask("repo_list", json!({}))?;
        let texts = |list: &Value, key: &str| -> Vec<String> {
            let items = list.as_array().cloned().unwrap_or_default();
            items
                .iter()
                .filter_map(|item| item[key].as_str().map(str::to_owned))
                .collect()
        };
        let mut questions: Vec<Question> = Vec::new();
        let mut add = |command: &'static str, request: Value| {
            questions.push((command, json!({ "request": request })));
        };
        add("run_list", json!({ "limit": 200 }));
        add("order_list", json!({ "all": true }));
        add("order_list", json!({ "all": false }));
        add("block_list", json!({ "run": null, "all": true }));
        add("block_list", json!({ "run": null, "all": false }));
        add("amendment_list", json!({ "all": true }));
        add("amendment_list", json!({ "all": false }));
        add("merge_list", json!({ "all": true }));
        add("orders_limits", json!({ "per_class": [], "per_kind": [] }));
        add("orders_watched", json!({}));
        add("awake", json!({}));
        add("doctor", json!({ "repair": false }));
        add("disk_show", json!({}));
        add("retention_show", json!({}));
        add("agents_find", json!({}));
        add("repo_list", json!({}));
        add(
            "event_search",
            json!({ "text": "hello", "run": null, "kinds": [], "before": null, "limit": 50 }),
        );
        for path in texts(&repos["repos"], "path") {
            add("repo_inspect", json!({ "path": path }));
            add("project_show", json!({ "repo": path }));
            add("policy_show", json!({ "run": null, "repo": path }));
            add("policy_trust", json!({ "repo": path, "expect": null }));
        }
        for id in texts(&orders["orders"], "id") {
            add("order_show", json!({ "order": id }));
        }
        for id in texts(&blocks["blocks"], "id") {
            add("block_show", json!({ "block": id }));
        }
        let runs_known = texts(&runs["runs"], "id");
        for id in &runs_known {
            add("run_show", json!({ "run": id }));
            add("run_details", json!({ "run": id }));
            add("run_gate", json!({ "run": id }));
            add("run_diff", json!({ "run": id, "patch": true }));
            add("run_diff", json!({ "run": id, "patch": false }));
            add("run_commits", json!({ "run": id, "skip": 0, "limit": 100 }));
            add("run_attempts", json!({ "run": id }));
            add(
                "run_samples",
                json!({ "run": id, "after": null, "wait_ms": 0 }),
            );
            add("block_list", json!({ "run": id, "all": true }));
            add("merge_list", json!({ "run": id, "all": true }));
            add("policy_show", json!({ "run": id, "repo": null }));
            add(
                "policy_why",
                json!({ "run": id, "repo": null, "destination": "one.example:443" }),
            );
            add(
                "event_search",
                json!({ "text": "hello", "run": id, "kinds": [], "before": null, "limit": 50 }),
            );
        }
        for command in ["app_info", "app_settings", "app_demo_state"] {
            questions.push((command, json!({})));
        }
        let mut answers = self.answers_but(&questions, kept)?;
        // What an answer leads to: the files of a diff; the diff of a commit, and its files.
        let mut from = 0;
        while from < questions.len() {
            let asked = questions.iter().zip(&answers).skip(from);
            let more: Vec<Question> = asked.flat_map(leads_to).collect();
            from = questions.len();
            answers.extend(self.answers_but(&more, kept)?);
            questions.extend(more);
        }
        let mut events = serde_json::Map::new();
        for id in &runs_known {
            let old = before.as_ref().map(|scene| scene["events"][id].clone());
            let old = old.filter(|old| !old.is_null() && about != Some(id.as_str()));
            events.insert(id.clone(), old.map_or_else(|| self.events(id), Ok)?);
        }
        let at = self.app.session.script("return Date.now()", &[])?;
        let answers: Vec<Value> = questions
            .iter()
            .zip(answers)
            .map(|((command, given), answer)| json!({ "command": command, "given": given, "answer": answer }))
            .collect();
        self.scenes
            .push(json!({ "name": name, "at": at, "answers": answers, "events": events }));
        Ok(())
    }
}

/// What the window asks once it has this answer.
fn leads_to((question, answer): (&Question, &Value)) -> Vec<Question> {
    let (command, request) = (question.0, &question.1["request"]);
    let answer = &answer["ok"];
    let list = |key: &str| answer[key].as_array().cloned().unwrap_or_default();
    let (run, commit) = (&request["run"], &request["commit"]);
    let questions: Vec<(&'static str, Value)> = match command {
        // A part of the whole is the same with its patch and without.
        "run_diff" if request["patch"] == true || !commit.is_null() => {
            let file = |file: Value| {
                let path = &file["path"];
                json!({ "run": run, "expect": answer["expect"], "path": path, "commit": commit })
            };
            let files = list("files").into_iter().map(file);
            files.map(|request| ("run_diff_file", request)).collect()
        }
        "run_commits" => {
            let diff = |one: Value| json!({ "run": run, "commit": one["sha"], "patch": false });
            let commits = list("commits").into_iter().map(diff);
            commits.map(|request| ("run_diff", request)).collect()
        }
        _ => Vec::new(),
    };
    let given = |(command, request)| (command, json!({ "request": request }));
    questions.into_iter().map(given).collect()
}
