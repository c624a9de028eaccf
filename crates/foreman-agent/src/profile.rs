//! What one agent needs, as data that is part of this program.

use crate::map::LineMap;
use crate::port::{Conversation, Wire};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The profiles, by name.
const TEXTS: [(&str, &str); 6] = [
    ("pi", include_str!("../profiles/pi.toml")),
    ("codex", include_str!("../profiles/codex.toml")),
    ("opencode", include_str!("../profiles/opencode.toml")),
    ("gemini", include_str!("../profiles/gemini.toml")),
    ("qwen", include_str!("../profiles/qwen.toml")),
    ("claude", include_str!("../profiles/claude.toml")),
];

/// How long an agent's model may make no progress, where its profile does not say, in seconds.
const PATIENCE: u32 = 600;

/// What one agent needs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name, as `--agent` takes it.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// Its program, looked up on the search path.
    pub program: String,
    /// `lines`, `acp` or `claude`.
    wire: String,
    /// The mode of its session, where the protocol has modes.
    #[serde(default)]
    pub mode: Option<String>,
    /// Its arguments; `{model}` stands for those of `model`, `{prompt}` for the prompt.
    arguments: Vec<String>,
    /// Arguments that name a model, with `{value}`.
    model: Vec<String>,
    /// Arguments that go on with a session, with `{value}`; they stand behind those of the model.
    #[serde(default)]
    resume: Vec<String>,
    /// Its arguments instead of `arguments` when it goes on with a session, where that is another command; `{session}`
    /// stands for the session.
    #[serde(default)]
    resume_arguments: Vec<String>,
    /// Variables: telemetry and looking for newer versions are off.
    pub environment: BTreeMap<String, String>,
    /// Folders of its home that are kept with the run, relative.
    pub keeps: Vec<String>,
    /// Files of the operator's home that hold logins and providers; lent by consent only.
    pub logins: Vec<String>,
    /// Those of them that hold nothing but tokens, which it renews: given back where the operator said so.
    #[serde(default)]
    pub writes_back: Vec<String>,
    /// How it is led to a forwarder that adds a key; none where it cannot be.
    #[serde(default)]
    pub key: Option<KeyProfile>,
    /// Hosts with ports that it cannot work without.
    pub hosts: Vec<String>,
    /// Hosts that it tries by itself, and can do without; the tools that it runs may mean them, too.
    pub known_hosts: Vec<String>,
    /// Hosts that nothing but its own telemetry has a use for: refused at once, at port 443.
    #[serde(default)]
    pub telemetry: Vec<String>,
    /// It says what it costs.
    #[serde(default)]
    pub reports_cost: bool,
    /// What becomes of its own sandbox, in words.
    pub sandbox: String,
    /// Files that are put into its home where the operator lends none.
    #[serde(default)]
    pub files: Vec<HomeFile>,
    /// What becomes of a call of one of its tools that is held for long; absent where it waits for as long as it
    /// takes.
    #[serde(default)]
    pub hold_limit: Option<HoldLimit>,
    /// How long its model may make no progress, in seconds.
    #[serde(default = "patience")]
    pub patience: u32,
    /// What its lines mean.
    #[serde(default)]
    map: Option<LineMap>,
}

fn patience() -> u32 {
    PATIENCE
}

/// How long an agent waits for one of its own tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldLimit {
    /// So many seconds, as measured.
    pub seconds: u32,
    /// What it does then, as the rest of a sentence that begins with its name.
    pub then: String,
}

/// A file for an agent's home.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct HomeFile {
    /// Where, relative, in one of the folders that are kept.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// How an agent sends what it asks of its model to another place, and what its model's host expects.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyProfile {
    /// The model's host.
    pub host: String,
    /// What stands before its paths there: empty, or with a slash before it and none behind.
    pub path: String,
    /// The field of a request that the key is sent in.
    pub header: String,
    /// What stands before it there.
    #[serde(default)]
    pub prefix: String,
    /// Variables, in which `{base}` stands for the address of the other place with the path, and
    /// `{placeholder}` for what stands for the key in the cage.
    pub environment: BTreeMap<String, String>,
    /// Files for its home in the same way, instead of those that it has else.
    #[serde(default)]
    pub files: Vec<HomeFile>,
}

