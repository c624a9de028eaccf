use super::*;
use crate::api::OrderGate;
use foreman_domain::Code;
use foreman_schedule::{Autonomy, Cadence, Enforcement, Impact, Missed};
use proptest::prelude::*;

fn source(name: &str, text: &str) -> OrderSource {
    OrderSource {
        name: name.into(),
        text: text.into(),
        folder: "/orders".into(),
        repo: None,
    }
}

fn read(name: &str, text: &str) -> Vec<OrderDraft> {
    parse(&source(name, text)).unwrap()
}

/// The refusal, with its hint.
fn refused(name: &str, text: &str) -> String {
    let failure = parse(&source(name, text)).unwrap_err();
    assert!(
        matches!(failure.code, Code::BadInput | Code::NotEnforced),
        "{failure:?}"
    );
    format!("{} | {}", failure.message, failure.hint.unwrap_or_default())
}

const WHOLE: &str = r#"
id = "T-1"
title = "Fix the login"
repo = "../app"
base = "main"
command = ["my-agent", "--prompt", "{prompt}"]
prompt = "Do it."
env = { LEVEL = "3" }
env_from = ["API_KEY"]
allow = ["registry.example:443"]
bounds = { wall = "2h", memory = "4GiB", processes = 64 }
setup = "make deps"
checks = ["make test"]
unattended = true
hold_reads = true
toolchains = ["rust"]
secrets = ["DB=PGPASSWORD"]
priority = true
impact = "high"
complexity = "small"
autonomy = "human-only"
kind = "implementation"
class = "db"
not_before = 2027-01-31T08:00:00Z
retries = 2
scope = { patterns = ["src/**"], enforcement = "mandatory", strict = true }
depends_on = ["T-0"]
parent = "T"
gate = "checks"
attempts = 2
estimate_wall = "90m"
"#;

#[test]
fn every_key_of_an_order_is_read() {
    let drafts = read("a.toml", WHOLE);
    let draft = &drafts[0];
    let spec = &draft.spec;
    assert_eq!(draft.id.as_deref(), Some("T-1"));
    assert_eq!(draft.attempts, Some(2));
    assert_eq!(spec.run.repo, Path::new("/orders/../app"));
    assert_eq!(spec.run.argv, ["my-agent", "--prompt", "{prompt}"]);
    assert_eq!(spec.prompt.as_deref(), Some("Do it."));
    assert_eq!(spec.run.bounds.wall_seconds, Some(7200));
    assert_eq!(spec.run.env, [("LEVEL".to_owned(), "3".to_owned())]);
    assert_eq!(spec.env_from, ["API_KEY"]);
    assert_eq!(
        spec.run.toolchains,
        Some(vec![foreman_policy::Toolchain::Rust])
    );
    assert_eq!(spec.run.secrets[0].to_string(), "DB=PGPASSWORD");
    assert_eq!(spec.hints.impact, Some(Impact::High));
    assert_eq!(spec.hints.autonomy, Autonomy::HumanOnly);
    assert_eq!(spec.hints.concurrency_class.as_deref(), Some("db"));
    assert_eq!(
        spec.hints.not_before.unwrap().to_string(),
        "2027-01-31T08:00:00Z"
    );
    let scope = spec.scope.as_ref().unwrap();
    assert_eq!(
        (scope.enforcement, scope.strict),
        (Enforcement::Mandatory, true)
    );
    assert_eq!(spec.gate, OrderGate::Checks);
    assert_eq!(spec.estimate_wall_seconds, Some(5400));
    assert!(spec.run.unattended && spec.run.hold_reads && spec.hints.priority);
    let used: Vec<&str> = WHOLE
        .lines()
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .collect();
    let unused: Vec<&&str> = KEYS.iter().filter(|key| !used.contains(key)).collect();
    assert_eq!(
        unused,
        [
            &"policy",
            &"copy",
            &"accept_weaker",
            &"recurrence",
            &"agent",
            &"model",
            &"lend_login",
            &"key"
        ],
        "untested keys"
    );
}

