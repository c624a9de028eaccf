use super::*;
use proptest::prelude::*;

const VALUE: &str = "s3cr3t/+&\"'$ü value";
const MARK: &str = "‹secret KEY›";

fn redactor() -> Redactor {
    Redactor::of([("KEY", VALUE)])
}

/// What comes out of a stream of these pieces.
fn through(redactor: &Redactor, pieces: &[&[u8]]) -> String {
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    for piece in pieces {
        stream.push(piece, &mut out);
    }
    stream.finish(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_value_is_taken_out_however_the_usual_encoders_write_it() {
    let redactor = redactor();
    let json = serde_json::to_string(VALUE).unwrap();
    let encoded = [
        format!("KEY={VALUE}"),
        VALUE.to_uppercase().replace('Ü', "ü"),
        format!("{{\"key\":{json}}}"),
        "{\"key\": \"s3cr3t/+&\\\"'$\\u00fc value\"}".to_owned(),
        "https://a.example/?k=s3cr3t%2F%2B%26%22%27%24%C3%BC%20value".to_owned(),
        "https://a.example/?k=s3cr3t%2f%2b%26%22%27%24%c3%bc+value".to_owned(),
        "declare -x KEY=\"s3cr3t/+&\\\"'\\$ü value\"".to_owned(),
        "7333637233742f2b262227".to_owned() + "24c3bc2076616c7565",
        "&lt;s3cr3t/+&amp;&quot;&#39;$ü value".to_owned(),
    ];
    for text in encoded {
        let found = redactor.text(&text);
        assert!(found.contains(MARK), "{text}: {found}");
        assert!(!found.contains("value"), "{text}: {found}");
    }
}

#[test]
fn a_value_is_found_in_base64_of_something_longer_at_any_alignment_and_wrapped() {
    let redactor = redactor();
    for before in ["", "u", "us", "user:", "Bearer "] {
        let text = STANDARD_NO_PAD.encode(format!("{before}{VALUE}@rest"));
        let found = redactor.text(&text).into_owned();
        assert!(found.contains(MARK), "{before}: {found}");
        let wrapped: Vec<String> = text
            .as_bytes()
            .chunks(10)
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect();
        let found = redactor.text(&wrapped.join("\r\n")).into_owned();
        assert!(found.contains(MARK), "{before}: {found}");
    }
}

#[test]
fn what_is_no_value_passes_as_it_is() {
    let redactor = redactor();
    let text = "s3cr3 t/+& ordinary\nlines, s3cr3t/+&";
    assert_eq!(redactor.text(text), text);
    assert_eq!(through(&redactor, &[text.as_bytes()]), text);
    let nothing = Redactor::default();
    assert_eq!(through(&nothing, &[VALUE.as_bytes()]), VALUE);
}

#[test]
fn a_value_of_several_lines_is_found_across_them() {
    let value = "-----BEGIN KEY-----\nabcdefgh\n-----END KEY-----";
    let redactor = Redactor::of([("PEM", value)]);
    let shown = through(
        &redactor,
        &[
            b"begin\r\n",
            value.replace('\n', "\r\n").as_bytes(),
            b"\nend",
        ],
    );
    assert_eq!(shown, "begin\r\n‹secret PEM›\nend");
}

#[test]
fn a_value_that_comes_in_pieces_with_pauses_shows_at_most_two_bytes_of_it() {
    let redactor = redactor();
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    for byte in VALUE.as_bytes() {
        stream.push(&[*byte], &mut out);
        stream.pause(&mut out);
    }
    stream.push(b"!", &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), format!("s3{MARK}!"));
}

#[test]
fn a_prompt_that_ends_like_a_value_begins_is_shown_on_a_pause() {
    let redactor = redactor();
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    stream.push(b"Your name: s", &mut out);
    assert_eq!(out, b"Your name: ");
    stream.pause(&mut out);
    assert!(!stream.holds_back());
    stream.push(b"am\n", &mut out);
    stream.finish(&mut out);
    assert_eq!(out, b"Your name: sam\n");
}

#[test]
fn values_that_overlap_are_both_taken_out() {
    let redactor = Redactor::of([
        ("A", "abcdefgh"),
        ("B", "abcdefghijkl"),
        ("C", "ghijklmnop"),
    ]);
    for cut in 0..16 {
        let text = "abcdefghijklmnop";
        let (one, two) = text.split_at(cut);
        let found = through(&redactor, &[one.as_bytes(), two.as_bytes()]);
        for part in ["abc", "hij", "lmn", "op"] {
            assert!(!found.contains(part), "{cut}: {found}");
        }
    }
}

#[test]
fn texts_within_data_are_redacted_and_the_rest_stays() {
    let redactor = redactor();
    let data = vec![(
        "argv".to_owned(),
        vec![format!("--key={VALUE}"), "x".into()],
    )];
    let redacted = redactor.data(data).unwrap();
    assert_eq!(redacted[0].1, [format!("--key={MARK}"), "x".to_owned()]);
}

#[test]
fn short_and_odd_values_are_refused_with_the_reason() {
    assert!(why_unfit("1234567").unwrap().contains("shorter"));
    assert!(why_unfit("a\n\n\n\n\n\n\n\n\n").is_some());
    assert!(why_unfit("12345678\0").is_some());
    assert!(why_unfit(&"x".repeat(LONGEST + 1)).is_some());
    assert_eq!(why_unfit("12345678"), None);
}

proptest! {
    #[test]
    fn wherever_a_stream_is_cut_the_same_comes_out(
        before in "[a-z3\n]{0,12}", after in "[a-z3\n]{0,12}",
        cuts in proptest::collection::vec(0_usize..64, 0..6),
    ) {
        let redactor = redactor();
        let text = format!("{before}{VALUE}{after}");
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
        let found = through(&redactor, &pieces);
        prop_assert_eq!(&found, &format!("{before}{MARK}{after}"));
    }

    #[test]
    fn bytes_without_a_value_come_out_as_they_went_in(bytes: Vec<u8>, cut in 0_usize..64) {
        let redactor = redactor();
        let (one, two) = bytes.split_at(cut.min(bytes.len()));
        let (mut stream, mut out) = (redactor.stream(), Vec::new());
        stream.push(one, &mut out);
        stream.pause(&mut out);
        stream.push(two, &mut out);
        stream.finish(&mut out);
        prop_assert_eq!(out, bytes);
    }
}
