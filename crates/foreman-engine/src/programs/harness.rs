//! An agent with a driver, made ready for one run: which program, which arguments, what it may see of this machine,
//! what is in its home.
//!
//! Of this machine an agent sees its own package and, where it needs one, the Node.js that starts it, read-only. Its
//! home is the run's own. Files that the operator keeps for it (logins, its list of models) are copied into that
//! home only where the operator said so for this run; what the agent makes of them comes back only where that was
//! said, too ([`super::login`]).

use super::agent_key::{self, Led};
use super::agents::{is_program, places};
use super::login::LentFile;
use crate::api::AgentChoice;
use crate::environment::Account;
use crate::failures::{internal, io, policy as policy_failure};
use crate::policies::Layers;
use foreman_agent::{Conversation, HomeFile, Profile, ProfileError, profile, profiles};
use foreman_cage::Bind;
use foreman_domain::{Code, Failure, Host, Protocol, Subject, sanitize_line};
use foreman_policy::{Denial, Layer, Origin, RuleId, parse_policy};
use foreman_shim::protocol::Key;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Longest prompt: an argument of a program holds at most 128 KiB.
const LONGEST_PROMPT: usize = 120 * 1024;
/// Largest file that is lent.
const LARGEST_LENT: u64 = 4 << 20;
/// Folders that every cage shows.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];
/// The interpreter of agents that are scripts.
const NODE: &str = "node";

/// An agent that is ready for a run.
#[derive(Clone)]
pub(crate) struct Harness {
    pub argv: Vec<String>,
    conversation: Conversation,
    profile: Profile,
    /// What starts it: the interpreter, where it needs one, and the program.
    starts: Vec<String>,
    model: Option<String>,
    /// Variables of its profile: what the operator names wins over them.
    pub env: Vec<(String, String)>,
    /// Rules of its profile, as the text of a policy file.
    rules: String,
    /// What its profile refuses at once.
    refuses: Vec<Denial>,
    files: Vec<(String, Vec<u8>)>,
    /// What is added outside to what it asks of its model.
    pub key: Option<Key>,
    /// Files of the login that are to be written back.
    pub lent: Vec<LentFile>,
}

impl std::fmt::Debug for Harness {
    /// Without the files: logins are among them.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let agent = &self.conversation.agent;
        out.debug_struct("Harness")
            .field("agent", agent)
            .finish_non_exhaustive()
    }
}

/// Refuses what can be refused without a look at the machine.
pub(crate) fn check(choice: &AgentChoice) -> Result<(), Failure> {
    let known = known(&choice.name)?;
    let refuse = |what: &str| Err(Failure::new(Code::BadInput, what));
    if choice.prompt.trim().is_empty() {
        return Err(
            Failure::new(Code::Usage, "the agent is asked to do nothing")
                .hint("Say what it is to do: foreman run --agent NAME \"PROMPT\"."),
        );
    }
    if choice.prompt.len() > LONGEST_PROMPT {
        return refuse("the prompt is longer than 120 KiB, which no program can be given");
    }
    let words = [Some(&choice.prompt), choice.model.as_ref()];
    if words.into_iter().flatten().any(|text| text.contains('\0')) {
        return refuse("what the agent is told holds a NUL byte, which no program can be given");
    }
    if choice.model.is_some() && !known.takes_a_model() {
        let what = format!("{} cannot be told which model to use", known.title);
        return Err(Failure::new(Code::BadInput, what)
            .hint("Say it in its own settings, and lend them: --lend-login."));
    }
    agent_key::check(choice, &known)
}

fn known(name: &str) -> Result<Profile, Failure> {
    profile(name).map_err(|error| match error {
        ProfileError::Unknown { .. } => {
            let name = sanitize_line(name);
            let names: Vec<_> = profiles()
                .unwrap_or_default()
                .into_iter()
                .map(|one| one.name)
                .collect();
            Failure::new(
                Code::BadInput,
                format!("no agent called \"{name}\" is known"),
            )
            .hint(format!(
                "Known are: {}. Any other program runs behind `--`.",
                names.join(", ")
            ))
        }
        error => internal(error),
    })
}

