use super::*;
use crate::{Access, HostPattern};
use foreman_domain::At;
use proptest::prelude::*;

fn parse(text: &str) -> Result<PolicyFile, PolicyError> {
    parse_policy("policy.toml", text, Layer::Project)
}

fn refused(text: &str) -> PolicyError {
    match parse(text) {
        Ok(file) => panic!("accepted: {text}\n{file:?}"),
        Err(error) => error,
    }
}

const DESIGN: &str = r#"
[[egress]]            # name or address, and always a port
host = "packages.example.net"
port = 443
reason = "npm install"
[[egress]]
host = "*.example.com"
port = 443
expires = "2027-01-31"
[[read]]
path = "~/.cargo/registry"
[[write]]
path = "~/.cache/pip/"
[bounds]
wall = "2h"
memory = "4GiB"
processes = 512
output = "256MiB"
"#;

#[test]
fn the_file_of_the_design_reads() {
    let file = parse(DESIGN).unwrap();
    let [one, two] = &file.egress[..] else {
        panic!("{file:?}")
    };
    assert_eq!(
        (one.to_string().as_str(), one.origin.id.0.as_str()),
        ("tcp packages.example.net:443", "project:1")
    );
    assert_eq!(one.origin.source, "policy.toml line 2");
    assert_eq!(one.origin.reason.as_deref(), Some("npm install"));
    assert_eq!(two.host, HostPattern::OneLabelUnder("example.com".into()));
    assert_eq!(
        two.expires,
        Some(At("2027-02-01T00:00:00Z".parse().unwrap()))
    );
    let paths: Vec<_> = file
        .paths
        .iter()
        .map(|rule| (rule.path.to_str(), rule.access))
        .collect();
    assert_eq!(
        paths,
        [
            (Some("~/.cargo/registry"), Access::Read),
            (Some("~/.cache/pip"), Access::Write)
        ]
    );
    assert_eq!(
        file.bounds,
        Bounds {
            wall_seconds: Some(7_200),
            memory_bytes: Some(4 << 30),
            processes: Some(512),
            output_bytes: Some(256 << 20),
            ..Bounds::default()
        }
    );
    assert_eq!(file.warnings, Vec::<String>::new());
}

#[test]
fn an_empty_file_opens_nothing() {
    assert_eq!(parse("# nothing\n"), Ok(PolicyFile::default()));
}

#[test]
fn a_typo_names_its_place_and_the_nearest_key() {
    let error = refused("[[egress]]\nhost = \"a.example\"\n  prot = 443\n");
    assert_eq!((error.line, error.column), (3, 3));
    assert_eq!(error.message, "\"prot\" is not a key of an [[egress]] rule");
    assert_eq!(error.hint.as_deref(), Some("Did you mean \"port\"?"));
    let error = refused("\n[[egres]]\nhost = \"a.example\"\nport = 443\n");
    assert_eq!(
        (error.line, error.hint.as_deref()),
        (2, Some("Did you mean \"egress\"?"))
    );
    let error = refused("[bounds]\nmemroy = \"4GiB\"");
    assert_eq!(
        (error.line, error.hint.as_deref()),
        (2, Some("Did you mean \"memory\"?"))
    );
    let error = refused("zzz = 1");
    assert!(error.hint.unwrap().starts_with("The keys are egress"));
}

#[test]
fn broken_toml_names_its_place() {
    let error = refused("[[egress]]\nhost = \"a.example\nport = 443\n");
    assert_eq!(error.line, 2);
    assert!(
        error.message.starts_with("this is not valid TOML: "),
        "{error}"
    );
    assert!(!error.message.contains('\n'));
}

