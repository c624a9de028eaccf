use super::*;
use std::time::{Duration, Instant};

const BLOCK: &str = "rkk2mqdx-b1";
const RUN: &str = "rkk2mqdx";

fn order_of(link: &str) -> LinkedOrder {
    match parse(link) {
        Ok(Link::NewOrder(order)) => order,
        other => panic!("{link}: {other:?}"),
    }
}

#[test]
fn blocks_and_runs_are_named_by_their_ids() {
    let id = BLOCK.parse().unwrap();
    assert_eq!(
        parse("sdf://block/rkk2mqdx-b1"),
        Ok(Link::Block { id, token: None })
    );
    let id = RUN.parse().unwrap();
    assert_eq!(
        parse("SDF://run/rkk2mqdx/?t=abc"),
        Ok(Link::Run {
            id,
            token: Some("abc".into())
        })
    );
}

#[test]
fn what_is_no_id_is_no_link() {
    for id in [
        "",
        "x",
        "..",
        "rkk2mqdx",
        "rkk2mqdx-b",
        "rkk2mqdx-b+1",
        "rkk2mqdx-b01",
        "rkk2mqdx-a1",
        "rkk2mqdx-b99999999999",
        "rkk2mqdx-b1/..",
        "rkk2mqdx-b1//",
        "rkk2mqdx%2Db1",
        "RKK2MQDX-b1",
    ] {
        let link = format!("sdf://block/{id}");
        let bad = parse(&link).unwrap_err();
        assert!(
            matches!(bad, BadLink::NotAnId | BadLink::UnknownPlace),
            "{link}: {bad:?}"
        );
    }
    assert_eq!(parse("sdf://run/rkk2mqdx-b1"), Err(BadLink::NotAnId));
}

#[test]
fn foreign_schemes_and_places_are_refused() {
    for (link, bad) in [
        ("", BadLink::Foreign),
        ("sdf", BadLink::Foreign),
        ("https://block/rkk2mqdx-b1", BadLink::Foreign),
        ("javascript:alert(1)", BadLink::Foreign),
        ("/block/rkk2mqdx-b1", BadLink::Foreign),
        ("ſdf://block/rkk2mqdx-b1", BadLink::Foreign),
        ("sdf:block/rkk2mqdx-b1", BadLink::UnknownPlace),
        ("sdf://", BadLink::UnknownPlace),
        ("sdf:///block/rkk2mqdx-b1", BadLink::UnknownPlace),
        ("sdf://amend/rkk2mqdx-b1", BadLink::UnknownPlace),
        ("sdf://user@block/rkk2mqdx-b1", BadLink::UnknownPlace),
        ("sdf://block:80/rkk2mqdx-b1", BadLink::UnknownPlace),
        ("sdf://order/start?prompt=x", BadLink::UnknownPlace),
        ("sdf://order", BadLink::UnknownPlace),
    ] {
        assert_eq!(parse(link), Err(bad), "{link}");
    }
}

#[test]
fn control_characters_spaces_and_raw_unicode_are_refused() {
    for tail in ["\n", "\0", "\u{7f}", " ", "\u{202e}", "ä", "#x", "\u{200b}"] {
        let link = format!("sdf://block/{BLOCK}{tail}");
        assert_eq!(parse(&link), Err(BadLink::Garbled), "{link:?}");
    }
}

#[test]
fn a_link_has_a_greatest_length() {
    let fits = format!("sdf://order/new?prompt={}", "a".repeat(LONGEST_PROMPT));
    assert!(parse(&fits).is_ok());
    let field = format!("sdf://order/new?prompt={}", "a".repeat(LONGEST_PROMPT + 1));
    assert_eq!(parse(&field), Err(BadLink::BadField));
    let long = format!("sdf://block/{}", "r".repeat(LONGEST));
    assert_eq!(parse(&long), Err(BadLink::TooLong));
    assert_eq!(parse(&"\u{202e}".repeat(LONGEST)), Err(BadLink::TooLong));
    let title = format!(
        "sdf://order/new?title={}",
        "%C3%A4".repeat(LONGEST_TITLE + 1)
    );
    assert_eq!(parse(&title), Err(BadLink::BadField));
}