impl Harness {
    /// Finds the agent on this machine, and reads what the operator lends. Blocking.
    pub(crate) fn find(
        choice: &AgentChoice,
        account: &Account,
        path: Option<&OsStr>,
    ) -> Result<Self, Failure> {
        let profile = known(&choice.name)?;
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let places = places(path, home.as_deref());
        let find = |program: &str| {
            let mut found = places.iter().map(|place| place.join(program));
            found
                .find(|path| is_program(path))
                .and_then(|path| path.canonicalize().ok())
        };
        let Some(program) = find(&profile.program) else {
            let what = format!(
                "{} is not installed: there is no program \"{}\"",
                profile.title, profile.program
            );
            return Err(Failure::new(Code::NotFound, what).hint(
                "`foreman agents` says where it was looked for; docs/agents.md how to install it.",
            ));
        };
        let conversation = Conversation {
            agent: profile.name.clone(),
            wire: profile.wire(),
            prompt: choice.prompt.clone(),
            cwd: String::new(),
            resume: None,
            mode: profile.mode.clone(),
            patience: Some(profile.patience),
        };
        let mut starts = vec![text_of(&program)?];
        let mut reads = vec![package_of(&program)];
        if needs_node(&program) {
            let Some(node) = find(NODE) else {
                let what = format!(
                    "{} needs Node.js, and there is no program \"node\"",
                    profile.title
                );
                return Err(Failure::new(Code::NotFound, what));
            };
            starts.insert(0, text_of(&node)?);
            reads.push(node);
        }
        let mut env = profile.environment.clone();
        let led = agent_key::led(choice, &profile);
        let of_key = led.as_ref().map_or(&[][..], |led| led.files.as_slice());
        let files = files(&profile, of_key, choice.lend_login, &account.home)?;
        let key = led.map(|Led { key, env: own, .. }| {
            env.extend(own);
            key
        });
        let mut found = Self {
            argv: Vec::new(),
            conversation,
            env: env.into_iter().collect(),
            rules: rules(&profile, &reads)?,
            refuses: refuses(&profile),
            lent: to_write_back(choice, &profile.writes_back, &files),
            profile,
            starts,
            model: choice.model.clone(),
            files,
            key,
        };
        found.begin();
        Ok(found)
    }

    fn begin(&mut self) {
        let mut starts = self.starts.clone();
        let program = starts.pop().unwrap_or_default();
        let model = self.model.as_deref();
        self.argv = starts;
        self.argv
            .extend(self.profile.argv(&program, &self.conversation, model));
    }

    /// Has it go on with a session of an earlier run of its.
    pub(crate) fn go_on(&mut self, session: &str) {
        self.conversation.resume = Some(session.to_owned());
        self.begin();
    }

    /// Leaves out the variables of its profile that the operator gives values of their own.
    pub(crate) fn give_way_to(&mut self, asked: &[(String, String)]) {
        self.env
            .retain(|(name, _)| !asked.iter().any(|(asked, _)| asked == name));
    }

    /// The conversation of a run that works in this folder.
    pub(crate) fn conversation_in(&self, workdir: &Path) -> Conversation {
        Conversation {
            cwd: workdir.to_string_lossy().into_owned(),
            ..self.conversation.clone()
        }
    }

    /// Adds what its profile opens, below everything that the operator said.
    pub(crate) fn open(&self, layers: &mut Layers) -> Result<(), Failure> {
        let source = format!("profile {}", self.conversation.agent);
        let parsed = parse_policy(&source, &self.rules, Layer::Profile)
            .map_err(|error| policy_failure(Code::Internal, &error))?;
        layers.policy.egress.splice(0..0, parsed.egress);
        layers.policy.paths.splice(0..0, parsed.paths);
        layers.policy.denials.extend(self.refuses.clone());
        Ok(())
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Folders of its home that are the run's own and stay.
    pub(crate) fn keeps(&self) -> &[String] {
        &self.profile.keeps
    }

    /// Makes the folders of its home in `place`, which is the run's; gives how they are shown. What was handed on to
    /// it from an earlier run stays as it is. Blocking.
    pub(crate) fn make_home(
        &self,
        place: &Path,
        home: &Path,
        is_handed_on: bool,
    ) -> Result<Vec<Bind>, Failure> {
        let fail = |path: &Path, error: &std::io::Error| {
            io(format!("{} cannot be made", path.display()), error)
        };
        let folder = |path: &Path| {
            let made = std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path);
            made.map_err(|error| fail(path, &error))
        };
        let mut binds = Vec::new();
        for kept in self.keeps() {
            let source = place.join(kept);
            folder(&source)?;
            binds.push(Bind {
                source,
                target: home.join(kept),
                writable: true,
            });
        }
        for (path, bytes) in &self.files {
            let path = place.join(path);
            if is_handed_on && path.symlink_metadata().is_ok() {
                continue;
            }
            folder(path.parent().unwrap_or(place))?;
            let written = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .and_then(|mut file| std::io::Write::write_all(&mut file, bytes));
            written.map_err(|error| fail(&path, &error))?;
        }
        Ok(binds)
    }
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Failure::new(
            Code::BadInput,
            format!("{} is no UTF-8 text", path.display()),
        )
    })
}

