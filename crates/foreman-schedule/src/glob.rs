//! The shipped comparer: gitignore-like patterns against each other.
//!
//! A pattern matches paths and everything below them. One with a `/` anywhere counts from the
//! repository's root, one without matches at any depth: `docs/` is the folder at the root (where
//! gitignore would take every folder of that name, and so meet every other claim), `*.md` is every such
//! file, `/README.md` the one at the root. `*` and `?` stay within a segment,
//! `**` alone in a segment stands for any number of segments, `[..]` is a set of characters, `\` takes
//! a character as it is, `!` at the front (what gitignore takes out again) is left out of account.
//!
//! The comparer errs to one side only: two patterns that match a common path are never called
//! disjoint. Letters are compared without case, because the repository may be on a file system that
//! does not tell them apart. What is not understood (`..`, braces, an open set, a pattern beyond the
//! bounds) meets everything.

use crate::{CompareScopes, Overlap};

/// Compares gitignore-like patterns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Globs;

/// Patterns of more bytes are not compared but meet everything.
const LONGEST: usize = 512;

/// Claims with more pairs of patterns are not compared but overlap.
const MOST_PAIRS: usize = 1 << 16;

impl CompareScopes for Globs {
    fn overlap(&self, ours: &[String], theirs: &[String]) -> Option<Overlap> {
        let pair = |our: &str, their: &str| Overlap {
            ours: our.to_owned(),
            theirs: their.to_owned(),
        };
        if ours.len().saturating_mul(theirs.len()) > MOST_PAIRS {
            return Some(pair(ours.first()?, theirs.first()?));
        }
        let theirs = parsed(theirs);
        for (our, our_segments) in parsed(ours) {
            for (their, their_segments) in &theirs {
                if paths_meet(&our_segments, their_segments) {
                    return Some(pair(our, their));
                }
            }
        }
        None
    }
}

/// A claim's patterns. One that only takes out is read by some as "everything but", so it meets
/// everything.
fn parsed(patterns: &[String]) -> Vec<(&str, Vec<Segment>)> {
    let each = patterns.iter();
    let parsed: Vec<_> = each
        .filter_map(|text| Some((text.as_str(), parse(text)?)))
        .collect();
    match patterns.first() {
        Some(first) if parsed.is_empty() => vec![(first, vec![Segment::Any])],
        _ => parsed,
    }
}

/// A part of a pattern between slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// `**`: any number of segments.
    Any,
    /// One segment.
    One(Vec<Token>),
}

/// A part of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// `*`: any number of characters.
    Star,
    /// One character.
    Char(Chars),
}

/// A set of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Chars {
    /// Any.
    Any,
    /// One of these ranges, in lower and in upper case.
    In(Vec<(char, char)>),
}

/// The segments of a pattern; nothing for one that only takes out.
fn parse(pattern: &str) -> Option<Vec<Segment>> {
    if pattern.starts_with('!') {
        return None;
    }
    if pattern.len() > LONGEST {
        return Some(vec![Segment::Any]);
    }
    let mut segments = if pattern.contains('/') {
        Vec::new()
    } else {
        vec![Segment::Any]
    };
    let mut named = false;
    for text in pattern.split('/') {
        match text {
            "" | "." => continue,
            "**" => segments.push(Segment::Any),
            ".." => return Some(vec![Segment::Any]),
            text => match tokens(text) {
                Parsed::Segment(tokens) => segments.push(Segment::One(tokens)),
                Parsed::From(tokens) => {
                    segments.push(Segment::One(tokens));
                    segments.push(Segment::Any);
                    return Some(segments);
                }
                Parsed::Unclear => {
                    segments.push(Segment::Any);
                    return Some(segments);
                }
            },
        }
        named = true;
    }
    Some(if named { segments } else { vec![Segment::Any] })
}

/// What a segment's text is.
enum Parsed {
    /// A segment.
    Segment(Vec<Token>),
    /// A segment that begins so; what follows may go on below it.
    From(Vec<Token>),
    /// Anything.
    Unclear,
}

fn tokens(text: &str) -> Parsed {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        let token = match next {
            '*' if rest.peek() == Some(&'*') => {
                tokens.push(Token::Star);
                return Parsed::From(tokens);
            }
            '*' => Token::Star,
            '?' => Token::Char(Chars::Any),
            '{' | '}' => return Parsed::Unclear,
            '[' => match set(&mut rest) {
                Some(chars) => Token::Char(chars),
                None => return Parsed::Unclear,
            },
            '\\' => match rest.next() {
                Some(literal) => Token::Char(Chars::In(vec![(literal, literal)])),
                None => return Parsed::Unclear,
            },
            // Trailing blanks belong to the name or do not, depending on who reads the pattern.
            ' ' | '\t' if rest.clone().all(|left| left == ' ' || left == '\t') => {
                tokens.push(Token::Star);
                return Parsed::Segment(tokens);
            }
            literal => Token::Char(Chars::In(vec![(literal, literal)])),
        };
        tokens.push(token);
    }
    Parsed::Segment(tokens)
}

