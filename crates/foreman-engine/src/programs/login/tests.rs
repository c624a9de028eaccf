use super::*;
use std::fs;
use std::os::unix::fs::symlink;

const PATH: &str = ".codex/auth.json";
const OLD: &str = r#"{"tokens":{"access":"old"},"last_refresh":"1"}"#;
const NEW: &str = r#"{"last_refresh":"2","tokens":{"access":"new"}}"#;

struct Lending {
    dir: tempfile::TempDir,
    lent: LentFile,
}

impl Lending {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for side in ["home", "run"] {
            fs::create_dir_all(dir.path().join(side).join(".codex")).unwrap();
        }
        let lending = Self {
            dir,
            lent: LentFile::of(PATH, OLD.as_bytes()),
        };
        fs::write(lending.own(), OLD).unwrap();
        fs::write(lending.copy(), OLD).unwrap();
        fs::set_permissions(lending.own(), PermissionsExt::from_mode(0o640)).unwrap();
        lending
    }

    fn own(&self) -> PathBuf {
        self.dir.path().join("home").join(PATH)
    }

    fn copy(&self) -> PathBuf {
        self.dir.path().join("run").join(PATH)
    }

    fn give_back(&self) -> Result<bool, String> {
        let dir = self.dir.path();
        written(&self.lent, &dir.join("run"), &dir.join("home"))
    }

    /// It is left alone, and this is said.
    fn is_refused(&self, why: &str) {
        let before = fs::read(self.own()).ok();
        let refused = self.give_back().unwrap_err();
        assert!(refused.contains(why), "{refused}");
        assert_eq!(fs::read(self.own()).ok(), before);
        let event = give_back(
            &self.lent,
            &self.dir.path().join("run"),
            &self.dir.path().join("home"),
        );
        assert!(
            matches!(event, Some(EventKind::Warning { .. })),
            "{event:?}"
        );
        let folder = self.dir.path().join("home/.codex");
        let left = fs::read_dir(folder).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert!(left.iter().all(|name| name == "auth.json"), "{left:?}");
    }
}

#[test]
fn a_renewed_login_replaces_the_one_that_was_lent_and_nothing_is_said_of_its_content() {
    let lending = Lending::new();
    assert_eq!(lending.give_back(), Ok(false), "nothing was renewed");
    fs::write(lending.copy(), NEW).unwrap();
    let dir = lending.dir.path();
    let event = give_back(&lending.lent, &dir.join("run"), &dir.join("home"));
    let Some(EventKind::Progress { message, .. }) = event else {
        panic!("{event:?}");
    };
    assert!(
        message.contains(PATH) && !message.contains("new\""),
        "{message}"
    );
    assert_eq!(fs::read_to_string(lending.own()).unwrap(), NEW);
    let mode = fs::metadata(lending.own()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    // An engine that was cut short behind it does it again, and says the same.
    assert_eq!(lending.give_back(), Ok(true));
}

#[test]
fn a_login_that_the_operator_renewed_meanwhile_stays() {
    let lending = Lending::new();
    fs::write(lending.copy(), NEW).unwrap();
    fs::write(lending.own(), r#"{"tokens":{},"last_refresh":"3"}"#).unwrap();
    lending.is_refused("not what was lent");
    fs::remove_file(lending.own()).unwrap();
    lending.is_refused("yours cannot be read");
}

#[test]
fn only_a_json_object_with_the_same_entries_comes_back() {
    let lending = Lending::new();
    for (copy, why) in [
        ("", "no JSON object"),
        ("[1]", "no JSON object"),
        ("{\"tokens\":{}", "no JSON object"),
        ("{\"tokens\":{}}", "same entries"),
        (
            r#"{"tokens":{},"last_refresh":"2","apiKeyHelper":"sh -c x"}"#,
            "same entries",
        ),
    ] {
        fs::write(lending.copy(), copy).unwrap();
        lending.is_refused(why);
    }
    let large = format!(
        r#"{{"tokens":"{}","last_refresh":""}}"#,
        "x".repeat(300 << 10)
    );
    fs::write(lending.copy(), large).unwrap();
    lending.is_refused("larger than 256 KiB");
}

#[test]
fn nothing_is_read_through_links_and_pipes_of_a_run() {
    let lending = Lending::new();
    let elsewhere = lending.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("auth.json"), NEW).unwrap();
    fs::remove_file(lending.copy()).unwrap();
    symlink(elsewhere.join("auth.json"), lending.copy()).unwrap();
    lending.is_refused("cannot be read");
    fs::remove_file(lending.copy()).unwrap();
    nix::unistd::mkfifo(&lending.copy(), Mode::from_bits_truncate(0o600)).unwrap();
    lending.is_refused("no regular file");
    let folder = lending.dir.path().join("run/.codex");
    fs::remove_dir_all(&folder).unwrap();
    symlink(&elsewhere, &folder).unwrap();
    lending.is_refused("cannot be read");
    fs::remove_file(&folder).unwrap();
    assert_eq!(lending.give_back(), Ok(false), "the run removed it");
}

#[test]
fn the_operators_file_is_replaced_only_where_it_is_a_plain_one_of_theirs() {
    let lending = Lending::new();
    fs::write(lending.copy(), NEW).unwrap();
    let kept = lending.dir.path().join("kept.json");
    fs::hard_link(lending.own(), &kept).unwrap();
    lending.is_refused("several names");
    fs::remove_file(lending.own()).unwrap();
    symlink(&kept, lending.own()).unwrap();
    lending.is_refused("cannot be read");
    assert_eq!(fs::read_to_string(&kept).unwrap(), OLD);
}
