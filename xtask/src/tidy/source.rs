//! Tells the code of a Rust file from its comments and literals.

/// `text` with comments and the insides of literals blanked out, line for line.
///
/// A small lexer and not a parser: it has to know only where text ends that is not code.
pub(super) fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| string(rest, &code)).or_else(|| character(rest));
        let length = match skipped {
            Some(length) => {
                code.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
                length
            }
            None => {
                code.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    code
}

/// The length of the comment that `text` starts with. Block comments nest.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    Some(at.min(text.len()))
}

/// The length of the string literal that `text` starts with, raw or not, its prefix included.
fn string(text: &str, before: &str) -> Option<usize> {
    let continues_a_word =
        before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    let raw = text.strip_prefix("br").or_else(|| text.strip_prefix('r'));
    if let Some(raw) = raw.filter(|_| !continues_a_word) {
        let hashes = raw.bytes().take_while(|&byte| byte == b'#').count();
        if let Some(body) = raw[hashes..].strip_prefix('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let length = body.find(&end).map_or(body.len(), |at| at + end.len());
            return Some(text.len() - body.len() + length);
        }
    }
    let body = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(1 + at + 1),
            _ => {}
        }
    }
    Some(text.len())
}

/// The length of the character literal that `text` starts with; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    if body.starts_with('\\') {
        // The escaped character itself may be a quote, so the search starts behind it.
        return body.get(2..)?.find('\'').map(|at| 1 + 2 + at + 1);
    }
    let inside = body.chars().next()?.len_utf8();
    body[inside..].starts_with('\'').then_some(1 + inside + 1)
}

#[cfg(test)]
mod tests {
    use super::code_only;

    fn check(text: &str, expected: &str) {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&code_only(text)), expected);
        assert_eq!(code_only(text).lines().count(), text.lines().count(), "lines keep their place");
    }

    #[test]
    fn comments_are_blanked_to_their_end() {
        check("a // b\nc", "a c");
        check("a /* b /* c */ d */ e", "a e");
        check("a /* b\nc", "a");
    }

    #[test]
    fn literals_are_blanked() {
        check(r#"a "b \" // c" d"#, "a d");
        check("a r#\"b \" c\"# d", "a d");
        check(r#"a br"b\" c"#, "a c");
        check("a '\"' b '\\'' c", "a b c");
    }

    #[test]
    fn lifetimes_and_words_that_end_in_r_are_code() {
        check("fn f<'a>(x: &'a u8) {}", "fn f<'a>(x: &'a u8) {}");
        check("for \"b\"", "for");
    }
}