#[test]
fn an_order_is_filled_in_from_encoded_text() {
    let order = order_of(
        "sdf://order/new?title=Fix+the+%22login%22&prompt=one%0Atwo%2B%C3%A4%0D%0Athree&repo=%2Fsrv%2Fa%20b&x=y",
    );
    assert_eq!(order.title.as_deref(), Some("Fix the \"login\""));
    assert_eq!(order.prompt.as_deref(), Some("one\ntwo+ä\nthree"));
    assert_eq!(order.repo.as_deref(), Some("/srv/a b"));
    assert_eq!(order_of("sdf://order/new"), LinkedOrder::default());
    assert_eq!(
        order_of("sdf://order/new/?title=&prompt=%20"),
        LinkedOrder::default()
    );
}

#[test]
fn fields_in_which_something_hides_are_refused() {
    for (link, bad) in [
        ("title=a%0Ab", BadLink::BadField),
        ("title=%1B[31m", BadLink::BadField),
        ("prompt=%00", BadLink::BadField),
        ("prompt=a%E2%80%AEb", BadLink::BadField),
        ("prompt=a%E2%80%8Bb", BadLink::BadField),
        ("prompt=a%0Db", BadLink::BadField),
        ("repo=relative", BadLink::BadField),
        ("repo=%2Fa%09b", BadLink::BadField),
        ("title=%FF", BadLink::Garbled),
        ("title=a&title=b", BadLink::Garbled),
    ] {
        assert_eq!(
            parse(&format!("sdf://order/new?{link}")),
            Err(bad),
            "{link}"
        );
    }
    let path = format!("repo=/{}", "a".repeat(LONGEST_PATH));
    assert_eq!(
        parse(&format!("sdf://order/new?{path}")),
        Err(BadLink::BadField)
    );
}

#[test]
fn a_bad_token_makes_the_link_garbled() {
    for token in ["t=", "t", &format!("t={}", "a".repeat(65)), "t=a&t=b"] {
        let link = format!("sdf://block/{BLOCK}?{token}");
        assert_eq!(parse(&link), Err(BadLink::Garbled), "{link}");
    }
}

#[test]
fn links_are_found_among_arguments() {
    assert!(looks_like_one("sdf://anything"));
    assert!(looks_like_one("SDF:"));
    assert!(!looks_like_one("--sdf://x"));
    assert!(!looks_like_one("äää"));
}

#[test]
fn a_token_opens_its_own_link_once_and_for_a_time() {
    let mut tokens = Tokens::default();
    let now = Instant::now();
    let token = tokens.give(BLOCK, 7, now);
    assert_eq!(tokens.redeem(&token, BLOCK, now), Ok(()));
    assert_eq!(tokens.redeem(&token, BLOCK, now), Err(Unredeemed));
    let other = tokens.give(RUN, 8, now);
    assert_eq!(tokens.redeem(&other, BLOCK, now), Err(Unredeemed));
    assert_eq!(
        tokens.redeem(&other, RUN, now),
        Err(Unredeemed),
        "it is used up"
    );
    let late = tokens.give(BLOCK, 9, now);
    let after = now + tokens::GOOD_FOR + Duration::from_secs(1);
    assert_eq!(tokens.redeem(&late, BLOCK, after), Err(Unredeemed));
    assert_eq!(tokens.redeem("0", BLOCK, now), Err(Unredeemed));
}

#[test]
fn tokens_do_not_pile_up() {
    let mut tokens = Tokens::default();
    let now = Instant::now();
    let first = tokens.give(BLOCK, 0, now);
    for random in 1..=1000 {
        tokens.give(BLOCK, random, now);
    }
    assert_eq!(tokens.redeem(&first, BLOCK, now), Err(Unredeemed));
    assert_eq!(tokens.redeem(&format!("{:032x}", 1000), BLOCK, now), Ok(()));
}
