//! Turns JSON with comments and trailing commas into plain JSON.
//!
//! Invariant: text inside strings is untouched, plain JSON comes out as it went in, and every line keeps its number,
//! so the parser's complaints point to the right place.

/// A comment that never ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the comment that begins in line {line} does not end")]
pub(super) struct OpenComment {
    line: usize,
}

/// Blanks out `//` and `/* */` comments and the comma before a closing bracket.
pub(super) fn to_json(text: &str) -> Result<String, OpenComment> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Position in `out` of the last comma, while only white space has followed it.
    let mut comma = None;
    while let Some(letter) = rest.chars().next() {
        if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            rest = rest.get(end..).unwrap_or_default();
            continue;
        }
        if rest.starts_with("/*") {
            let line = out.matches('\n').count() + 1;
            let length = rest.get(2..).and_then(|inside| inside.find("*/")).ok_or(OpenComment { line })? + 4;
            let (comment, after) = rest.split_at_checked(length).ok_or(OpenComment { line })?;
            out.extend(comment.chars().filter(|&letter| letter == '\n'));
            out.push(' ');
            rest = after;
            continue;
        }
        let length = if letter == '"' { string_length(rest) } else { letter.len_utf8() };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        match letter {
            ',' => comma = Some(out.len()),
            '}' | ']' => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
            }
            _ if !letter.is_whitespace() => comma = None,
            _ => {}
        }
        out.push_str(token);
        rest = after;
    }
    Ok(out)
}

/// Bytes of the string literal at the beginning of `text`, quotes included; all of it if it does not end.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests;
