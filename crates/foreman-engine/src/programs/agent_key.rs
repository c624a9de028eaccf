//! How an agent is led to the forwarder that adds its key, and what that is to do.
//!
//! In the cage there is the address of the forwarder and a word that stands for the key. Neither is worth
//! anything elsewhere.

use crate::api::AgentChoice;
use foreman_agent::{HomeFile, Profile};
use foreman_domain::{Code, Failure};
use foreman_policy::KeyPlace;
use foreman_shim::forward::NAME;
use foreman_shim::protocol::Key;
use foreman_shim::secrets::Secret;

/// What stands for the key in the cage: agents want to see one.
pub(crate) const PLACEHOLDER: &str = "added-outside-of-the-cage";
/// Where HTTPS is.
const HTTPS: u16 = 443;

/// What an agent is given for a key, and what is done with the key.
#[derive(Debug)]
pub(super) struct Led {
    pub key: Key,
    pub env: Vec<(String, String)>,
    pub files: Vec<HomeFile>,
}

/// Refuses what can be refused without a look at the machine.
pub(super) fn check(choice: &AgentChoice, profile: &Profile) -> Result<(), Failure> {
    if choice.refresh_login && !choice.lend_login {
        return Err(Failure::new(
            Code::Usage,
            "a login that is not lent cannot be written back",
        ));
    }
    if choice.key.is_none() {
        return Ok(());
    }
    if choice.lend_login {
        return Err(Failure::new(
            Code::Usage,
            "a login that is lent and a key that is added outside exclude each other",
        )
        .hint("Keep one of them: --lend-login or --key."));
    }
    if profile.key.is_none() {
        let what = format!(
            "{} cannot be led to another place than its model's, so no key can be added outside",
            profile.title
        );
        return Err(Failure::new(Code::BadInput, what)
            .hint("Hand the key to it, where it can read it: --secret NAME[=VARIABLE]."));
    }
    Ok(())
}

/// What the choice of a key comes to; nothing where none was chosen.
pub(super) fn led(choice: &AgentChoice, profile: &Profile) -> Option<Led> {
    let (chosen, known) = choice.key.as_ref().zip(profile.key.as_ref())?;
    let place = chosen.to.clone().unwrap_or_else(|| KeyPlace {
        host: known.host.clone(),
        port: HTTPS,
        path: known.path.clone(),
    });
    let base = format!("http://{NAME}{}", place.path);
    let filled = |text: &str| {
        text.replace("{base}", &base)
            .replace("{placeholder}", PLACEHOLDER)
    };
    let env = known.environment.iter();
    let files = known.files.iter();
    Some(Led {
        key: Key {
            secret: chosen.name.clone(),
            header: known.header.clone(),
            prefix: known.prefix.clone(),
            host: place.host,
            port: place.port,
        },
        env: env
            .map(|(name, value)| (name.clone(), filled(value)))
            .collect(),
        files: files
            .map(|file| HomeFile {
                path: file.path.clone(),
                text: filled(&file.text),
            })
            .collect(),
    })
}

/// Refuses a value that no field of HTTP can hold.
pub(crate) fn check_value(secret: &Secret) -> Result<(), Failure> {
    let fits = secret.value.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then_some(()).ok_or_else(|| {
        let what = format!(
            "the secret {} cannot be a key: a key has no spaces, line ends or letters beyond ASCII",
            secret.use_as.name
        );
        Failure::new(Code::BadInput, what)
    })
}

/// What an operator must know about a run whose key is added outside, as a sentence.
pub(crate) fn notice(key: &Key) -> String {
    format!(
        "The key {} is added outside of the cage to what this run asks of {} through the name \"{NAME}\"; it is \
         not in the cage, and sent to no other host, but whatever runs in the cage can use it there",
        key.secret, key.host
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_agent::profile;
    use foreman_policy::parse_key_use;

    fn choice(key: &str) -> AgentChoice {
        AgentChoice {
            name: "codex".into(),
            prompt: "do it".into(),
            model: None,
            lend_login: false,
            refresh_login: false,
            key: Some(parse_key_use(key).unwrap()),
        }
    }

    #[test]
    fn an_agent_is_led_to_the_name_inside_and_the_key_to_its_host() {
        let codex = profile("codex").unwrap();
        let led = led(&choice("API_KEY"), &codex).unwrap();
        assert_eq!(
            (led.key.host.as_str(), led.key.port),
            ("api.openai.com", 443)
        );
        assert_eq!(
            (led.key.header.as_str(), led.key.prefix.as_str()),
            ("authorization", "Bearer ")
        );
        let config = &led.files[0].text;
        assert!(config.contains("base_url = \"http://key/v1\""), "{config}");
        assert!(led.env.iter().any(|(_, value)| value == PLACEHOLDER));
        let led = super::led(&choice("API_KEY=router.example:8443/api/v1"), &codex).unwrap();
        assert_eq!(
            (led.key.host.as_str(), led.key.port),
            ("router.example", 8443)
        );
        assert!(led.files[0].text.contains("http://key/api/v1"));
    }

    #[test]
    fn a_key_and_a_lent_login_exclude_each_other() {
        let codex = profile("codex").unwrap();
        assert!(check(&choice("A"), &codex).is_ok());
        let both = AgentChoice {
            lend_login: true,
            ..choice("A")
        };
        assert_eq!(check(&both, &codex).unwrap_err().code, Code::Usage);
        let unlent = AgentChoice {
            refresh_login: true,
            key: None,
            ..choice("A")
        };
        assert_eq!(check(&unlent, &codex).unwrap_err().code, Code::Usage);
        let mut cannot = codex;
        cannot.key = None;
        assert_eq!(
            check(&choice("A"), &cannot).unwrap_err().code,
            Code::BadInput
        );
    }
}