/// The set after `[`. Nothing when it is not closed, and when readers of patterns differ about it (an
/// escape, a named class).
fn set(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Chars> {
    let negated = rest.next_if(|next| matches!(next, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    let mut first = true;
    loop {
        let low = match rest.next()? {
            ']' if !first => break,
            '[' if matches!(rest.peek(), Some(':' | '.' | '=')) => return None,
            '\\' => return None,
            low => low,
        };
        first = false;
        let ranged = rest.peek() == Some(&'-') && rest.clone().nth(1).is_some_and(|c| c != ']');
        if !ranged {
            ranges.push((low, low));
            continue;
        }
        rest.next();
        match rest.next()? {
            '\\' => return None,
            high if high < low => return None,
            high => ranges.push((low, high)),
        }
    }
    Some(if negated {
        Chars::Any
    } else {
        Chars::In(ranges)
    })
}

/// Whether some path matches both, each with everything below it.
fn paths_meet(ours: &[Segment], theirs: &[Segment]) -> bool {
    // What is left when one side is used up is below that side's path, and so matches it.
    meet(
        ours,
        theirs,
        true,
        |segment| matches!(segment, Segment::Any),
        |our, their| match (our, their) {
            (Segment::One(our), Segment::One(their)) => segments_meet(our, their),
            (Segment::Any, _) | (_, Segment::Any) => true,
        },
    )
}

fn segments_meet(ours: &[Token], theirs: &[Token]) -> bool {
    // Git counts bytes where others count characters, so beside letters beyond ASCII `?` and sets may
    // stand for more or less than one.
    if !is_ascii(ours) || !is_ascii(theirs) {
        return tokens_meet(&loosened(ours), &loosened(theirs));
    }
    tokens_meet(ours, theirs)
}

fn is_ascii(tokens: &[Token]) -> bool {
    tokens.iter().all(|token| match token {
        Token::Star | Token::Char(Chars::Any) => true,
        Token::Char(Chars::In(ranges)) => ranges.iter().all(|range| range.1.is_ascii()),
    })
}

fn loosened(tokens: &[Token]) -> Vec<Token> {
    let each = tokens.iter().map(|token| match token {
        Token::Char(Chars::In(ranges)) if matches!(ranges[..], [(low, high)] if low == high) => {
            token.clone()
        }
        Token::Star | Token::Char(_) => Token::Star,
    });
    each.collect()
}

fn tokens_meet(ours: &[Token], theirs: &[Token]) -> bool {
    meet(
        ours,
        theirs,
        false,
        |token| matches!(token, Token::Star),
        |our, their| match (our, their) {
            (Token::Char(our), Token::Char(their)) => chars_meet(our, their),
            (Token::Star, _) | (_, Token::Star) => true,
        },
    )
}

/// Whether two sequences with wildcards have a common instance. `open` says that an instance may go
/// on after a sequence's end.
fn meet<T>(
    ours: &[T],
    theirs: &[T],
    open: bool,
    is_wild: impl Fn(&T) -> bool,
    one_meets: impl Fn(&T, &T) -> bool,
) -> bool {
    // reachable[j]: ours[..i] and theirs[..j] have a common instance.
    let mut reachable = vec![false; theirs.len() + 1];
    reachable[0] = true;
    for i in 0..=ours.len() {
        let mut below = vec![false; theirs.len() + 1];
        for j in 0..=theirs.len() {
            if !reachable[j] {
                continue;
            }
            let (our, their) = (ours.get(i), theirs.get(j));
            if open && (our.is_none() || their.is_none()) {
                return true;
            }
            let (our_wild, their_wild) = (our.is_some_and(&is_wild), their.is_some_and(&is_wild));
            // A wildcard may stand for nothing more, or take one more of the other side.
            if their.is_some() && (their_wild || our_wild) {
                reachable[j + 1] = true;
            }
            if our.is_some() && (our_wild || their_wild) {
                below[j] = true;
            }
            if let (Some(our), Some(their)) = (our, their)
                && !our_wild
                && !their_wild
                && one_meets(our, their)
            {
                below[j + 1] = true;
            }
        }
        if i == ours.len() {
            return reachable[theirs.len()];
        }
        reachable = below;
    }
    false
}

fn chars_meet(ours: &Chars, theirs: &Chars) -> bool {
    let (Chars::In(ours), Chars::In(theirs)) = (ours, theirs) else {
        return true;
    };
    ours.iter()
        .any(|our| theirs.iter().any(|their| ranges_meet(*our, *their)))
}

/// Whether two ranges share a character, upper and lower case being the same. Ranges of more than one
/// character are ASCII here: others were loosened.
fn ranges_meet(ours: (char, char), theirs: (char, char)) -> bool {
    if ours.0 <= theirs.1 && theirs.0 <= ours.1 {
        return true;
    }
    if ours.0 == ours.1 && theirs.0 == theirs.1 {
        return ours.0.to_lowercase().eq(theirs.0.to_lowercase());
    }
    let inside = |other: char| theirs.0 <= other && other <= theirs.1;
    (ours.0..=ours.1)
        .any(|one| inside(one.to_ascii_lowercase()) || inside(one.to_ascii_uppercase()))
}
