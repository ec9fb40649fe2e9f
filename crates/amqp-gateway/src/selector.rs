//! Message selectors of JMS as filters of ours.
//!
//! Invariant: a selector that is taken means what JMS says, but that a comparison of two kinds fails instead of being
//! unknown, which lets a message in as little. What has no counterpart is refused.

use broker_filter::{Filter, Parameters, SqlFilter};

/// Why a selector cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum SelectorError {
    /// Its value is of another type.
    #[error("the selector is no text")]
    NotText,
    /// A header that rules do not see.
    #[error("`{0}` cannot be selected by")]
    Header(String),
    /// A `BETWEEN` around more than names and constants.
    #[error("BETWEEN is taken between a property and two constants only")]
    Between,
    /// It is no selector.
    #[error("{0}")]
    Syntax(String),
}

/// What a word of a selector is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// A name or a keyword.
    Name,
    /// A string or a number.
    Constant,
    /// Anything else.
    Sign,
}

#[derive(Clone, Debug)]
struct Word {
    kind: Kind,
    text: String,
}

/// The headers of JMS that rules see, and what they are called there.
const HEADERS: [(&str, &str); 4] = [
    ("JMSMessageID", "sys.MessageId"),
    ("JMSCorrelationID", "sys.CorrelationId"),
    ("JMSType", "sys.Label"),
    ("JMSXGroupID", "sys.SessionId"),
];
const KEYWORDS: [&str; 11] =
    ["AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "BETWEEN"];

/// Reads a selector.
pub(crate) fn filter(selector: &str) -> Result<Filter, SelectorError> {
    let words = words(selector);
    if words.is_empty() {
        return Ok(Filter::True);
    }
    let text = translate(words)?;
    let filter = SqlFilter::parse_lenient(&text, Parameters::new());
    filter.map(Filter::Sql).map_err(|error| SelectorError::Syntax(error.to_string()))
}

/// Cuts a selector into words. White space is left out, but for what stands in strings.
fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (kind, length) = match first {
            '\'' => (Kind::Constant, string_length(rest)),
            _ if is_name_start(first) => (Kind::Name, run(rest, |c| is_name_start(c) || is_name_part(c))),
            _ if first.is_ascii_digit() => (Kind::Constant, number_length(rest)),
            _ if ["<=", "<>", ">="].iter().any(|pair| rest.starts_with(pair)) => (Kind::Sign, 2),
            _ => (Kind::Sign, first.len_utf8()),
        };
        let (word, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        words.push(Word { kind, text: word.to_owned() });
        rest = after.trim_start();
    }
    words
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '_' | '$')
}

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || c == '.'
}

/// Bytes at the front whose characters fit.
fn run(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|c| !fits(c)).unwrap_or(text.len())
}

/// Bytes of a string in quotes, in which two quotes are one.
fn string_length(text: &str) -> usize {
    let mut quotes = text.match_indices('\'').map(|(at, _)| at).skip(1).peekable();
    while let Some(at) = quotes.next() {
        if quotes.peek() != Some(&(at + 1)) {
            return at + 1;
        }
        quotes.next();
    }
    text.len()
}

/// Bytes of a number, with an exponent and its sign.
fn number_length(text: &str) -> usize {
    let plain = run(text, |c| c.is_ascii_alphanumeric() || c == '.');
    let (number, rest) = text.split_at_checked(plain).unwrap_or((text, ""));
    if number.ends_with(['e', 'E']) && rest.starts_with(['+', '-']) {
        plain + 1 + run(rest.get(1..).unwrap_or_default(), |c| c.is_ascii_digit())
    } else {
        plain
    }
}

/// The same in our language.
fn translate(words: Vec<Word>) -> Result<String, SelectorError> {
    let words: Vec<Word> = words.into_iter().map(named).collect::<Result<_, _>>()?;
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if is_keyword(word, "BETWEEN") {
            at = between(&words, at, &mut out)?;
        } else {
            out.push(word.text.clone());
            at += 1;
        }
    }
    Ok(out.join(" "))
}

/// A name as it is called here.
fn named(word: Word) -> Result<Word, SelectorError> {
    if word.kind != Kind::Name || KEYWORDS.iter().any(|keyword| is_keyword(&word, keyword)) {
        return Ok(word);
    }
    if let Some((_, name)) = HEADERS.iter().find(|(header, _)| *header == word.text) {
        return Ok(Word { text: (*name).to_owned(), ..word });
    }
    let is_reserved = word.text.starts_with("JMS") && !word.text.starts_with("JMSX");
    if is_reserved || word.text.starts_with("amqp.") {
        return Err(SelectorError::Header(word.text));
    }
    Ok(Word { text: format!("[{}]", word.text), ..word })
}

fn is_keyword(word: &Word, keyword: &str) -> bool {
    word.kind == Kind::Name && word.text.eq_ignore_ascii_case(keyword)
}

/// Writes `x BETWEEN a AND b` as two comparisons, instead of the `x` that is written already. Says where the next word is.
fn between(words: &[Word], at: usize, out: &mut Vec<String>) -> Result<usize, SelectorError> {
    let is_sum = |word: Option<&Word>| {
        word.is_some_and(|word| ["+", "-", "*", "/", "%", "(", ")"].contains(&word.text.as_str()))
    };
    let before = at.checked_sub(1).and_then(|before| words.get(before));
    let negated = before.is_some_and(|word| is_keyword(word, "NOT"));
    if negated {
        out.pop();
    }
    let subject = out.pop().ok_or(SelectorError::Between)?;
    let place = at.checked_sub(if negated { 2 } else { 1 }).ok_or(SelectorError::Between)?;
    let is_plain = words.get(place).is_some_and(|word| word.kind != Kind::Sign);
    let open = place.checked_sub(1).and_then(|before| words.get(before));
    if !is_plain || is_sum(open.filter(|word| word.text != "(")) {
        return Err(SelectorError::Between);
    }
    let (low, next) = bound(words, at + 1)?;
    if !words.get(next).is_some_and(|word| is_keyword(word, "AND")) {
        return Err(SelectorError::Between);
    }
    let (high, next) = bound(words, next + 1)?;
    if is_sum(words.get(next).filter(|word| word.text != ")")) {
        return Err(SelectorError::Between);
    }
    let not = if negated { "NOT " } else { "" };
    out.push(format!("{not}({subject} >= {low} AND {subject} <= {high})"));
    Ok(next)
}

/// A constant with its sign, or a name; and where the next word is.
fn bound(words: &[Word], at: usize) -> Result<(String, usize), SelectorError> {
    let first = words.get(at).ok_or(SelectorError::Between)?;
    let is_sign = matches!(first.text.as_str(), "-" | "+");
    let value = if is_sign { words.get(at + 1).ok_or(SelectorError::Between)? } else { first };
    if value.kind == Kind::Sign {
        return Err(SelectorError::Between);
    }
    let sign = if is_sign { first.text.as_str() } else { "" };
    Ok((format!("{sign}{}", value.text), at + if is_sign { 2 } else { 1 }))
}

#[cfg(test)]
mod tests;