/// What a program is part of: the outermost `node_modules` that it lies in, else it alone.
fn package_of(program: &Path) -> PathBuf {
    let mut package = PathBuf::new();
    for part in program.components() {
        package.push(part);
        if part == Component::Normal(OsStr::new("node_modules")) {
            return package;
        }
    }
    program.to_owned()
}

/// Whether it is a script for Node.js.
fn needs_node(program: &Path) -> bool {
    let mut start = [0; 128];
    let read = std::fs::File::open(program).and_then(|mut file| file.read(&mut start));
    let start = start.get(..read.unwrap_or(0)).unwrap_or_default();
    let line = start
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let Some(interpreter) = line
        .strip_prefix(b"#!")
        .and_then(|line| std::str::from_utf8(line).ok())
    else {
        return false;
    };
    interpreter
        .split(['/', ' '])
        .any(|word| word.trim() == NODE)
}

fn rules(profile: &Profile, reads: &[PathBuf]) -> Result<String, Failure> {
    let quoted = |text: &str| serde_json::to_string(text).map_err(internal);
    let mut rules = String::new();
    for host in &profile.hosts {
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "443"));
        let reason = quoted(&format!("the model of {}", profile.title))?;
        rules.push_str(&format!(
            "[[egress]]\nhost = {}\nport = {port}\nreason = {reason}\n",
            quoted(name)?
        ));
    }
    for path in reads {
        if SYSTEM.iter().any(|shown| path.starts_with(shown)) {
            continue;
        }
        let reason = quoted(&format!("{} itself", profile.title))?;
        rules.push_str(&format!(
            "[[read]]\npath = {}\nreason = {reason}\n",
            quoted(&text_of(path)?)?
        ));
    }
    Ok(rules)
}

/// Its telemetry: an agent that is made to wait for it starts late, and a card of it says nothing.
fn refuses(profile: &Profile) -> Vec<Denial> {
    let denial = |(number, host): (usize, &String)| Denial {
        origin: Origin {
            id: RuleId(format!("profile:telemetry:{}", number + 1)),
            layer: Layer::Profile,
            source: format!("profile {}", profile.name),
            amendment: None,
            reason: None,
        },
        subject: Subject::Egress {
            protocol: Protocol::Tcp,
            host: Host::Name(host.clone()),
            port: 443,
            resolved: None,
        },
        reason: format!("telemetry of {}, which works without it", profile.title),
    };
    profile.telemetry.iter().enumerate().map(denial).collect()
}

/// The files for its home: the operator's, where they are lent, else those of the profile.
fn files(
    profile: &Profile,
    of_key: &[HomeFile],
    lend: bool,
    home: &Path,
) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut files = Vec::new();
    for path in profile.logins.iter().filter(|_| lend) {
        if let Some(bytes) = lent(&home.join(path))? {
            files.push((path.clone(), bytes));
        }
    }
    if lend && files.is_empty() {
        let names: Vec<_> = profile
            .logins
            .iter()
            .map(|path| format!("~/{path}"))
            .collect();
        let what = format!("{} has no login or settings here to be lent", profile.title);
        return Err(
            Failure::new(Code::NotFound, what).hint(format!("Looked for: {}.", names.join(", ")))
        );
    }
    for file in of_key.iter().chain(&profile.files) {
        if !files.iter().any(|(path, _)| *path == file.path) {
            files.push((file.path.clone(), file.text.clone().into_bytes()));
        }
    }
    Ok(files)
}

/// Of the files that are lent, those that come back.
fn to_write_back(
    choice: &AgentChoice,
    paths: &[String],
    files: &[(String, Vec<u8>)],
) -> Vec<LentFile> {
    let lent = files.iter().filter(|(path, _)| paths.contains(path));
    lent.filter(|_| choice.refresh_login)
        .map(|(path, bytes)| LentFile::of(path, bytes))
        .collect()
}