#[test]
fn each_mistake_in_an_egress_rule_is_at_its_value() {
    for (rule, column, words) in [
        ("host = \"*\"\nport = 443", 8, "host pattern"),
        ("host = \"a b\"\nport = 443", 8, "characters"),
        ("host = \"169.254.169.254\"\nport = 443", 8, "metadata"),
        ("host = \"a.example\"\nport = 0", 8, "not a port"),
        ("host = \"a.example\"\nport = 53", 8, "own resolver"),
        (
            "protocol = \"udp\"\nhost = \"a.example\"\nport = 443",
            8,
            "use TCP",
        ),
        ("host = \"a.example\"\nport = 65536", 8, "not a port"),
        ("host = \"a.example\"\nport = -1", 8, "not a port"),
        ("host = \"a.example\"\nport = \"443\"", 8, "whole number"),
        ("host = \"a.example\"\nport = [80, 443]", 8, "one number"),
        ("host = 7\nport = 443", 8, "is a text"),
        (
            "host = \"a.example\"\nport = 443\nprotocol = \"sctp\"",
            12,
            "not a protocol",
        ),
        (
            "host = \"a.example\"\nport = 443\nexpires = \"tomorrow\"",
            11,
            "not a date",
        ),
        (
            "host = \"a.example\"\nport = 443\nexpires = \"2027-02-30\"",
            11,
            "not a date",
        ),
        (
            "host = \"a.example\"\nport = 443\nexpires = \"2027-02-03T10:00:00\"",
            11,
            "not a date",
        ),
        (
            "host = \"a.example\"\nport = 443\nexpires = 5",
            11,
            "is a text",
        ),
        (
            "host = \"a.example\"\nport = 443\nresolves_to = \"1.1.1.1\"",
            15,
            "private range",
        ),
        (
            "host = \"a.example\"\nport = 443\nresolves_to = \"127.0.0.1\"",
            15,
            "loopback",
        ),
        (
            "host = \"a.example\"\nport = 443\nresolves_to = \"10.0.0.0/4\"",
            15,
            "private range",
        ),
        (
            "host = \"10.1.2.3\"\nport = 443\nresolves_to = \"10.1.2.3\"",
            15,
            "does not resolve",
        ),
        ("port = 443", 1, "has no \"host\""),
        ("host = \"a.example\"", 1, "has no \"port\""),
    ] {
        let error = refused(&format!("[[egress]]\n{rule}\n"));
        assert!(error.message.contains(words), "{rule}: {error}");
        assert_eq!(error.column, column, "{rule}: {error}");
    }
    let error = refused("[[egress]]\nhost = \"a.example:443\"\nport = 443\n");
    assert_eq!(
        error.hint.as_deref(),
        Some("Write the port as a key of its own: port = 443.")
    );
}

#[test]
fn dates_can_be_written_in_each_way_of_toml() {
    for (written, end) in [
        ("\"2027-01-31\"", "2027-02-01T00:00:00Z"),
        ("2027-01-31", "2027-02-01T00:00:00Z"),
        ("\"2027-01-31T12:00:00+02:00\"", "2027-01-31T10:00:00Z"),
        ("2027-01-31T12:00:00Z", "2027-01-31T12:00:00Z"),
    ] {
        let text = format!("[[egress]]\nhost = \"a.example\"\nport = 1\nexpires = {written}\n");
        let file = parse(&text).unwrap();
        assert_eq!(
            file.egress[0].expires,
            Some(At(end.parse().unwrap())),
            "{written}"
        );
    }
}

#[test]
fn repeated_and_contradictory_rules_name_both_places() {
    let rule = "[[egress]]\nhost = \"a.example\"\nport = 443\n";
    let error = refused(&format!("{rule}\n{}", rule.replace("a.ex", "A.ex")));
    assert_eq!(error.line, 5);
    assert_eq!(
        error.message,
        "the rule for tcp a.example:443 repeats that of policy.toml line 1"
    );
    let error = refused(&format!("{rule}{rule}expires = \"2027-01-31\"\n"));
    assert!(
        error
            .message
            .contains("contradicts that of policy.toml line 1"),
        "{error}"
    );
    let error = refused("[[read]]\npath = \"/opt/x\"\n[[write]]\npath = \"/opt//x/\"\n");
    assert!(error.message.contains("contradicts"), "{error}");
    // Another protocol is another subject.
    let rule = rule.replace("443", "4433");
    assert!(parse(&format!("{rule}{rule}protocol = \"udp\"\n")).is_ok());
}

#[test]
fn what_is_not_enforced_yet_is_refused_never_ignored() {
    let error = refused("[bounds]\ncpus = 2\n");
    assert!(error.message.contains("not enforced yet"), "{error}");
    assert_eq!(error.code(), foreman_domain::Code::NotEnforced);
    assert_eq!(error.line, 2);
    assert!(
        parse_bounds("inodes=2")
            .unwrap_err()
            .message
            .contains("not enforced yet")
    );
}

