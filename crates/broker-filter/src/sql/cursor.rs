//! A walk over the words of a text.
//!
//! Invariant: only [`Cursor::advance`] moves, one word at a time, and stays at the end.

use super::lexer::{Lexer, Token, TokenKind};
use crate::error::{ParseError, Problem};

/// Names that must be delimited to be properties.
const KEYWORDS: [&str; 11] =
    ["AND", "OR", "NOT", "IS", "NULL", "IN", "LIKE", "ESCAPE", "EXISTS", "TRUE", "FALSE"];

pub(crate) struct Cursor<'a> {
    lexer: Lexer<'a>,
    next: Token<'a>,
    /// Names that are words of the language besides [`KEYWORDS`].
    reserved: &'static [&'static str],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(
        text: &'a str,
        limit: usize,
        reserved: &'static [&'static str],
    ) -> Result<Self, ParseError> {
        let mut lexer = Lexer::new(text);
        if let Some((offset, _)) = text.char_indices().nth(limit) {
            return Err(lexer.fault(offset, Problem::TooLong { limit }));
        }
        let next = lexer.next()?;
        Ok(Self { lexer, next, reserved })
    }

    /// The word that is not read yet.
    pub(crate) const fn kind(&self) -> &TokenKind<'a> {
        &self.next.kind
    }

    /// Start of the current token, in bytes.
    pub(crate) const fn start(&self) -> usize {
        self.next.start
    }

    /// Reads it.
    pub(crate) fn advance(&mut self) -> Result<Token<'a>, ParseError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    pub(crate) fn is_end(&self) -> bool {
        self.next.kind == TokenKind::End
    }

    pub(crate) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.next.kind, TokenKind::Sign(found) if found == sign)
    }

    pub(crate) fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self.next.kind, TokenKind::Name(name) if name.eq_ignore_ascii_case(keyword))
    }

    /// Whether the word cannot be a property unless it is delimited.
    pub(crate) fn is_reserved(&self) -> bool {
        KEYWORDS.iter().chain(self.reserved).any(|keyword| self.is_keyword(keyword))
    }

    pub(crate) fn takes_sign(&mut self, sign: &str) -> Result<bool, ParseError> {
        self.takes(self.is_sign(sign))
    }

    pub(crate) fn takes_keyword(&mut self, keyword: &str) -> Result<bool, ParseError> {
        self.takes(self.is_keyword(keyword))
    }

    fn takes(&mut self, it: bool) -> Result<bool, ParseError> {
        if it {
            self.advance()?;
        }
        Ok(it)
    }

    /// Reads a sign that must come; `expected` says what else could.
    pub(crate) fn wants_sign(&mut self, sign: &str, expected: &'static str) -> Result<(), ParseError> {
        if self.takes_sign(sign)? { Ok(()) } else { Err(self.expected(expected)) }
    }

    pub(crate) fn expected(&self, expected: &'static str) -> ParseError {
        self.expected_at(&self.next, expected)
    }

    pub(crate) fn expected_at(&self, token: &Token<'_>, expected: &'static str) -> ParseError {
        let found = self.lexer.found(token);
        self.fault(token.start, Problem::Expected { expected, found })
    }

    pub(crate) fn fault(&self, offset: usize, problem: Problem) -> ParseError {
        self.lexer.fault(offset, problem)
    }

    /// The word that is not read yet, to name it in an error once more is read.
    pub(crate) fn mark(&self) -> Token<'a> {
        self.next.clone()
    }
}