#[test]
fn an_agent_is_ordered_by_its_name() {
    let text = "repo = \"/r\"\nagent = \"pi\"\nmodel = \"small\"\nlend_login = true\nprompt = \"Do it.\"\n";
    let run = &read("a.toml", text)[0].spec.run;
    let agent = run.agent.as_ref().unwrap();
    assert!(run.argv.is_empty());
    assert_eq!((agent.name.as_str(), agent.lend_login), ("pi", true));
    assert_eq!(agent.model.as_deref(), Some("small"));
    assert!(!agent.refresh_login && agent.key.is_none());
}

#[test]
fn an_order_names_how_its_agent_is_logged_in() {
    let head = "repo = \"/r\"\nagent = \"pi\"\nprompt = \"Do it.\"\n";
    let agent = |line: &str| {
        let drafts = read("a.toml", &format!("{head}{line}\n"));
        drafts[0].spec.run.agent.clone().unwrap()
    };
    let refreshed = agent("lend_login = \"refresh\"");
    assert!(refreshed.lend_login && refreshed.refresh_login);
    let keyed = agent("key = \"API_KEY=router.example/api/v1\"")
        .key
        .unwrap();
    assert_eq!(keyed.to_string(), "API_KEY=router.example/api/v1");
    for (line, why) in [
        ("lend_login = \"always\"", "\"refresh\""),
        ("key = \"sk live\"", "this is neither"),
        ("key = true", "a text"),
    ] {
        let message = refused("a.toml", &format!("{head}{line}\n"));
        assert!(message.contains(why), "{line}: {message}");
    }
}

#[test]
fn markdown_is_one_order_whose_body_is_the_prompt() {
    let toml = "+++\nrepo = \"/r\"\ncommand = [\"a\"]\n+++\n# Fix it\n\nAll of it.\n";
    let yaml = "---\nrepo: /r\ncommand: [a]\nretries: 1\n---\n# Fix it\n\nAll of it.\n";
    for text in [toml, yaml, &yaml.replace('\n', "\r\n")] {
        let drafts = read("fix-login.md", text);
        assert_eq!(drafts.len(), 1);
        assert_eq!(drafts[0].id.as_deref(), Some("fix-login"), "{text}");
        let prompt = drafts[0].spec.prompt.as_deref().unwrap();
        assert!(
            prompt.starts_with("# Fix it") && prompt.ends_with("All of it."),
            "{prompt:?}"
        );
    }
    assert!(refused("x.md", "# no front matter").contains("no front matter"));
    assert!(refused("x.md", "---\nrepo: /r\n").contains("a line `---` is missing"));
    let twice = "+++\nrepo = \"/r\"\ncommand = [\"a\"]\nprompt = \"p\"\n+++\nq\n";
    assert!(refused("x.md", twice).contains("given twice"));
}

