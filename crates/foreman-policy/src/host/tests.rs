use super::*;
use proptest::prelude::*;

fn name(text: &str) -> Host {
    Host::Name(text.into())
}

fn address(text: &str) -> Host {
    Host::Address(text.parse().unwrap())
}

#[test]
fn names_take_one_form() {
    for (given, wanted) in [
        ("registry.example", "registry.example"),
        ("Registry.EXAMPLE.", "registry.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("b\u{fc}cher\u{3002}example", "xn--bcher-kva.example"), // ideographic full stop
        ("\u{ff52}egistry.example", "registry.example"),         // full-width r
        ("_dmarc.my_host.example", "_dmarc.my_host.example"),
        ("a-.example", "a-.example"),
        ("1.example", "1.example"),
    ] {
        assert_eq!(canonical_host(given), Ok(name(wanted)), "{given}");
    }
}

#[test]
fn look_alike_names_stay_different_and_show_as_punycode() {
    // Cyrillic "е" in the first label.
    let Ok(Host::Name(shown)) = canonical_host("r\u{435}gistry.example") else {
        panic!("refused");
    };
    assert!(shown.starts_with("xn--"), "{shown}");
}

#[test]
fn addresses_take_one_form() {
    for (given, wanted) in [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
    ] {
        assert_eq!(canonical_host(given), Ok(address(wanted)), "{given}");
    }
}

#[test]
fn what_is_not_plainly_a_host_is_refused() {
    let long_label = format!("{}.example", "a".repeat(64));
    let long_name = format!("{}example", "abcdefgh.".repeat(30));
    for text in [
        "",
        ".",
        "..",
        ".example",
        "a..example",
        "example..",
        "a b.example",
        "a\0.example",
        "a\r\n.example",
        "a\n",
        "a\t",
        "a\u{a0}b",
        "a\u{85}b",
        "a%2eb",
        "a/b",
        "a\\b",
        "a:80",
        "user@host",
        "*.example.com",
        "[registry.example]",
        "[192.0.2.1]",
        "fe80::1%eth0",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "127.0.0.1.",
        "010.0.0.1",
        "1.2.3.4.5",
        "256.1.1.1",
        "host.0x",
        "\u{ff11}\u{ff12}\u{ff17}.1",
        "xn--a.example",
        "a\u{202e}b.example",
        &long_label,
        &long_name,
        &"é".repeat(5_000),
    ] {
        assert!(
            canonical_host(text).is_err(),
            "{text:?} became {:?}",
            canonical_host(text)
        );
    }
}

#[test]
fn wildcards_match_their_depth_and_never_the_apex() {
    let one = HostPattern::parse("*.example.com").unwrap();
    let any = HostPattern::parse("**.Example.com").unwrap();
    for (host, by_one, by_any) in [
        ("a.example.com", true, true),
        ("a.b.example.com", false, true),
        ("example.com", false, false),
        ("badexample.com", false, false),
        ("a.example.com.evil.net", false, false),
        ("xn--bcher-kva.example.com", true, true),
    ] {
        assert_eq!(one.matches(&name(host)), by_one, "*. {host}");
        assert_eq!(any.matches(&name(host)), by_any, "**. {host}");
    }
}

#[test]
fn ranges_match_addresses_in_every_dress() {
    let range = HostPattern::parse("203.0.113.0/24").unwrap();
    assert!(range.matches(&address("203.0.113.9")));
    assert!(range.matches(&address("::ffff:203.0.113.9")));
    assert!(!range.matches(&address("203.0.114.9")));
    assert_eq!(
        HostPattern::parse("::ffff:203.0.113.77/120").unwrap(),
        range
    );
}

#[test]
fn patterns_that_open_too_much_or_nothing_are_refused() {
    for text in [
        "*",
        "**",
        "*.",
        "**.",
        "a*.example.com",
        "*.*.example.com",
        "a.*.example.com",
        "***.a.b",
        "*.com",
        "**.org",
        "*.co.uk",
        "*.192.0.2.1",
        "0.0.0.0/0",
        "::/0",
        "64.0.0.0/2",
        "127.0.0.1",
        "169.254.169.254",
        "127.0.0.0/8",
        "[::1]",
        "localhost",
        "*.localhost",
        "a.localhost",
        "metadata.google.internal",
        "https://registry.example",
        "registry.example/path",
        "user@registry.example",
    ] {
        assert!(HostPattern::parse(text).is_err(), "{text}");
    }
}

fn host_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,80}",
        "[a-zA-Z0-9.\\-_:\\[\\]*/%]{0,80}",
        any::<String>()
    ]
}

proptest! {
    #[test]
    fn a_canonical_host_is_canonical(text in host_text()) {
        if let Ok(host) = canonical_host(&text) {
            prop_assert_eq!(canonical_host(&host.to_string()), Ok(host));
        }
    }

    #[test]
    fn a_canonical_name_has_no_character_that_could_mislead(text in host_text()) {
        if let Ok(Host::Name(name)) = canonical_host(&text) {
            prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()
                || b"-_.".contains(&b)), "{}", name);
            prop_assert!(name.parse::<IpAddr>().is_err());
        }
    }

    #[test]
    fn a_pattern_survives_text(text in host_text()) {
        if let Ok(pattern) = HostPattern::parse(&text) {
            prop_assert_eq!(HostPattern::parse(&pattern.to_string()).ok(), Some(pattern));
        }
    }

    #[test]
    fn a_name_pattern_never_matches_an_address(text in host_text(), address: IpAddr) {
        if let Ok(pattern) = HostPattern::parse(&text)
            && !matches!(pattern, HostPattern::Address(_))
        {
            prop_assert!(!pattern.matches(&Host::Address(address)));
        }
    }
}
