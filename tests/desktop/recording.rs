//! Records what the real engine answers the window, for the browser suite: scenes, and what leads from one
//! to the next. Everything is asked through the app's own commands, in its own page; nothing is made up.
//! The result is `target/recording/recording.json`.

use anyhow::{Context, Result, ensure};
use foreman_testkit::suite::Case;
use foreman_testkit::{Binaries, LiveRun, PATIENCE, Product, Stage, cases_of, repos, until};
use foreman_tests::desk::{App, Desk};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

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
        let mut more: Vec<Question> = Vec::new();
        for ((command, given), answer) in questions.iter().zip(&answers) {
            if *command != "run_diff"
                || answer["ok"]["expect"].is_null()
                || given["request"]["patch"] == false
            {
                continue;
            }
            for path in texts(&answer["ok"]["files"], "path") {
                let request = json!({ "run": given["request"]["run"], "expect": answer["ok"]["expect"], "path": path });
                more.push(("run_diff_file", json!({ "request": request })));
            }
        }
        answers.extend(self.answers_but(&more, kept)?);
        questions.extend(more);
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

/// An agent that works on a small service, with words for the feed, files of several kinds, and output in
/// colour. `%` is what it does at last.
fn agent(title: &str, last: &str) -> String {
    format!(
        "printf '\\033[1mReading the repository\\033[0m\\n'; cat file.txt; \
         printf 'hello from the agent\\n'; \
         mkdir -p src docs; printf '// {title}\\npub fn retry(times: u32) -> bool {{\\n    times > 0\\n}}\\n' > src/retry.rs; \
         printf 'fn main() {{\\n    println!(\"{{}}\", retry(3));\\n}}\\n' > src/main.rs; \
         printf '# Retries\\n\\nA request is tried three times.\\n' > docs/retries.md; \
         printf '{{\\n  \"lockfileVersion\": 3\\n}}\\n' > package-lock.json; \
         git add -A; git commit -qm '{title}'; \
         printf '\\033[32mok\\033[0m  3 tests passed\\n'; {last}"
    )
}

fn start(
    product: &Product<'_>,
    repo: &Path,
    title: &str,
    options: &[&str],
    last: &str,
) -> Result<LiveRun> {
    let mut all = vec!["--title", title];
    all.extend(options);
    product.run(repo, &all, &["bash", "-c", &agent(title, last)])
}

const FETCH: &str = "curl -sS -m 600 http://registry.window.example/ > got.txt; git add -A; git commit -qm 'Add the index'";

