//! Filters written in the SQL-like language of Service Bus.
//!
//! Text becomes words (`lexer`), words become a tree (`parser`), a tree and properties become an answer
//! (`eval`). The tree knows nothing of the text: another dialect is another parser over the same words and
//! the same tree.
//!
//! Invariant: a filter that was read has an answer, or an error, for every set of properties.

pub(crate) mod ast;
pub(crate) mod cursor;
pub(crate) mod eval;
pub(crate) mod evaluation;
pub(crate) mod lexer;
pub(crate) mod parser;
pub(crate) mod pattern;

use crate::NewId;
use crate::error::{EvalError, ParseError};
use crate::fold;
use crate::limits::MAX_FILTER_CHARS;
use crate::properties::PropertySet;
use crate::value::Value;
use crate::written::{Written, WrittenForms};
use ast::Predicate;
use cursor::Cursor;
use evaluation::Evaluation;
use parser::Parser;

/// The values of `@name` in a filter or an action.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    values: Vec<(Box<str>, Value)>,
    written: WrittenForms,
}

/// An expression that is true, false or unknown for a message; the message matches when it is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlFilter {
    text: Box<str>,
    parameters: Parameters,
    is_lenient: bool,
    /// Operands of the outermost `AND`; at least one.
    conjuncts: Vec<Predicate>,
}

impl Parameters {
    /// No parameters.
    pub const fn new() -> Self {
        Self { values: Vec::new(), written: WrittenForms::new() }
    }

    /// Gives the parameter a value; `name` starts with `@`. Names that differ in case only are the same.
    pub fn set(&mut self, name: &str, value: Value) {
        self.written.forget(name);
        match self.place(name) {
            Ok(place) => {
                if let Some((_, old)) = self.values.get_mut(place) {
                    *old = value;
                }
            }
            Err(place) => self.values.insert(place, (name.into(), value)),
        }
    }

    /// The same, and keeps how the value was written.
    pub fn set_written(&mut self, name: &str, value: Value, written: Written) {
        self.set(name, value);
        self.written.keep(name, written);
    }

    /// Form in which the value of the parameter of that name was written, where that was kept.
    pub fn written(&self, name: &str) -> Option<&Written> {
        self.written.get(name)
    }

    /// The value of the parameter of that name, which starts with `@`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let place = self.place(name).ok()?;
        self.values.get(place).map(|(_, value)| value)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.values.iter().map(|(name, value)| (&**name, value))
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.values.binary_search_by(|(other, _)| fold::compare(other, name))
    }
}

impl SqlFilter {
    /// Reads a filter. `parameters` must have all that the text names, and may have more.
    pub fn parse(text: &str, parameters: Parameters) -> Result<Self, ParseError> {
        Self::read(text, parameters, false)
    }

    /// Reads a filter that never fails, as a selector of JMS does not: a comparison of values of different kinds is
    /// false, and what cannot be computed is unknown.
    pub fn parse_lenient(text: &str, parameters: Parameters) -> Result<Self, ParseError> {
        Self::read(text, parameters, true)
    }

    fn read(text: &str, parameters: Parameters, is_lenient: bool) -> Result<Self, ParseError> {
        let predicate = Parser::new(Cursor::new(text, MAX_FILTER_CHARS, &[])?, &parameters).filter()?;
        let predicate = if is_lenient { predicate.lenient() } else { predicate };
        let conjuncts = match predicate {
            Predicate::And(conjuncts) => conjuncts,
            other => vec![other],
        };
        Ok(Self { text: text.into(), parameters, is_lenient, conjuncts })
    }

    /// Whether it was read by [`Self::parse_lenient`].
    pub const fn is_lenient(&self) -> bool {
        self.is_lenient
    }

    /// The text it was read from.
    pub const fn text(&self) -> &str {
        &self.text
    }

    /// The parameters it was read with.
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Whether the expression is true for these properties. `new_id` is asked once for each `newid()` met.
    ///
    /// `AND` and `OR` go from left to right and stop when what follows cannot change the answer: what
    /// is behind cannot fail then. An outermost `AND` stops at the first part that is not true.
    pub fn matches(&self, properties: &PropertySet, new_id: &mut NewId<'_>) -> Result<bool, EvalError> {
        self.matches_counted(properties, new_id).0
    }

    /// The same, and the steps that `LIKE` took: letters compared with patterns that have `_`, and searches, as
    /// [`MAX_LIKE_STEPS`](crate::limits::MAX_LIKE_STEPS) counts them.
    pub fn matches_counted(
        &self,
        properties: &PropertySet,
        new_id: &mut NewId<'_>,
    ) -> (Result<bool, EvalError>, u64) {
        let mut evaluation = Evaluation::new(new_id);
        let answer = self.answer(properties, &mut evaluation);
        (answer, evaluation.steps.taken())
    }

    fn answer(&self, set: &PropertySet, evaluation: &mut Evaluation<'_>) -> Result<bool, EvalError> {
        for conjunct in &self.conjuncts {
            if conjunct.evaluate(set, evaluation)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn conjuncts(&self) -> &[Predicate] {
        &self.conjuncts
    }
}

#[cfg(test)]
mod tests;