#[test]
fn tokens_cost_and_turns_are_bounds() {
    let bounds = Bounds {
        tokens: Some(500_000),
        cost_microusd: Some(2_500_000),
        turns: Some(40),
        ..Bounds::default()
    };
    assert_eq!(
        parse_bounds("tokens=500k,cost=2.50,turns=40").unwrap(),
        bounds
    );
    let file = parse("[bounds]\ntokens = 500000\ncost = 2.5\nturns = 40\n").unwrap();
    assert_eq!(file.bounds, bounds);
    for absurd in ["tokens=1", "cost=0", "turns=0", "cost=99999999"] {
        assert!(parse_bounds(absurd).is_err(), "{absurd}");
    }
}

#[test]
fn processors_disk_and_open_files_are_bounds() {
    let bounds = Bounds {
        cpu_millicores: Some(2_500),
        disk_bytes: Some(10 << 30),
        open_files: Some(1024),
        ..Bounds::default()
    };
    let file = parse("[bounds]\ncpu = 2.5\ndisk = \"10GiB\"\nopen_files = 1024\n").unwrap();
    assert_eq!(file.bounds, bounds);
    assert_eq!(
        parse_bounds("cpu=2.5,disk=10GiB,open_files=1024"),
        Ok(bounds)
    );
    let whole = parse("[bounds]\ncpu = 2\n").unwrap();
    assert_eq!(whole.bounds.cpu_millicores, Some(2_000));
    for wrong in [
        "cpu = 0.01",
        "cpu = \"many\"",
        "disk = 10",
        "disk = 1.5",
        "open_files = 3",
    ] {
        refused(&format!("[bounds]\n{wrong}\n"));
    }
}

#[test]
fn absurd_bounds_are_refused() {
    for bound in [
        "wall = \"0s\"",
        "wall = \"10 years\"",
        "wall = \"31d\"",
        "wall = 5",
        "memory = \"1KiB\"",
        "memory = \"99999TiB\"",
        "processes = 0",
        "processes = -4",
        "processes = 99999999",
        "processes = \"many\"",
        "output = \"1B\"",
        "wall = true",
        "memory = [1]",
    ] {
        let error = refused(&format!("[bounds]\n{bound}\n"));
        assert_eq!(error.line, 2, "{bound}");
    }
}

#[test]
fn bounds_on_the_command_line_read_alike() {
    let bounds = parse_bounds("wall=2h, memory=4GiB,processes=512,output=256MiB").unwrap();
    assert_eq!(bounds, parse(DESIGN).unwrap().bounds);
    for text in [
        "",
        ",",
        "wall",
        "wall=",
        "wall=2h,",
        "wall=2h,wall=3h",
        "wal=2h",
        "wall=2h;memory=1G",
    ] {
        assert!(parse_bounds(text).is_err(), "{text}");
    }
    let order = parse_bounds("wall=1h").unwrap();
    let both = order.or(bounds);
    assert_eq!(
        (both.wall_seconds, both.processes),
        (Some(3_600), Some(512))
    );
}

#[test]
fn paths_that_no_rule_can_open_are_refused() {
    for path in [
        "~",
        "~/",
        "/",
        "~/.ssh",
        "~/.ssh/id",
        "~/.config",
        "/home",
        "/home/op/.aws",
        "/proc/self",
        "/dev/null",
        "/run/docker.sock",
        "relative",
        "",
        "./x",
        "~op/x",
        "/opt/../etc",
        "~/../op",
        "~/.local/share/foreman/state",
        "/opt/*",
        "/opt/a\\u0000",
        "/opt/a\\n",
    ] {
        for kind in ["read", "write"] {
            let error = refused(&format!("[[{kind}]]\npath = \"{path}\"\n"));
            assert_eq!((error.line, error.column), (2, 8), "{path}: {error}");
        }
    }
    assert!(parse("[[read]]\npath = \"~/.bashrc\"\n").is_ok());
    let error = refused("[[write]]\npath = \"~/.bashrc\"\n");
    assert_eq!(error.hint.as_deref(), Some("A [[read]] rule is possible."));
}

#[test]
fn wrong_shapes_are_refused() {
    for text in [
        "egress = 1",
        "[egress]\nhost = \"a\"",
        "egress = [1]",
        "[[bounds]]\nwall = \"2h\"",
        "bounds = 1",
        "[read]\npath = \"/opt\"",
        "egress.host = \"a.example\"",
        "[[egress]]",
        "[[egress.x]]",
        "[[egress]]\nhost = \"a.example\"\nport = 443\n[egress.x]\ny = 1",
    ] {
        let _ = refused(text);
    }
}

#[test]
fn inline_tables_read_like_others() {
    let file = parse("egress = [\n  { host = \"a.example\", port = 443 },\n]\n").unwrap();
    assert_eq!(file.egress[0].origin.source, "policy.toml line 2");
}