fn scenes_for_the_browser_are_recorded(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    app.session.allow_scripts(Duration::from_secs(60))?;
    let product = desk.product();
    let web = repos::plain(&stage.bench, "webshop")?;
    let tools = repos::plain(&stage.bench, "tools")?;

    // What has happened before.
    let merged = start(&product, &web, "Say hello in the footer", &[], "true")?;
    merged.ended()?;
    let merged = merged.id()?;
    let diff = product.ask(&["diff", &merged])?;
    product.ask(&[
        "merge",
        &merged,
        "--expect",
        diff["expect"].as_str().unwrap_or_default(),
    ])?;
    start(
        &product,
        &tools,
        "Upgrade the parser",
        &[],
        "echo 'cannot parse' >&2; exit 3",
    )?
    .ended()?;
    let review = start(
        &product,
        &web,
        "Retry failed requests",
        &["--check", "test -f src/retry.rs"],
        "true",
    )?;
    review.ended()?;
    let review = review.id()?;

    // What goes on.
    let held = start(&product, &web, "Fetch the package index", &[], FETCH)?;
    let held_block = held.block("tcp registry.window.example:80")?;
    let many = "for n in one two three; do (curl -sS -m 600 http://$n.window.example/ > /dev/null) & done; \
                exec 3<>/dev/tcp/live.window.example/7007; printf 'still\\n' >&3; sleep 600";
    let busy = start(
        &product,
        &tools,
        "Mirror three hosts",
        &["--allow", "live.window.example:7007"],
        many,
    )?;
    let mut others = Vec::new();
    for name in ["one", "two", "three"] {
        others.push(busy.block(&format!("tcp {name}.window.example:80"))?);
    }
    let working = start(
        &product,
        &tools,
        "Rewrite the docs",
        &[],
        "while true; do echo working; sleep 5; done",
    )?;
    working.said("working")?;

    let mut recorder = Recorder {
        app,
        scenes: Vec::new(),
        steps: Vec::new(),
    };
    let settings = recorder.answers(&[("app_settings", json!({}))])?.remove(0);
    let mut settings = settings["ok"].clone();
    settings["first_run_done"] = json!(true);
    recorder.answers(&[("app_settings_save", json!({ "settings": settings }))])?;

    // A queue that waits.
    recorder.ask("orders_pause", json!({ "paused": true }))?;
    let path = tools.display().to_string();
    for title in ["Remove dead code", "Sort the imports"] {
        let order = [
            "order", "add", "--json", "--repo", &path, "--title", title, "--", "true",
        ];
        let added = product.call(order)?;
        ensure!(added.code == 0, "{added:?}");
    }
    product.card_with_holder(&held_block)?;
    recorder.scene("at work", None)?;

    let expect = |block: &str| -> Result<String> {
        Ok(product.card(block)?["expect"]
            .as_str()
            .context("a token")?
            .to_owned())
    };
    let amend = |block: &str| -> Result<Value> {
        Ok(
            json!({ "block": block, "expect": expect(block)?, "scope": null, "rule": null, "confirmed": false, "expires": null, "surface": "window" }),
        )
    };
    let held_id = held.id()?;
    let request = amend(&held_block)?;
    recorder.step("block_amend", request, || {
        Ok(product.show(&held_id)?["state"] == "review")
    })?;

    let request = json!({ "block": others[0], "expect": expect(&others[0])?, "reason": "Use the mirror instead.", "surface": "window" });
    let denied = recorder.step("block_deny", request, || Ok(true))?;
    let request = json!({ "amendment": denied["amendment"]["id"] });
    recorder.step("undo", request, || Ok(true))?;
    let request = amend(&others[1])?;
    let amended = recorder.step("block_amend", request, || Ok(true))?;
    let request = json!({ "amendment": amended["amendment"]["id"] });
    recorder.step("policy_revoke", request, || Ok(true))?;

    let token =
        recorder.ask("run_diff", json!({ "run": review, "patch": true }))?["expect"].clone();
    let request = json!({ "run": review, "expect": token, "despite_checks": null });
    recorder.step("run_merge", request, || {
        Ok(product.show(&review)?["state"] == "merged")
    })?;
    let working = working.id()?;
    recorder.step("run_stop", json!({ "run": working }), || {
        Ok(product.show(&working)?["state"] == "cancelled")
    })?;
    let source = json!({
        "name": "order.toml",
        "text": "title = \"Check the links\"\ncommand = [\"true\"]\n",
        "folder": tools,
        "repo": tools,
    });
    recorder.step(
        "order_add",
        json!({ "draft": null, "source": source }),
        || Ok(true),
    )?;
    recorder.step("orders_pause", json!({ "paused": false }), || {
        let orders = product.ask(&["order", "list"])?;
        Ok(orders["orders"].as_array().is_some_and(Vec::is_empty))
    })?;

    let folder = Binaries::checkout().join("target/recording");
    std::fs::create_dir_all(&folder)?;
    let names = json!({ "merged": merged, "review": review, "held": held_id, "held_block": held_block, "busy": busy.id()?, "working": working, "others": others });
    let all = json!({ "names": names, "scenes": recorder.scenes, "steps": recorder.steps });
    std::fs::write(folder.join("recording.json"), all.to_string())?;
    product.ask(&["stop", &busy.id()?])?;
    Ok(())
}
