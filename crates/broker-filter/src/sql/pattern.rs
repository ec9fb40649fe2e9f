//! `LIKE`: `%` is any run of characters, `_` is one.
//!
//! Invariant: matching takes time in proportion to the text, times the pattern's length only where the
//! pattern has `_`. Each letter that is compared there, and each eighth byte that is searched elsewhere, is a step of the
//! evaluation, which has a bounded number of them.

use super::evaluation::LikeSteps;
use crate::error::{EvalError, PatternError};

/// A pattern, cut at its `%`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// At least one. The first begins the text and the last ends it; one alone is all of it.
    pieces: Vec<Piece>,
}

/// Part of a pattern between two `%`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Exact(Box<str>),
    /// `None` is any one character.
    Holes(Box<[Option<char>]>),
}

impl Pattern {
    pub(crate) fn new(pattern: &str, escape: Option<&str>) -> Result<Self, PatternError> {
        let escape = escape.map(|escape| single(escape).ok_or(PatternError::Escape)).transpose()?;
        let mut pieces = Vec::new();
        let mut piece = Vec::new();
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            match letter {
                letter if Some(letter) == escape => {
                    piece.push(Some(letters.next().ok_or(PatternError::Unfinished)?));
                }
                '%' => pieces.push(Piece::of(std::mem::take(&mut piece))),
                '_' => piece.push(None),
                letter => piece.push(Some(letter)),
            }
        }
        pieces.push(Piece::of(piece));
        Ok(Self { pieces })
    }

    pub(crate) fn matches(&self, text: &str, steps: &mut LikeSteps) -> Result<bool, EvalError> {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            let Some(only) = self.pieces.first() else { return Ok(false) };
            return Ok(only.prefix(text, steps)? == Some(text.len()));
        };
        let Some(mut rest) = first.prefix(text, steps)?.and_then(|len| text.get(len..)) else {
            return Ok(false);
        };
        for piece in middle {
            let Some(behind) = piece.find(rest, steps)?.and_then(|end| rest.get(end..)) else {
                return Ok(false);
            };
            rest = behind;
        }
        last.ends(rest, steps)
    }
}

fn single(text: &str) -> Option<char> {
    let mut letters = text.chars();
    letters.next().filter(|_| letters.next().is_none())
}

impl Piece {
    fn of(letters: Vec<Option<char>>) -> Self {
        let exact: Option<String> = letters.iter().copied().collect();
        exact.map_or_else(|| Self::Holes(letters.into()), |text| Self::Exact(text.into()))
    }

    /// The bytes that this piece takes at the start of `text`.
    fn prefix(&self, text: &str, steps: &mut LikeSteps) -> Result<Option<usize>, EvalError> {
        match self {
            Self::Exact(exact) => Ok(text.starts_with(&**exact).then_some(exact.len())),
            Self::Holes(letters) => {
                let mut found = text.chars();
                for letter in letters {
                    steps.take()?;
                    if !found.next().is_some_and(|next| letter.is_none_or(|letter| letter == next)) {
                        return Ok(None);
                    }
                }
                Ok(Some(text.len() - found.as_str().len()))
            }
        }
    }

    /// End of the first match of this part in `text`.
    fn find(&self, text: &str, steps: &mut LikeSteps) -> Result<Option<usize>, EvalError> {
        match self {
            Self::Exact(exact) => {
                let end = text.find(&**exact).map(|start| start + exact.len());
                steps.take_search(end.unwrap_or(text.len()))?;
                Ok(end)
            }
            Self::Holes(_) => {
                for (start, _) in text.char_indices() {
                    if let Some(len) = self.prefix(text.get(start..).unwrap_or_default(), steps)? {
                        return Ok(Some(start + len));
                    }
                }
                Ok(None)
            }
        }
    }

    fn ends(&self, text: &str, steps: &mut LikeSteps) -> Result<bool, EvalError> {
        match self {
            Self::Exact(exact) => Ok(text.ends_with(&**exact)),
            Self::Holes(letters) => {
                let mut found = text.chars().rev();
                for letter in letters.iter().rev() {
                    steps.take()?;
                    if !found.next().is_some_and(|next| letter.is_none_or(|letter| letter == next)) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests;
