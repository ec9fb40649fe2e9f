//! Message selectors of JMS as filters of ours.
//!
//! Invariant: a selector that is taken means what JMS says, but that a comparison of two kinds fails instead of being
//! unknown, which lets a message in as little. What has no counterpart is refused.

use broker_filter::{Filter, Parameters, SqlFilter};

/// Reason why a selector cannot be used.
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

/// Kind of a token of a selector.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TokenKind {
    /// A name or a keyword.
    Name,
    /// A string or a number.
    Constant,
    /// Anything else.
    Sign,
}

#[derive(Clone, Debug)]
struct Token {
    kind: TokenKind,
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
    let tokens = tokens(selector);
    if tokens.is_empty() {
        return Ok(Filter::True);
    }
    let text = translate(tokens)?;
    let filter = SqlFilter::parse_lenient(&text, Parameters::new());
    filter.map(Filter::Sql).map_err(|error| SelectorError::Syntax(error.to_string()))
}

/// Cuts a selector into words. White space is left out, but for what stands in strings.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (kind, length) = match first {
            '\'' => (TokenKind::Constant, string_length(rest)),
            _ if is_name_start(first) => {
                (TokenKind::Name, run(rest, |c| is_name_start(c) || is_name_part(c)))
            }
            _ if first.is_ascii_digit() => (TokenKind::Constant, number_length(rest)),
            _ if ["<=", "<>", ">="].iter().any(|pair| rest.starts_with(pair)) => (TokenKind::Sign, 2),
            _ => (TokenKind::Sign, first.len_utf8()),
        };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        tokens.push(Token { kind, text: token.to_owned() });
        rest = after.trim_start();
    }
    tokens
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
fn translate(tokens: Vec<Token>) -> Result<String, SelectorError> {
    let tokens: Vec<Token> = tokens.into_iter().map(named).collect::<Result<_, _>>()?;
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if is_keyword(token, "BETWEEN") {
            at = between(&tokens, at, &mut out)?;
        } else {
            out.push(token.text.clone());
            at += 1;
        }
    }
    Ok(out.join(" "))
}

/// A name as it is called here.
fn named(token: Token) -> Result<Token, SelectorError> {
    if token.kind != TokenKind::Name || KEYWORDS.iter().any(|keyword| is_keyword(&token, keyword)) {
        return Ok(token);
    }
    if let Some((_, name)) = HEADERS.iter().find(|(header, _)| *header == token.text) {
        return Ok(Token { text: (*name).to_owned(), ..token });
    }
    let is_reserved = token.text.starts_with("JMS") && !token.text.starts_with("JMSX");
    if is_reserved || token.text.starts_with("amqp.") {
        return Err(SelectorError::Header(token.text));
    }
    Ok(Token { text: format!("[{}]", token.text), ..token })
}

fn is_keyword(token: &Token, keyword: &str) -> bool {
    token.kind == TokenKind::Name && token.text.eq_ignore_ascii_case(keyword)
}

/// Writes `x BETWEEN a AND b` as two comparisons, instead of the `x` that is written already. Says where the next word is.
fn between(tokens: &[Token], at: usize, out: &mut Vec<String>) -> Result<usize, SelectorError> {
    let is_sum = |token: Option<&Token>| {
        token.is_some_and(|token| ["+", "-", "*", "/", "%", "(", ")"].contains(&token.text.as_str()))
    };
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    let negated = before.is_some_and(|token| is_keyword(token, "NOT"));
    if negated {
        out.pop();
    }
    let subject = out.pop().ok_or(SelectorError::Between)?;
    let place = at.checked_sub(if negated { 2 } else { 1 }).ok_or(SelectorError::Between)?;
    let is_plain = tokens.get(place).is_some_and(|token| token.kind != TokenKind::Sign);
    let open = place.checked_sub(1).and_then(|before| tokens.get(before));
    if !is_plain || is_sum(open.filter(|token| token.text != "(")) {
        return Err(SelectorError::Between);
    }
    let (low, next) = bound(tokens, at + 1)?;
    if !tokens.get(next).is_some_and(|token| is_keyword(token, "AND")) {
        return Err(SelectorError::Between);
    }
    let (high, next) = bound(tokens, next + 1)?;
    if is_sum(tokens.get(next).filter(|token| token.text != ")")) {
        return Err(SelectorError::Between);
    }
    let not = if negated { "NOT " } else { "" };
    out.push(format!("{not}({subject} >= {low} AND {subject} <= {high})"));
    Ok(next)
}

/// A constant with its sign, or a name; and where the next word is.
fn bound(tokens: &[Token], at: usize) -> Result<(String, usize), SelectorError> {
    let first = tokens.get(at).ok_or(SelectorError::Between)?;
    let is_sign = matches!(first.text.as_str(), "-" | "+");
    let value = if is_sign { tokens.get(at + 1).ok_or(SelectorError::Between)? } else { first };
    if value.kind == TokenKind::Sign {
        return Err(SelectorError::Between);
    }
    let sign = if is_sign { first.text.as_str() } else { "" };
    Ok((format!("{sign}{}", value.text), at + if is_sign { 2 } else { 1 }))
}

#[cfg(test)]
mod tests;
