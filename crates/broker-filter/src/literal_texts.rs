//! Original texts of values, kept where the value alone loses them: a time without a zone is stored as UTC.
//!
//! Invariant: each name has one text at most, found whatever the case of the name; texts decide nothing.

use crate::fold;

/// The texts of some values, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LiteralTexts {
    /// In the order of the names.
    texts: Vec<(Box<str>, Box<str>)>,
}

impl LiteralTexts {
    pub(crate) const fn new() -> Self {
        Self { texts: Vec::new() }
    }

    /// Keeps the text of the value of that name.
    pub(crate) fn keep(&mut self, name: &str, text: &str) {
        match self.place(name) {
            Ok(place) => {
                if let Some((_, old)) = self.texts.get_mut(place) {
                    *old = text.into();
                }
            }
            Err(place) => self.texts.insert(place, (name.into(), text.into())),
        }
    }

    /// The value of that name has another one now, or none.
    pub(crate) fn forget(&mut self, name: &str) {
        if let Ok(place) = self.place(name) {
            self.texts.remove(place);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let place = self.place(name).ok()?;
        self.texts.get(place).map(|(_, text)| &**text)
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.texts.binary_search_by(|(other, _)| fold::compare(other, name))
    }
}