/// A profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There is none of that name.
    #[error("there is no agent called {name}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It does not say what it must.
    #[error("the profile of {name} is not sound: {why}")]
    Unsound {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
}

/// All profiles.
///
/// # Errors
/// [`ProfileError::Unsound`]: a bug of ours.
pub fn profiles() -> Result<Vec<Profile>, ProfileError> {
    TEXTS.iter().map(|(name, text)| parse(name, text)).collect()
}

/// The profile of an agent.
///
/// # Errors
/// When there is none, or it is not sound.
pub fn profile(name: &str) -> Result<Profile, ProfileError> {
    let found = TEXTS.iter().find(|(known, _)| *known == name);
    let (name, text) = found.ok_or_else(|| ProfileError::Unknown {
        name: name.to_owned(),
    })?;
    parse(name, text)
}

fn parse(name: &str, text: &str) -> Result<Profile, ProfileError> {
    let unsound = |why: String| ProfileError::Unsound {
        name: name.to_owned(),
        why,
    };
    let profile: Profile = toml::from_str(text).map_err(|error| unsound(error.to_string()))?;
    match (profile.wire.as_str(), &profile.map) {
        ("lines" | "claude", Some(_)) | ("acp", None) => {}
        (wire, _) => {
            return Err(unsound(format!(
                "the wire {wire} and its map do not go together"
            )));
        }
    }
    let is_plain = |path: &String| {
        !path.is_empty() && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
    };
    let of_key = profile.key.iter().flat_map(|key| &key.files);
    let files = profile.files.iter().chain(of_key).map(|file| &file.path);
    for path in profile
        .keeps
        .iter()
        .chain(&profile.logins)
        .chain(files.clone())
    {
        if !is_plain(path) {
            return Err(unsound(format!("{path} is no path below a home")));
        }
    }
    for path in &profile.writes_back {
        if !profile.logins.contains(path) {
            return Err(unsound(format!("{path} is written back and never lent")));
        }
    }
    for path in profile.logins.iter().chain(files) {
        let is_kept = profile.keeps.iter().any(|kept| {
            path.strip_prefix(kept.as_str())
                .is_some_and(|rest| rest.starts_with('/'))
        });
        if !is_kept {
            return Err(unsound(format!("{path} is in no folder that is kept")));
        }
    }
    Ok(profile)
}

impl Profile {
    /// Its command line.
    #[must_use]
    pub fn argv(
        &self,
        program: &str,
        conversation: &Conversation,
        model: Option<&str>,
    ) -> Vec<String> {
        let filled = |words: &[String], value: &str| -> Vec<String> {
            words
                .iter()
                .map(|word| word.replace("{value}", value))
                .collect()
        };
        let mut argv = vec![program.to_owned()];
        let session = conversation.resume.as_ref();
        let arguments = match session {
            Some(_) if !self.resume_arguments.is_empty() => &self.resume_arguments,
            _ => &self.arguments,
        };
        for word in arguments {
            match word.as_str() {
                "{model}" => {
                    if let Some(model) = model {
                        argv.extend(filled(&self.model, model));
                    }
                    if let Some(session) = session {
                        argv.extend(filled(&self.resume, session));
                    }
                }
                "{session}" => argv.extend(session.cloned()),
                // One word, whatever is in it; a first letter that begins an option is kept from being one.
                "{prompt}" if conversation.prompt.starts_with('-') => {
                    argv.push(format!(" {}", conversation.prompt));
                }
                "{prompt}" => argv.push(conversation.prompt.clone()),
                word => argv.push(word.to_owned()),
            }
        }
        argv
    }

    /// How it speaks.
    #[must_use]
    pub fn wire(&self) -> Wire {
        match (&self.map, self.wire.as_str()) {
            (Some(map), "claude") => Wire::Claude { map: map.clone() },
            (Some(map), _) => Wire::Lines { map: map.clone() },
            (None, _) => Wire::Acp,
        }
    }

