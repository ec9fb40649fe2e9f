//! `LIKE`: `%` is any run of characters, `_` is one.
//!
//! Invariant: matching takes time in proportion to the text, times the pattern's length only where the
//! pattern has `_`.

use crate::error::PatternError;

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

    pub(crate) fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            return self.pieces.first().is_some_and(|only| only.prefix(text) == Some(text.len()));
        };
        let Some(mut rest) = first.prefix(text).and_then(|len| text.get(len..)) else { return false };
        for piece in middle {
            let Some(behind) = piece.find(rest).and_then(|end| rest.get(end..)) else { return false };
            rest = behind;
        }
        last.ends(rest)
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
    fn prefix(&self, text: &str) -> Option<usize> {
        match self {
            Self::Exact(exact) => text.starts_with(&**exact).then_some(exact.len()),
            Self::Holes(letters) => {
                let mut found = text.chars();
                for letter in letters {
                    let next = found.next()?;
                    if letter.is_some_and(|letter| letter != next) {
                        return None;
                    }
                }
                Some(text.len() - found.as_str().len())
            }
        }
    }

    /// End of the first match of this part in `text`.
    fn find(&self, text: &str) -> Option<usize> {
        match self {
            Self::Exact(exact) => text.find(&**exact).map(|start| start + exact.len()),
            Self::Holes(_) => text.char_indices().find_map(|(start, _)| {
                let len = self.prefix(text.get(start..)?)?;
                Some(start + len)
            }),
        }
    }

    fn ends(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => text.ends_with(&**exact),
            Self::Holes(letters) => {
                let mut found = text.chars().rev();
                letters
                    .iter()
                    .rev()
                    .all(|letter| found.next().is_some_and(|next| letter.is_none_or(|letter| letter == next)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
