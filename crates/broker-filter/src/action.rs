//! Changes of a copy's properties.
//!
//! Invariant: an action that fails has changed nothing.

use crate::NewId;
use crate::error::{EvalError, ParseError, Problem};
use crate::limits::{MAX_ACTION_CHARS, MAX_ACTION_STATEMENTS};
use crate::properties::{Property, PropertySet, Settable, SystemProperty};
use crate::sql::Parameters;
use crate::sql::ast::{Expr, Named};
use crate::sql::cursor::Cursor;
use crate::sql::parser::Parser;
use crate::value::Value;

/// `SET property = value` and `REMOVE property`, one after the other, each seeing what those before it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlAction {
    text: Box<str>,
    parameters: Parameters,
    statements: Vec<Statement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Statement {
    Set(Named, Expr),
    Remove(Named),
}

/// Change of one property by an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A system property has this value now.
    SetSystem(SystemProperty, Value),
    /// A system property is gone.
    RemoveSystem(SystemProperty),
    /// A user property has this value now, maybe null.
    ///
    /// An integer stands for all integers of the wire: whoever writes the message keeps the width that
    /// the property had, where the value fits.
    SetUser {
        /// Its name, in the case it had before.
        name: Box<str>,
        value: Value,
    },
    /// A user property is gone.
    RemoveUser {
        /// Its name, in the case it had.
        name: Box<str>,
    },
}

const STATEMENTS: [&str; 2] = ["SET", "REMOVE"];

impl SqlAction {
    /// Reads an action. `parameters` must have all that the text names, and may have more.
    pub fn parse(text: &str, parameters: Parameters) -> Result<Self, ParseError> {
        let mut parser = Parser::new(Cursor::new(text, MAX_ACTION_CHARS, &STATEMENTS)?, &parameters);
        let mut statements = vec![statement(&mut parser, "`SET` or `REMOVE`")?];
        loop {
            let separated = parser.cursor.takes_sign(";")?;
            if parser.cursor.is_end() {
                return Ok(Self { text: text.into(), parameters, statements });
            }
            if statements.len() == MAX_ACTION_STATEMENTS {
                let problem = Problem::TooManyStatements { limit: MAX_ACTION_STATEMENTS };
                return Err(parser.cursor.fault(parser.cursor.start(), problem));
            }
            let expected = if separated {
                "`SET`, `REMOVE` or the end"
            } else {
                "an arithmetic operator, `;`, `SET`, `REMOVE` or the end"
            };
            statements.push(statement(&mut parser, expected)?);
        }
    }

    /// The text it was read from.
    pub const fn text(&self) -> &str {
        &self.text
    }

    /// The parameters it was read with.
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Changes the properties, and says in order what was changed. An error leaves them as they were.
    ///
    /// A value becomes the kind of the property that it replaces where nothing is lost by that.
    pub fn apply(
        &self,
        properties: &mut PropertySet,
        new_id: &mut NewId<'_>,
    ) -> Result<Vec<Change>, EvalError> {
        let mut next = properties.clone();
        let mut changes = Vec::with_capacity(self.statements.len());
        for statement in &self.statements {
            changes.extend(statement.apply(&mut next, new_id)?);
        }
        *properties = next;
        Ok(changes)
    }
}

fn statement(parser: &mut Parser<'_>, expected: &'static str) -> Result<Statement, ParseError> {
    if parser.cursor.takes_keyword("REMOVE")? {
        return parser.property().map(Statement::Remove);
    }
    if !parser.cursor.takes_keyword("SET")? {
        return Err(parser.cursor.expected(expected));
    }
    let property = parser.property()?;
    parser.cursor.wants_sign("=", "`=`")?;
    Ok(Statement::Set(property, parser.expression()?))
}

impl Statement {
    fn apply(&self, set: &mut PropertySet, new_id: &mut NewId<'_>) -> Result<Option<Change>, EvalError> {
        match self {
            Self::Set(named, value) => {
                let property = named.known()?;
                let value = value.value(set, new_id)?.into_owned();
                match property {
                    Property::System(property) => set_system(set, *property, value).map(Some),
                    Property::User(name) => Ok(Some(set_user(set, name, value))),
                }
            }
            Self::Remove(named) => match named.known()? {
                Property::System(property) => set_system(set, *property, Value::Null).map(Some),
                Property::User(name) => {
                    Ok(set.remove_user(name).map(|(name, _)| Change::RemoveUser { name }))
                }
            },
        }
    }
}

fn set_user(set: &mut PropertySet, name: &str, value: Value) -> Change {
    let value = match set.user(name) {
        Some(old) => value.converted_like(old),
        None => value,
    };
    set.set_user(name, value.clone());
    Change::SetUser { name: set.user_name(name).unwrap_or(name).into(), value }
}

fn set_system(set: &mut PropertySet, property: SystemProperty, value: Value) -> Result<Change, EvalError> {
    let settable = property.settable().ok_or(EvalError::ReadOnly(property))?;
    let fitting = match (settable, value) {
        (_, Value::Null) => {
            set.set_system(property, Value::Null);
            return Ok(Change::RemoveSystem(property));
        }
        (Settable::Text, value) => value.render().map(Value::Text).ok_or(value),
        (Settable::Duration, value @ Value::Duration(_))
        | (Settable::Timestamp, value @ Value::Timestamp(_)) => Ok(value),
        (_, value) => Err(value),
    };
    let value = fitting.map_err(|value| EvalError::NotFor { property, kind: value.kind() })?;
    set.set_system(property, value.clone());
    Ok(Change::SetSystem(property, value))
}

#[cfg(test)]
mod tests;
