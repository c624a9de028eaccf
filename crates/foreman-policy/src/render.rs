//! Writes a rule as the text of a policy file: the opposite of parsing.

use crate::error::{Fault, PolicyError};
use crate::file::LONGEST_REASON;
use crate::{EgressRule, HostPattern, Layer, Use, parse_policy};
use foreman_domain::{Protocol, sanitize_line};
use toml_edit::Value;

/// The rule as a `[[egress]]` table that ends in a line break, to be read back as the same rule; `None`
/// for a "once" rule, which means certain holds only and is nothing for a file.
#[must_use]
pub fn render_egress(rule: &EgressRule) -> Option<String> {
    if rule.applies != Use::Always {
        return None;
    }
    let mut text = String::from("[[egress]]\n");
    let mut line = |key: &str, value: Value| {
        text.push_str(key);
        text.push_str(" = ");
        text.push_str(value.to_string().trim());
        text.push('\n');
    };
    line("host", rule.host.to_string().into());
    line("port", i64::from(rule.port).into());
    if rule.protocol == Protocol::Udp {
        line("protocol", "udp".into());
    }
    if let Some(range) = &rule.resolves_to {
        line(
            "resolves_to",
            HostPattern::Address(*range).to_string().into(),
        );
    }
    if let Some(end) = &rule.expires {
        line("expires", end.to_string().into());
    }
    if let Some(reason) = &rule.origin.reason {
        // Cut last: making it safe may make it longer.
        let cut: String = sanitize_line(reason).chars().take(LONGEST_REASON).collect();
        line("reason", cut.into());
    }
    Some(text)
}

/// The text of the policy file `name` with the rule added at its end; unchanged when the file has the
/// rule already.
///
/// # Errors
/// When the file as it is cannot be read, when the rule is for once, or when the file has a rule that
/// the new one contradicts.
pub fn append_egress(name: &str, text: &str, rule: &EgressRule) -> Result<String, PolicyError> {
    let fault = |message: &str| Fault::new(message).in_argument(name);
    let before = parse_policy(name, text, Layer::Project)?;
    let rendered =
        render_egress(rule).ok_or_else(|| fault("a decision for once is nothing for a file"))?;
    if before
        .egress
        .iter()
        .any(|there| render_without_reason(there) == render_without_reason(rule))
    {
        return Ok(text.to_owned());
    }
    let mut after = text.to_owned();
    if !after.is_empty() {
        after.push_str(if after.ends_with('\n') { "\n" } else { "\n\n" });
    }
    after.push_str(&rendered);
    parse_policy(name, &after, Layer::Project)?;
    Ok(after)
}

fn render_without_reason(rule: &EgressRule) -> Option<String> {
    let mut rule = rule.clone();
    rule.origin.reason = None;
    render_egress(&rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_allow;
    use crate::rule::arbitrary::egress_rule;
    use proptest::prelude::*;

    fn rule(text: &str) -> EgressRule {
        parse_allow(text).unwrap()
    }

    #[test]
    fn a_rule_is_written_as_a_person_would() {
        let mut rule = rule("udp:*.example.com:4433");
        rule.origin.reason = Some("say \"hi\"".into());
        let text = render_egress(&rule).unwrap();
        assert_eq!(
            text,
            "[[egress]]\nhost = \"*.example.com\"\nport = 4433\nprotocol = \"udp\"\n\
             reason = 'say \"hi\"'\n"
        );
    }

    #[test]
    fn appending_keeps_the_file_and_adds_one_rule() {
        let before = "# ours\n[bounds]\nwall = \"2h\"";
        let after = append_egress("policy.toml", before, &rule("registry.example:443")).unwrap();
        assert!(after.starts_with(before));
        let file = parse_policy("policy.toml", &after, Layer::Project).unwrap();
        assert_eq!(
            (file.egress.len(), file.bounds.wall_seconds),
            (1, Some(7_200))
        );
        // Once more changes nothing.
        let again = append_egress("policy.toml", &after, &rule("registry.example:443")).unwrap();
        assert_eq!(again, after);
    }

    #[test]
    fn a_file_that_cannot_be_read_or_would_contradict_itself_is_not_touched() {
        let rule = rule("registry.example:443");
        assert!(append_egress("policy.toml", "egress = 1", &rule).is_err());
        let there =
            "[[egress]]\nhost = \"registry.example\"\nport = 443\nexpires = \"2027-01-31\"\n";
        let error = append_egress("policy.toml", there, &rule).unwrap_err();
        assert!(error.message.contains("contradicts"), "{error}");
        let inline = "egress = [{ host = \"other.example\", port = 443 }]\n";
        assert!(append_egress("policy.toml", inline, &rule).is_err());
    }

    proptest! {
        #[test]
        fn a_written_rule_reads_back_as_itself(rule in egress_rule()) {
            let text = render_egress(&rule).unwrap();
            let file = parse_policy("policy.toml", &text, Layer::Project);
            prop_assert!(file.is_ok(), "{:?}\n{}", file, text);
            let mut read = file.unwrap().egress.remove(0);
            prop_assert_eq!(
                &read.origin.reason,
                &rule.origin.reason.as_deref().map(sanitize_line)
            );
            read.origin = rule.origin.clone();
            prop_assert_eq!(read, rule);
        }
    }
}