#[test]
fn rules_of_little_effect_are_warned_about() {
    let file = parse(
        "[[egress]]\nhost = \"a.example\"\nport = 443\n[[egress]]\nhost = \"100.64.0.0/10\"\nport = 443\n",
    )
    .unwrap();
    assert_eq!(file.warnings.len(), 1);
    assert!(
        file.warnings[0].starts_with("policy.toml, line 4: the range"),
        "{:?}",
        file.warnings
    );
}

#[test]
fn messages_about_hostile_text_are_safe_and_short() {
    let error = refused(&format!("\"\\u001b[2J{}\" = 1", "x".repeat(10_000)));
    assert!(!error.to_string().chars().any(char::is_control));
    assert!(error.to_string().len() < 400);
    let file =
        parse("[[egress]]\nhost = \"a.example\"\nport = 1\nreason = \"\\u001b[2J\\u202e\"\n")
            .unwrap();
    assert_eq!(
        file.egress[0].origin.reason.as_deref(),
        Some("␛[2J<U+202E>")
    );
}

#[test]
fn sizes_are_bounded() {
    assert!(refused(&"#".repeat(LARGEST + 1)).message.contains("larger"));
    let many: String = (0..=MOST_RULES)
        .map(|n| format!("[[egress]]\nhost = \"h{n}.example\"\nport = 1\n"))
        .collect();
    assert!(refused(&many).message.contains("more than"));
    assert!(parse(&"[".repeat(LARGEST)).is_err());
}

/// Text that gets past the TOML parser often enough to reach what is behind it.
fn policy_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("[[egress]]\n".to_owned()),
        Just("[[read]]\n".to_owned()),
        Just("[bounds]\n".to_owned()),
        Just("[[write]]\n".to_owned()),
        Just("host = ".to_owned()),
        Just("port = ".to_owned()),
        Just("expires = ".to_owned()),
        Just("resolves_to = ".to_owned()),
        Just("path = ".to_owned()),
        Just("wall = ".to_owned()),
        Just("2027-01-31T00:00:00Z\n".to_owned()),
        Just("443\n".to_owned()),
        Just("\"a.example\"\n".to_owned()),
        Just("\"~/x\"\n".to_owned()),
        Just("\"2h\"\n".to_owned()),
        "\"[a-zé*.:/~-]{0,12}\"\n",
        "[0-9-]{1,22}\n",
        "\\PC{0,8}",
    ];
    proptest::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_text_is_read_or_refused_with_a_place_in_it(
        text in prop_oneof![policy_text(), any::<String>()]
    ) {
        if let Err(error) = parse(&text) {
            let lines = u32::try_from(text.split('\n').count()).unwrap();
            prop_assert!((1..=lines).contains(&error.line), "{} of {}", error, lines);
            prop_assert!(!error.to_string().chars().any(char::is_control), "{}", error);
        }
    }

    #[test]
    fn any_value_in_a_rule_is_read_or_refused(value: String, key in "host|expires|resolves_to|reason") {
        let value = toml_edit::Value::from(value).to_string();
        let _ = parse(&format!("[[egress]]\nport = 443\n{key} = {value}\n"));
        let _ = parse(&format!("[[read]]\npath = {value}\n"));
        let _ = parse(&format!("[bounds]\nwall = {value}\n"));
        let _ = parse_bounds(&format!("wall={value}"));
    }
}

#[test]
fn the_example_of_the_documentation_is_a_policy_file() {
    let page = include_str!("../../../../docs/policy.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let file = parse_policy("policy.toml", example, Layer::Order).unwrap();
    let counts = (file.egress.len(), file.paths.len(), file.sockets.len());
    assert_eq!(counts, (3, 2, 1));
    assert!(file.warnings.is_empty(), "{:?}", file.warnings);
}

#[test]
fn a_socket_is_opened_by_its_path_and_a_way_out_is_named() {
    let file = parse(
        "[[socket]]\npath = \"/run/postgresql//.s.PGSQL.5432\"\nreason = \"tests\"\n\
         [[socket]]\npath = \"/var/run/docker.sock\"\nexpires = \"2027-01-31\"\n",
    )
    .unwrap();
    let shown: Vec<_> = file.sockets.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "socket /run/postgresql/.s.PGSQL.5432",
            "socket /var/run/docker.sock"
        ]
    );
    assert!(file.sockets[1].expires.is_some());
    assert_eq!(file.warnings.len(), 1);
    assert!(
        file.warnings[0].starts_with("policy.toml line 4 opens the container engine"),
        "{}",
        file.warnings[0]
    );
}

