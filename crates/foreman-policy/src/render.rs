//! Writes a rule as the text of a policy file: the opposite of parsing.

use crate::error::{Fault, PolicyError};
use crate::file::LONGEST_REASON;
use crate::{
    Access, EgressRule, HostPattern, Layer, PathRule, Rule, SocketRule, Use, parse_policy,
};
use foreman_domain::{At, Protocol, sanitize_line};
use toml_edit::Value;

/// The rule as a `[[egress]]` table that ends in a line break, to be read back as the same rule; `None`
/// for a "once" rule, which means certain holds only and is nothing for a file.
#[must_use]
pub fn render_egress(rule: &EgressRule) -> Option<String> {
    if rule.applies != Use::Always {
        return None;
    }
    let mut text = String::from("[[egress]]\n");
    let mut line = |key: &str, value: Value| push_line(&mut text, key, &value);
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
    push_rest(&mut text, rule.expires, rule.origin.reason.as_deref());
    Some(text)
}

/// The rule as a `[[read]]` or `[[write]]` table that ends in a line break, to be read back as the same
/// rule; `None` for a "once" rule, and for a path that a file cannot say.
#[must_use]
pub fn render_path(rule: &PathRule) -> Option<String> {
    let path = rule.path.to_str()?;
    if rule.applies != Use::Always || path != sanitize_line(path) {
        return None;
    }
    let mut text = String::from(match rule.access {
        Access::Read => "[[read]]\n",
        Access::Write => "[[write]]\n",
    });
    push_line(&mut text, "path", &path.into());
    push_rest(&mut text, rule.expires, rule.origin.reason.as_deref());
    Some(text)
}

/// The rule as a `[[socket]]` table that ends in a line break, to be read back as the same rule; `None` for
/// a "once" rule, and for a path that a file cannot say.
#[must_use]
pub fn render_socket(rule: &SocketRule) -> Option<String> {
    let path = rule.socket.to_str()?;
    if rule.applies != Use::Always || path != sanitize_line(path) {
        return None;
    }
    let mut text = String::from("[[socket]]\n");
    push_line(&mut text, "path", &path.into());
    push_rest(&mut text, rule.expires, rule.origin.reason.as_deref());
    Some(text)
}

fn push_line(text: &mut String, key: &str, value: &Value) {
    text.push_str(key);
    text.push_str(" = ");
    text.push_str(value.to_string().trim());
    text.push('\n');
}

/// What every kind of rule may have.
fn push_rest(text: &mut String, expires: Option<At>, reason: Option<&str>) {
    if let Some(end) = expires {
        push_line(text, "expires", &end.to_string().into());
    }
    if let Some(reason) = reason {
        // Cut last: making it safe may make it longer.
        let cut: String = sanitize_line(reason).chars().take(LONGEST_REASON).collect();
        push_line(text, "reason", &cut.into());
    }
}

fn render(rule: &Rule) -> Option<String> {
    match rule {
        Rule::Egress(rule) => render_egress(rule),
        Rule::Path(rule) => render_path(rule),
        Rule::Socket(rule) => render_socket(rule),
        Rule::Bound(_) | Rule::Question(_) => None,
    }
}

/// The text of the policy file `name` with the rule added at its end; unchanged when the file has the
/// rule already.
///
/// # Errors
/// When the file as it is cannot be read, when the rule is for once or its path is no text, or when the
/// file has a rule that the new one contradicts.
pub fn append_rule(name: &str, text: &str, rule: &Rule) -> Result<String, PolicyError> {
    let before = parse_policy(name, text, Layer::Project)?;
    let Some(rendered) = render(rule) else {
        let message = match rule {
            Rule::Path(PathRule { applies, .. }) | Rule::Socket(SocketRule { applies, .. })
                if *applies == Use::Always =>
            {
                "a policy file cannot say a path that is not plain text"
            }
            Rule::Bound(_) => "a raised bound is no rule of its own there: write it under [bounds]",
            Rule::Question(_) => "an answer to an agent's question is nothing for a file",
            Rule::Path(_) | Rule::Socket(_) | Rule::Egress(_) => {
                "a decision for once is nothing for a file"
            }
        };
        return Err(Fault::new(message).in_argument(name));
    };
    let there = before.egress.into_iter().map(Rule::Egress);
    let there = there.chain(before.paths.into_iter().map(Rule::Path));
    let mut there = there.chain(before.sockets.into_iter().map(Rule::Socket));
    let wanted = render_without_reason(rule);
    if there.any(|there| render_without_reason(&there) == wanted) {
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

fn render_without_reason(rule: &Rule) -> Option<String> {
    let mut rule = rule.clone();
    rule.origin_mut().reason = None;
    render(&rule)
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

    fn append(text: &str, rule: EgressRule) -> Result<String, PolicyError> {
        append_rule("policy.toml", text, &Rule::Egress(rule))
    }

    #[test]
    fn a_path_is_written_once_and_reads_back_as_itself() {
        let path = |path: &str| PathRule {
            origin: rule("a.example:443").origin,
            path: path.into(),
            access: Access::Write,
            applies: Use::Always,
            expires: None,
            sockets: false,
        };
        let append = |text: &str, rule| append_rule("policy.toml", text, &Rule::Path(rule));
        let after = append("", path("~/.cache/a b")).unwrap();
        assert_eq!(after, "[[write]]\npath = \"~/.cache/a b\"\n");
        assert_eq!(append(&after, path("~/.cache/a b")).unwrap(), after);
        let read = parse_policy("policy.toml", &after, Layer::Project).unwrap();
        assert_eq!(read.paths[0].path, path("~/.cache/a b").path);
        // What a file cannot say, it does not say in another way.
        assert!(append("", path("/srv/a\nb")).is_err());
        assert!(append("", path("/home/other/.ssh")).is_err());
    }

    #[test]
    fn a_socket_is_written_once_and_reads_back_as_itself() {
        let socket = |path: &str| {
            Rule::Socket(SocketRule {
                origin: rule("a.example:443").origin,
                socket: path.into(),
                applies: Use::Always,
                expires: None,
            })
        };
        let after = append_rule("policy.toml", "", &socket("~/x.sock")).unwrap();
        assert_eq!(after, "[[socket]]\npath = \"~/x.sock\"\n");
        let again = append_rule("policy.toml", &after, &socket("~/x.sock")).unwrap();
        assert_eq!(again, after);
        assert!(append_rule("policy.toml", "", &socket("/run/a\nb")).is_err());
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
        let after = append(before, rule("registry.example:443")).unwrap();
        assert!(after.starts_with(before));
        let file = parse_policy("policy.toml", &after, Layer::Project).unwrap();
        assert_eq!(
            (file.egress.len(), file.bounds.wall_seconds),
            (1, Some(7_200))
        );
        // Once more changes nothing.
        let again = append(&after, rule("registry.example:443")).unwrap();
        assert_eq!(again, after);
    }

    #[test]
    fn a_file_that_cannot_be_read_or_would_contradict_itself_is_not_touched() {
        let rule = rule("registry.example:443");
        assert!(append("egress = 1", rule.clone()).is_err());
        let there =
            "[[egress]]\nhost = \"registry.example\"\nport = 443\nexpires = \"2027-01-31\"\n";
        let error = append(there, rule.clone()).unwrap_err();
        assert!(error.message.contains("contradicts"), "{error}");
        let inline = "egress = [{ host = \"other.example\", port = 443 }]\n";
        assert!(append(inline, rule).is_err());
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
