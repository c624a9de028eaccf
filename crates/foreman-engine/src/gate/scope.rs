//! Paths against the patterns of an order's scope claim, as gitignore reads them: a pattern with a
//! slash inside is anchored at the root, one without matches at any depth, a folder stands for all that
//! is in it. A pattern that cannot be read covers nothing.

/// True when one of the patterns covers `path`; the last that matches decides, and `!` takes away.
pub(crate) fn covers(patterns: &[String], path: &str) -> bool {
    let mut covered = false;
    for pattern in patterns {
        let (takes_away, pattern) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern.as_str()),
        };
        if covers_one(pattern, path) {
            covered = !takes_away;
        }
    }
    covered
}

fn covers_one(pattern: &str, path: &str) -> bool {
    let pattern = pattern.trim();
    let (pattern, only_folders) = match pattern.strip_suffix('/') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let is_anchored = pattern.contains('/');
    let pattern = pattern.trim_start_matches('/');
    if pattern.is_empty() {
        // `/` alone is the whole tree.
        return is_anchored || only_folders;
    }
    let wanted: Vec<&str> = pattern.split('/').collect();
    let parts: Vec<&str> = path.split('/').collect();
    let starts = if is_anchored { 0..1 } else { 0..parts.len() };
    starts.into_iter().any(|start| {
        let parts = parts.get(start..).unwrap_or_default();
        // The path itself, or a folder above it.
        let folders = parts.len().saturating_sub(usize::from(only_folders));
        (1..=folders).any(|many| fits(&wanted, parts.get(..many).unwrap_or_default()))
    })
}

fn fits(wanted: &[&str], parts: &[&str]) -> bool {
    match wanted.split_first() {
        None => parts.is_empty(),
        Some((&"**", rest)) => {
            (0..=parts.len()).any(|skipped| fits(rest, parts.get(skipped..).unwrap_or_default()))
        }
        Some((pattern, rest)) => parts.split_first().is_some_and(|(part, more)| {
            let pattern: Vec<char> = pattern.chars().collect();
            let part: Vec<char> = part.chars().collect();
            fits_part(&pattern, &part) && fits(rest, more)
        }),
    }
}

fn fits_part(pattern: &[char], part: &[char]) -> bool {
    match pattern.split_first() {
        None => part.is_empty(),
        Some(('*', rest)) => {
            (0..=part.len()).any(|skipped| fits_part(rest, part.get(skipped..).unwrap_or_default()))
        }
        Some(('?', rest)) => part
            .split_first()
            .is_some_and(|(_, more)| fits_part(rest, more)),
        Some(('[', rest)) => match (class(rest), part.split_first()) {
            (Some((holds, rest)), Some((letter, more))) => holds(*letter) && fits_part(rest, more),
            _ => false,
        },
        Some(('\\', rest)) => match (rest.split_first(), part.split_first()) {
            (Some((wanted, rest)), Some((letter, more))) => {
                wanted == letter && fits_part(rest, more)
            }
            _ => false,
        },
        Some((wanted, rest)) => part
            .split_first()
            .is_some_and(|(letter, more)| wanted == letter && fits_part(rest, more)),
    }
}

/// What a class after its bracket holds, and the pattern after it; none without an end.
fn class(pattern: &[char]) -> Option<(impl Fn(char) -> bool, &[char])> {
    let (is_negated, inner) = match pattern.first() {
        Some('!' | '^') => (true, pattern.get(1..)?),
        _ => (false, pattern),
    };
    // A bracket right at the start is a letter of the class.
    let end = inner.iter().skip(1).position(|letter| *letter == ']')? + 1;
    let (letters, rest) = (inner.get(..end)?.to_vec(), inner.get(end + 1..)?);
    let holds = move |letter: char| {
        let mut at = 0;
        let mut found = false;
        while let Some(&first) = letters.get(at) {
            match (letters.get(at + 1), letters.get(at + 2)) {
                (Some('-'), Some(&last)) => {
                    found |= (first..=last).contains(&letter);
                    at += 3;
                }
                _ => {
                    found |= first == letter;
                    at += 1;
                }
            }
        }
        found != is_negated
    };
    Some((holds, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_scope(patterns: &[&str], path: &str) -> bool {
        let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
        covers(&patterns, path)
    }

    #[test]
    fn patterns_are_read_as_gitignore_reads_them() {
        for (pattern, path) in [
            ("src/**", "src/a/b.rs"),
            ("src", "src/a.rs"),
            ("src/", "src/a.rs"),
            ("docs", "deep/docs/x"),
            ("*.rs", "a/b/c.rs"),
            ("/a.txt", "a.txt"),
            ("a/*/c", "a/b/c"),
            ("a/**/z", "a/z"),
            ("a/**/z", "a/b/c/z"),
            ("**/x", "x"),
            ("file[0-9].txt", "file7.txt"),
            ("file[!0-9].txt", "filex.txt"),
            ("a?c", "abc"),
            ("/", "anything/at/all"),
        ] {
            assert!(in_scope(&[pattern], path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("src/**", "tests/a.rs"),
            ("src/**", "srcs/a"),
            ("src/", "src"),
            ("/a.txt", "b/a.txt"),
            ("a/*/c", "a/b/b/c"),
            ("*.rs", "a.rst"),
            ("a*c", "a/c"),
            ("file[0-9.txt", "file1.txt"),
            ("", "a"),
        ] {
            assert!(!in_scope(&[pattern], path), "{pattern} {path}");
        }
        assert!(!in_scope(&["src/**", "!src/secret/**"], "src/secret/x"));
        assert!(!in_scope(&[], "a"));
    }
}