#[test]
fn several_orders_share_what_stands_above_them_and_get_ids_of_the_file() {
    let text = "repo = \"/r\"\ncommand = [\"a\"]\n[[order]]\nprompt = \"one\"\n[[order]]\nid = \"second\"\n\
                command = [\"b\"]\n";
    let drafts = read("batch.toml", text);
    let ids: Vec<_> = drafts
        .iter()
        .map(|draft| draft.id.clone().unwrap())
        .collect();
    assert_eq!(ids, ["batch-1", "second"]);
    assert_eq!(drafts[0].spec.run.argv, ["a"]);
    assert_eq!(drafts[1].spec.run.argv, ["b"]);
    let title_above = "title = \"x\"\n[[order]]\nrepo = \"/r\"\ncommand = [\"a\"]\n";
    assert!(refused("x.toml", title_above).contains("\"title\" is not a key of what the orders"));
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest_that_is_known() {
    let toml = refused(
        "a.toml",
        "repo = \"/r\"\ncommand = [\"a\"]\ndepends-on = [\"x\"]\n",
    );
    assert!(
        toml.starts_with("a.toml, line 3, column 1: \"depends-on\" is not a key of an order"),
        "{toml}"
    );
    assert!(toml.ends_with("Did you mean \"depends_on\"?"), "{toml}");
    let yaml = refused("a.md", "---\nrepo: /r\ncommand: [a]\nprioriti: true\n---\n");
    assert!(
        yaml.starts_with("a.md, line 4, column 1: \"prioriti\""),
        "{yaml}"
    );
    assert!(yaml.ends_with("Did you mean \"priority\"?"), "{yaml}");
    let second = "[[order]]\nrepo = \"/r\"\ncommand = [\"a\"]\n[[order]]\nrepp = \"/r\"\n";
    let second = refused("a.toml", second);
    assert!(
        second.starts_with("a.toml, line 5, column 1: \"repp\""),
        "{second}"
    );
    let nested = "repo = \"/r\"\ncommand = [\"a\"]\nscope = { pattern = [\"x\"] }\n";
    let nested = refused("a.toml", nested);
    assert!(
        nested.contains("line 3, column 11: \"pattern\""),
        "{nested}"
    );
    assert!(nested.ends_with("Did you mean \"patterns\"?"), "{nested}");
}

#[test]
fn what_is_absurd_or_of_the_wrong_kind_is_a_sentence() {
    let with = |line: &str| {
        refused(
            "a.toml",
            &format!("repo = \"/r\"\ncommand = [\"a\"]\n{line}\n"),
        )
    };
    for (line, said) in [
        (
            "attempts = 10000",
            "\"attempts\" of 10000 is not to be meant",
        ),
        ("retries = -1", "\"retries\" of -1 is not to be meant"),
        ("retries = \"2\"", "\"retries\" is a whole number"),
        ("priority = 1", "\"priority\" is true or false"),
        ("impact = \"huge\"", "\"impact\" cannot be \"huge\""),
        ("not_before = \"soon\"", "\"not_before\" is no time"),
        ("allow = [\"nowhere\"]", "line 3, column 9"),
        ("bounds = { wall = \"300d\" }", "too large"),
        ("bounds = { cpus = 2 }", "not enforced yet"),
        ("depends_on = [\"../x\"]", "names no order"),
        ("scope = []", "has no patterns"),
        ("id = \"a b\"", "is not an order id"),
        (
            "setup = 1.5",
            "\"setup\" is a text, not a number with a fraction",
        ),
        (
            "recurrence = { every = \"5s\" }",
            "no distance between slots",
        ),
        (
            "recurrence = { every = \"1h\", calendar = \"* * * * *\" }",
            "either",
        ),
        ("recurrence = { calendar = \"61 * * * *\" }", "is no minute"),
        (
            "recurrence = { every = \"1h\", zone = \"Nowhere/Land\" }",
            "no time zone",
        ),
        ("agent = 7", "is neither the name of an agent"),
        ("agent = \"pi\"", "exclude each other"),
        ("model = \"small\"", "is about an agent"),
        ("policy = \"missing.toml\"", "cannot be read"),
        ("accept_weaker = [\"selinux\"]", "names no wall"),
    ] {
        let refusal = with(line);
        assert!(refusal.contains(said), "{line}: {refusal}");
        assert!(
            refusal.starts_with("a.toml, line 3, column "),
            "{line}: {refusal}"
        );
    }
    let command = refused("a.toml", "repo = \"/r\"\ncommand = \"a --fix\"\n");
    assert!(
        command.contains("is a list of words") && command.contains("sh"),
        "{command}"
    );
    assert!(refused("a.toml", "command = [\"a\"]\n").contains("has no \"repo\""));
    assert!(refused("a.toml", "repo = \"/r\"\n").contains("has no \"command\""));
    assert!(refused("a.toml", "repo = ").contains("not valid TOML"));
    assert!(refused("a.toml", "repo = \"\u{0}\"").contains("NUL"));
    let twice = "[[order]]\nid = \"x\"\nrepo = \"/r\"\ncommand = [\"a\"]\n\
                 [[order]]\nid = \"x\"\nrepo = \"/r\"\ncommand = [\"a\"]\n";
    assert!(refused("a.toml", twice).contains("line 6, column 6: there are two orders"));
    let large = format!("prompt = \"{}\"", "x".repeat(2 << 20));
    assert!(refused("a.toml", &large).contains("larger than 1 MiB"));
}

#[test]
fn text_of_a_file_cannot_redraw_a_terminal() {
    let refusal = refused("a\u{1b}[2J.toml", "\"k\\u001b[2Jey\" = 1\nrepo = \"/r\"\n");
    assert!(!refusal.contains('\u{1b}'), "{refusal:?}");
}

#[test]
fn recurrences_and_agents_are_read() {
    let text = "repo = \"/r\"\n[recurrence]\ncalendar = \"30 3 * * 1-5\"\nzone = \"Europe/Berlin\"\n\
                missed = \"all\"\nat_most = 3\n[[agent]]\nname = \"one\"\ncommand = [\"a\"]\n\
                [[agent]]\nname = \"two\"\ncommand = [\"b\"]\n";
    let drafts = read("n.toml", text);
    let recurrence = drafts[0].spec.hints.recurrence.as_ref().unwrap();
    assert_eq!(recurrence.missed, Missed::All { at_most: 3 });
    assert!(
        matches!(&recurrence.cadence, Cadence::Calendar { calendar } if calendar == "30 3 * * 1-5")
    );
    let agents: Vec<_> = drafts[0]
        .agents
        .iter()
        .map(|agent| agent.name.as_str())
        .collect();
    assert_eq!(agents, ["one", "two"]);
}

#[test]
fn a_policy_that_is_a_pipe_or_too_large_is_refused_without_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let mode = nix::sys::stat::Mode::S_IRWXU;
    nix::unistd::mkfifo(&dir.path().join("pipe"), mode).unwrap();
    std::fs::write(dir.path().join("large"), "#".repeat(300 * 1024)).unwrap();
    for (name, word) in [
        ("pipe", "no regular file"),
        ("large", "larger than 256 KiB"),
    ] {
        let text = format!("repo = \".\"\ncommand = [\"a\"]\npolicy = \"{name}\"\n");
        let source = OrderSource {
            folder: dir.path().into(),
            ..source("one.toml", &text)
        };
        let failure = parse(&source).unwrap_err();
        assert!(failure.message.contains(word), "{failure}");
    }
}

/// Lines of an order in any order, some of them damaged, behind any kind of front matter.
fn order_text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        6 => prop::sample::select(WHOLE.lines().collect::<Vec<_>>()).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["[[order]]", "+++", "---", "a: &b [*b]", "? !!x", "x = {", "- - -"])
            .prop_map(str::to_owned),
        1 => "[a-z_]{1,8} ?[=:] ?[\"\\[{]?\\PC{0,12}",
    ];
    let head = prop::sample::select(vec!["", "+++\n", "---\n", "\u{feff}---\n"]);
    (head, prop::collection::vec(line, 0..20))
        .prop_map(|(head, lines)| format!("{head}{}", lines.join("\n")))
}

proptest! {
    #[test]
    fn any_order_file_is_read_or_refused_in_a_sentence(
        name in prop::sample::select(vec!["x.toml", "x.md", "-"]),
        text in prop_oneof![4 => order_text(), 1 => any::<String>()],
    ) {
        if let Err(failure) = parse(&source(name, &text)) {
            prop_assert!(!failure.message.chars().any(char::is_control), "{failure:?}");
        }
    }
}
