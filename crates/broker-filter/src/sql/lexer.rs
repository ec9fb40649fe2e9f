//! Cuts a text into words.
//!
//! Invariant: words do not overlap, and between two of them is only white space.

use crate::error::{ParseError, Position, Problem};

/// A word and where it stands, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind<'a>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind<'a> {
    /// A regular name or a keyword.
    Name(&'a str),
    /// `[name]` or `"name"`, without its delimiters.
    Delimited(Box<str>),
    /// `'text'`, without its quotes.
    Text(Box<str>),
    Integer(u64),
    Double(f64),
    /// With its `@`.
    Parameter(&'a str),
    /// One of [`SIGNS`].
    Sign(&'static str),
    End,
}

/// Longer ones first.
const SIGNS: [&str; 17] =
    ["<>", "!=", ">=", "<=", "=", ">", "<", "+", "-", "*", "/", "%", "(", ")", ",", ".", ";"];

pub(crate) struct Lexer<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, offset: 0 }
    }

    pub(crate) fn next(&mut self) -> Result<Token<'a>, ParseError> {
        let rest = self.text.get(self.offset..).unwrap_or("").trim_start();
        let start = self.text.len() - rest.len();
        let (kind, len) = self.kind(rest, start)?;
        self.offset = start + len;
        Ok(Token { kind, start, end: self.offset })
    }

    fn kind(&self, rest: &'a str, start: usize) -> Result<(TokenKind<'a>, usize), ParseError> {
        let Some(first) = rest.chars().next() else { return Ok((TokenKind::End, 0)) };
        let second = rest.chars().nth(1);
        match first {
            '\'' => self.quoted(rest, start, '\'', "string").map(|(text, len)| (TokenKind::Text(text), len)),
            '"' => self.name(rest, start, '"'),
            '[' => self.name(rest, start, ']'),
            '@' if second.is_some_and(char::is_alphabetic) => {
                let len = 1 + regular(rest.get(1..).unwrap_or(""));
                Ok((TokenKind::Parameter(rest.get(..len).unwrap_or(rest)), len))
            }
            _ if first.is_alphabetic() => {
                let len = regular(rest);
                Ok((TokenKind::Name(rest.get(..len).unwrap_or(rest)), len))
            }
            _ if first.is_ascii_digit() || first == '.' && second.is_some_and(|c| c.is_ascii_digit()) => {
                self.number(rest, start)
            }
            _ => {
                let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
                let sign = sign.ok_or_else(|| self.unknown(first, start))?;
                Ok((TokenKind::Sign(sign), sign.len()))
            }
        }
    }

    fn name(&self, rest: &str, start: usize, close: char) -> Result<(TokenKind<'a>, usize), ParseError> {
        let (name, len) = self.quoted(rest, start, close, "name")?;
        if name.is_empty() {
            return Err(self.fault(start, Problem::EmptyName));
        }
        Ok((TokenKind::Delimited(name), len))
    }

    /// Text after the first character of `rest` up to `close`; `close` written twice stands for itself.
    fn quoted(
        &self,
        rest: &str,
        start: usize,
        close: char,
        what: &'static str,
    ) -> Result<(Box<str>, usize), ParseError> {
        let mut text = String::new();
        let mut letters = rest.char_indices().skip(1).peekable();
        while let Some((place, letter)) = letters.next() {
            if letter == close && letters.next_if(|(_, next)| *next == close).is_none() {
                return Ok((text.into(), place + close.len_utf8()));
            }
            text.push(letter);
        }
        Err(self.fault(start, Problem::Open(what)))
    }

    /// `12`, `1.5`, `.5`, `1.`, `101.5E5`, `0.5E-2`.
    fn number(&self, rest: &'a str, start: usize) -> Result<(TokenKind<'a>, usize), ParseError> {
        let mut len = digits(rest, 0);
        let mut whole = true;
        if rest.as_bytes().get(len) == Some(&b'.') {
            whole = false;
            len = digits(rest, len + 1);
        }
        if matches!(rest.as_bytes().get(len), Some(b'e' | b'E')) {
            let signed = matches!(rest.as_bytes().get(len + 1), Some(b'+' | b'-'));
            let from = len + 1 + usize::from(signed);
            let end = digits(rest, from);
            if end > from {
                whole = false;
                len = end;
            }
        }
        if let Some(letter) = rest.get(len..).and_then(|rest| rest.chars().next())
            && (letter.is_alphanumeric() || letter == '_')
        {
            return Err(self.unknown(letter, start + len));
        }
        let number = rest.get(..len).unwrap_or(rest);
        let kind = if whole {
            number.parse().ok().map(TokenKind::Integer)
        } else {
            number.parse().ok().filter(|number: &f64| number.is_finite()).map(TokenKind::Double)
        };
        kind.map(|kind| (kind, len)).ok_or_else(|| self.fault(start, Problem::NumberTooLarge))
    }

    fn unknown(&self, letter: char, offset: usize) -> ParseError {
        let problem = Problem::Expected {
            expected: "a name, a value or an operator",
            found: format!("`{letter}`").into(),
        };
        self.fault(offset, problem)
    }

    pub(crate) fn fault(&self, offset: usize, problem: Problem) -> ParseError {
        ParseError { at: Position::of(self.text, offset), problem }
    }

    /// The text of a word, for an error.
    pub(crate) fn found(&self, token: &Token<'_>) -> Box<str> {
        if token.kind == TokenKind::End {
            return "the end".into();
        }
        format!("`{}`", self.text.get(token.start..token.end).unwrap_or("")).into()
    }
}

/// The bytes of a regular name at the start of `text`, which starts with a letter.
fn regular(text: &str) -> usize {
    text.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(text.len())
}

/// End of the digits that begin at byte `from`.
fn digits(text: &str, from: usize) -> usize {
    let rest = text.as_bytes().get(from..).unwrap_or(&[]);
    from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests;