    /// True when it can go on with a session of an earlier run: over its protocol, or by its arguments.
    #[must_use]
    pub fn can_resume(&self) -> bool {
        self.map.is_none() || !self.resume.is_empty() || !self.resume_arguments.is_empty()
    }

    /// True when it can be told to use a model.
    #[must_use]
    pub fn takes_a_model(&self) -> bool {
        !self.model.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(prompt: &str) -> Conversation {
        Conversation {
            agent: "pi".into(),
            wire: Wire::Acp,
            prompt: prompt.into(),
            cwd: "/w".into(),
            resume: None,
            mode: None,
            patience: None,
        }
    }

    #[test]
    fn every_profile_is_sound_and_goes_by_its_own_name() {
        let all = profiles().unwrap();
        assert_eq!(all.len(), TEXTS.len());
        for ((name, _), profile) in TEXTS.iter().zip(&all) {
            assert_eq!(*name, profile.name);
            assert!(!profile.sandbox.is_empty());
            assert!(profile.patience > 0);
            assert!(
                profile
                    .hold_limit
                    .as_ref()
                    .is_none_or(|limit| limit.seconds > 0)
            );
        }
        assert!(matches!(profile("no"), Err(ProfileError::Unknown { .. })));
    }

    #[test]
    fn a_key_is_never_in_what_an_agent_is_given_and_its_place_is() {
        for profile in profiles().unwrap() {
            let Some(key) = profile.key else { continue };
            let texts = key.environment.values();
            let texts: Vec<_> = texts
                .chain(key.files.iter().map(|file| &file.text))
                .collect();
            let has = |mark: &str| texts.iter().any(|text| text.contains(mark));
            assert!(has("{base}") && has("{placeholder}"), "{}", profile.name);
            assert!(
                key.path.is_empty() || key.path.starts_with('/'),
                "{}",
                profile.name
            );
            assert!(key.host.contains('.'), "{}", profile.name);
        }
    }

    #[test]
    fn a_prompt_is_one_argument_and_never_an_option() {
        let pi = profile("pi").unwrap();
        let argv = pi.argv("/opt/pi", &conversation("--help me; {model}"), Some("a/b"));
        assert_eq!(
            argv,
            [
                "/opt/pi",
                "-p",
                "--mode",
                "json",
                "--model",
                "a/b",
                " --help me; {model}"
            ]
        );
        let resumed = Conversation {
            resume: Some("s1".into()),
            ..conversation("go on")
        };
        let argv = pi.argv("pi", &resumed, None);
        assert_eq!(
            argv,
            ["pi", "-p", "--mode", "json", "--session", "s1", "go on"]
        );
    }

    #[test]
    fn every_agent_goes_on_with_a_session_of_its_own() {
        assert!(profiles().unwrap().iter().all(Profile::can_resume));
        let resumed = Conversation {
            resume: Some("t-1".into()),
            ..conversation("go on")
        };
        let argv = profile("codex").unwrap().argv("codex", &resumed, None);
        let wanted = [
            "codex",
            "exec",
            "resume",
            "--json",
            "-c",
            "sandbox_mode=\"danger-full-access\"",
            "--skip-git-repo-check",
            "t-1",
            "go on",
        ];
        assert_eq!(argv, wanted);
        let argv = profile("gemini").unwrap().argv("gemini", &resumed, None);
        assert!(argv.windows(2).any(|two| two == ["-r", "t-1"]), "{argv:?}");
    }

    #[test]
    fn a_profile_that_leads_out_of_what_is_kept_is_refused() {
        let text = include_str!("../profiles/pi.toml");
        for (good, bad) in [
            ("keeps = [\".pi\"]", "keeps = [\"../x\"]"),
            ("keeps = [\".pi\"]", "keeps = [\".pip\"]"),
            ("wire = \"lines\"", "wire = \"acp\""),
            (
                "writes_back = [\".pi/agent/auth.json\"]",
                "writes_back = [\".pi/agent/other.json\"]",
            ),
        ] {
            assert!(text.contains(good));
            assert!(parse("pi", &text.replace(good, bad)).is_err(), "{bad}");
        }
    }
}