#[test]
fn a_socket_rule_that_says_nothing_clear_is_refused_with_a_sentence() {
    for (path, words) in [
        ("run/x.sock", "is relative"),
        ("/run/../x.sock", "has \"..\" in it"),
        ("/run/*.sock", "has a pattern in it"),
        ("/run/x/", "names a folder"),
        (
            "/run/user/1000/foreman/control.sock",
            "a socket of the engine's own",
        ),
        (
            "~/.local/share/foreman/run/x",
            "a socket of the engine's own",
        ),
        ("/run/user/1000/keyring/control", "a socket of your keyring"),
        ("/proc/1/root/run/x", "in a tree of the kernel's"),
    ] {
        let error = refused(&format!("[[socket]]\npath = \"{path}\"\n"));
        assert!(error.message.contains(words), "{path}: {error}");
        assert_eq!(error.line, 2);
    }
    let rule = "[[socket]]\npath = \"/run/x.sock\"\n";
    let error = refused(&format!("{rule}{rule}"));
    assert!(
        error.message.contains("repeats that of policy.toml line 1"),
        "{error}"
    );
    let error = refused("[[socket]]\npath = \"/run/x.sock\"\nport = 1\n");
    assert!(
        error.message.contains("is not a key of a [[socket]] rule"),
        "{error}"
    );
    assert!(refused("[[socket]]\n").message.contains("has no \"path\""));
}

#[test]
fn a_port_of_this_machine_is_opened_by_the_name_host_alone() {
    let file = parse(
        "[[egress]]\nhost = \"HOST.\"\nport = 5432\n[[egress]]\nhost = \"host\"\nport = 2375\n",
    )
    .unwrap();
    assert_eq!(file.egress[0].to_string(), "tcp host:5432");
    assert_eq!(file.warnings.len(), 1);
    assert!(
        file.warnings[0].contains("opens the container engine"),
        "{:?}",
        file.warnings
    );
    for (rule, words) in [
        (
            "host = \"host\"\nport = 5432\nprotocol = \"udp\"\n",
            "Only TCP ports of this machine",
        ),
        (
            "host = \"host\"\nport = 5432\nresolves_to = \"10.0.0.1\"\n",
            "resolves to nothing else",
        ),
        ("host = \"host\"\nport = 53\n", "Port 53"),
        (
            "host = \"localhost\"\nport = 5432\n",
            "a name of the loopback address",
        ),
        ("host = \"127.0.0.1\"\nport = 5432\n", "no rule can open"),
    ] {
        let error = refused(&format!("[[egress]]\n{rule}"));
        assert!(error.message.contains(words), "{rule}: {error}");
    }
    assert!(crate::parse_allow("udp:host:5432").is_err());
}

#[test]
fn toolchains_secrets_and_variables_are_named() {
    let file = parse(
        "toolchains = [\"rust\", \"node\"]\nsecrets = [\"API_KEY\", \"DB=PGPASSWORD\"]\n[env]\npass = [\"CI\"]\n",
    )
    .unwrap();
    let wanted = [crate::Toolchain::Rust, crate::Toolchain::Node];
    assert_eq!(file.toolchains.as_deref(), Some(&wanted[..]));
    let secrets: Vec<_> = file.secrets.iter().map(ToString::to_string).collect();
    assert_eq!(secrets, ["API_KEY", "DB=PGPASSWORD"]);
    assert_eq!(file.env, ["CI"]);
    assert_eq!(parse("").unwrap().toolchains, None);
    assert_eq!(
        parse("toolchains = [\"none\"]").unwrap().toolchains,
        Some(vec![])
    );
}

#[test]
fn what_can_be_no_wish_is_refused_with_its_place() {
    for (text, said) in [
        ("toolchains = \"rust\"", "is a list of texts"),
        ("toolchains = [\"cobol\"]", "cobol"),
        ("secrets = [1]", "is a list of texts"),
        ("secrets = [\"A\", \"B=A\"]", "two secrets"),
        ("env = 1", "one table"),
        ("[env]\npass = [\"A=1\"]", "name of a variable"),
        ("[env]\nset = [\"A\"]", "not a key"),
    ] {
        let error = refused(text);
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
    // A value that was written by mistake is not repeated.
    let error = refused("secrets = [\"KEY=hunter2-hunter2\"]");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}