/// A file of the operator's; none where there is none.
fn lent(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let fail = |error: std::io::Error| io(format!("{} cannot be lent", path.display()), &error);
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let mut bytes = Vec::new();
    file.take(LARGEST_LENT + 1)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    if bytes.len() as u64 > LARGEST_LENT {
        let what = format!("{} is too large to be lent", path.display());
        return Err(Failure::new(Code::BadInput, what));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn choice(name: &str) -> AgentChoice {
        AgentChoice {
            name: name.into(),
            prompt: "do it".into(),
            model: None,
            lend_login: false,
            refresh_login: false,
            key: None,
        }
    }

    fn account(home: &Path) -> Account {
        Account {
            home: home.to_owned(),
            user: "op".into(),
        }
    }

    fn installed(text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("node_modules/pi");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        for (name, text) in [("pi", text), ("node", "#!/bin/sh\n")] {
            let path = package.join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            std::os::unix::fs::symlink(&path, dir.path().join("bin").join(name)).unwrap();
        }
        dir
    }

    #[test]
    fn an_agent_is_started_by_what_its_link_leads_to_and_sees_its_package_only() {
        let dir = installed("#!/usr/bin/env node\n");
        let bin = dir.path().join("bin");
        let found =
            Harness::find(&choice("pi"), &account(dir.path()), Some(bin.as_os_str())).unwrap();
        let package = dir.path().canonicalize().unwrap().join("node_modules");
        assert_eq!(Path::new(&found.argv[0]), package.join("pi/node"));
        assert_eq!(Path::new(&found.argv[1]), package.join("pi/pi"));
        assert!(
            found
                .rules
                .contains(&format!("path = {:?}", package.to_str().unwrap())),
            "{}",
            found.rules
        );
        assert!(!found.rules.contains("bin\""), "{}", found.rules);
        assert!(found.files.is_empty());
    }

    #[test]
    fn nothing_of_the_operators_is_lent_unasked_and_what_is_lent_is_a_copy() {
        let dir = installed("#!/bin/sh\n");
        let bin = dir.path().join("bin");
        let agent = dir.path().join(".pi/agent");
        let lending = AgentChoice {
            lend_login: true,
            ..choice("pi")
        };
        let find = |choice: &AgentChoice| {
            Harness::find(choice, &account(dir.path()), Some(bin.as_os_str()))
        };
        assert_eq!(
            find(&lending).unwrap_err().code,
            Code::NotFound,
            "there is nothing to lend"
        );
        std::fs::create_dir_all(&agent).unwrap();
        std::fs::write(agent.join("auth.json"), "secret").unwrap();
        assert!(find(&choice("pi")).unwrap().files.is_empty());
        let found = find(&lending).unwrap();
        let place = dir.path().join("run");
        let binds = found
            .make_home(&place, Path::new("/home/op"), false)
            .unwrap();
        assert_eq!(
            std::fs::read(place.join(".pi/agent/auth.json")).unwrap(),
            b"secret"
        );
        assert_eq!((binds.len(), binds[0].writable), (1, true));
        assert_eq!(binds[0].target, Path::new("/home/op/.pi"));
        assert_eq!(binds[0].source, place.join(".pi"));
        assert!(
            found
                .make_home(&place, Path::new("/home/op"), false)
                .is_err(),
            "nothing is written over"
        );
        std::fs::write(place.join(".pi/agent/auth.json"), "refreshed").unwrap();
        found
            .make_home(&place, Path::new("/home/op"), true)
            .unwrap();
        let kept = std::fs::read(place.join(".pi/agent/auth.json")).unwrap();
        assert_eq!(kept, b"refreshed");
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_made() {
        for bad in [
            choice("no-such-agent"),
            AgentChoice {
                prompt: " ".into(),
                ..choice("pi")
            },
            AgentChoice {
                prompt: "a\0b".into(),
                ..choice("pi")
            },
            AgentChoice {
                model: Some("x".into()),
                ..choice("opencode")
            },
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
        assert!(check(&choice("pi")).is_ok());
        let nowhere = tempfile::tempdir().unwrap();
        let script = nowhere.path().join("x");
        std::fs::write(&script, "#!/usr/bin/python3 -S node.py\n").unwrap();
        assert!(!needs_node(&script));
    }
}
