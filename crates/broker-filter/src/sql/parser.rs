//! Makes a tree of words.
//!
//! From the tightest: signs; `*` `/` `%`; `+` `-`; comparisons, `IN`, `LIKE` and `IS`; `NOT`; `AND`; `OR`.
//! Parentheses may hold a value or a condition, which shows only at what follows them. So both are read
//! by one function, and each operator says which of the two it wants.
//!
//! Invariant: takes stack in proportion to the nesting, which is bounded, and not to the length.

use super::Parameters;
use super::ast::{Expr, Named, Predicate};
use super::cursor::Cursor;
use super::lexer::{Token, TokenKind};
use super::pattern::Pattern;
use crate::arithmetic::Arithmetic;
use crate::error::{ParseError, Problem};
use crate::limits::MAX_NESTING;
use crate::properties::{Property, SystemProperty};
use crate::value::{Compare, Value};

/// Binding powers of the operators.
mod power {
    pub(super) const ANY: u8 = 0;
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const NOT: u8 = 3;
    pub(super) const COMPARE: u8 = 4;
    pub(super) const SUM: u8 = 5;
    pub(super) const PRODUCT: u8 = 6;
    pub(super) const SIGN: u8 = 7;
}

pub(crate) struct Parser<'a> {
    pub(crate) cursor: Cursor<'a>,
    parameters: &'a Parameters,
    depth: usize,
}

/// Parsed operand: a value or a condition.
enum Item {
    Value(Expr),
    Truth(Predicate),
}

/// Infix and postfix operators.
#[derive(Clone, Copy)]
enum Operator {
    Or,
    And,
    Compare(Compare),
    Arithmetic(Arithmetic),
    Is,
    In,
    Like,
    /// The `NOT` of `NOT IN` and `NOT LIKE`.
    Not,
}

impl Operator {
    const fn power(self) -> u8 {
        match self {
            Self::Or => power::OR,
            Self::And => power::AND,
            Self::Compare(_) | Self::Is | Self::In | Self::Like | Self::Not => power::COMPARE,
            Self::Arithmetic(Arithmetic::Add | Arithmetic::Subtract) => power::SUM,
            Self::Arithmetic(_) => power::PRODUCT,
        }
    }

    fn of(kind: &TokenKind<'_>) -> Option<Self> {
        match kind {
            TokenKind::Name(name) => {
                let is = |(keyword, _): &&(&str, Self)| keyword.eq_ignore_ascii_case(name);
                NAMED.iter().find(is).map(|(_, operator)| *operator)
            }
            TokenKind::Sign(sign) => {
                SIGNED.iter().find(|(other, _)| other == sign).map(|(_, operator)| *operator)
            }
            _ => None,
        }
    }
}

const NAMED: [(&str, Operator); 6] = [
    ("AND", Operator::And),
    ("OR", Operator::Or),
    ("IS", Operator::Is),
    ("IN", Operator::In),
    ("LIKE", Operator::Like),
    ("NOT", Operator::Not),
];

const SIGNED: [(&str, Operator); 12] = [
    ("=", Operator::Compare(Compare::Equal)),
    ("<>", Operator::Compare(Compare::NotEqual)),
    ("!=", Operator::Compare(Compare::NotEqual)),
    ("<", Operator::Compare(Compare::Less)),
    ("<=", Operator::Compare(Compare::LessOrEqual)),
    (">", Operator::Compare(Compare::Greater)),
    (">=", Operator::Compare(Compare::GreaterOrEqual)),
    ("+", Operator::Arithmetic(Arithmetic::Add)),
    ("-", Operator::Arithmetic(Arithmetic::Subtract)),
    ("*", Operator::Arithmetic(Arithmetic::Multiply)),
    ("/", Operator::Arithmetic(Arithmetic::Divide)),
    ("%", Operator::Arithmetic(Arithmetic::Remainder)),
];

const AFTER_VALUE: &str = "a comparison, `IN`, `LIKE` or an arithmetic operator";
const AFTER_TRUTH: &str = "`AND`, `OR` or the end";

impl<'a> Parser<'a> {
    pub(crate) const fn new(cursor: Cursor<'a>, parameters: &'a Parameters) -> Self {
        Self { cursor, parameters, depth: 0 }
    }

    /// A condition, and nothing behind it.
    pub(crate) fn filter(mut self) -> Result<Predicate, ParseError> {
        let predicate = self.truth(power::ANY)?;
        if self.cursor.is_end() { Ok(predicate) } else { Err(self.cursor.expected(AFTER_TRUTH)) }
    }

    /// A value, up to what cannot go on with it.
    pub(crate) fn expression(&mut self) -> Result<Expr, ParseError> {
        self.value(power::SUM)
    }

    fn value(&mut self, min_power: u8) -> Result<Expr, ParseError> {
        let start = self.cursor.mark();
        match self.item(min_power)? {
            Item::Value(value) => Ok(value),
            Item::Truth(_) => Err(self.cursor.expected_at(&start, "a value")),
        }
    }

    fn truth(&mut self, min_power: u8) -> Result<Predicate, ParseError> {
        match self.item(min_power)? {
            Item::Truth(predicate) => Ok(predicate),
            Item::Value(_) => Err(self.cursor.expected(AFTER_VALUE)),
        }
    }

    /// Operands and the operators between them that bind at least that tightly.
    fn item(&mut self, min_power: u8) -> Result<Item, ParseError> {
        let mut left = self.operand(min_power)?;
        while let Some(operator) = Operator::of(self.cursor.kind()) {
            if operator.power() < min_power {
                break;
            }
            left = match (operator, left) {
                (Operator::And | Operator::Or, Item::Truth(left)) => self.junction(operator, left)?,
                (Operator::Arithmetic(arithmetic), Item::Value(left)) => self.chain(arithmetic, left)?,
                (Operator::And | Operator::Or, Item::Value(_)) => {
                    return Err(self.cursor.expected(AFTER_VALUE));
                }
                (_, Item::Value(left)) => Item::Truth(self.comparison(operator, left)?),
                (_, Item::Truth(_)) => return Err(self.cursor.expected(AFTER_TRUTH)),
            };
        }
        Ok(left)
    }

    fn junction(&mut self, operator: Operator, left: Predicate) -> Result<Item, ParseError> {
        self.cursor.advance()?;
        let right = self.truth(operator.power() + 1)?;
        let and = matches!(operator, Operator::And);
        let mut parts = Vec::new();
        for part in [left, right] {
            match part {
                Predicate::And(inner) if and => parts.extend(inner),
                Predicate::Or(inner) if !and => parts.extend(inner),
                other => parts.push(other),
            }
        }
        Ok(Item::Truth(if and { Predicate::And(parts) } else { Predicate::Or(parts) }))
    }

    fn chain(&mut self, arithmetic: Arithmetic, left: Expr) -> Result<Item, ParseError> {
        self.cursor.advance()?;
        let right = self.value(Operator::Arithmetic(arithmetic).power() + 1)?;
        let (first, mut rest) = match left {
            Expr::Chain { first, rest } => (first, rest),
            other => (Box::new(other), Vec::new()),
        };
        rest.push((arithmetic, right));
        Ok(Item::Value(Expr::Chain { first, rest }))
    }

    fn comparison(&mut self, operator: Operator, left: Expr) -> Result<Predicate, ParseError> {
        let kind = self.cursor.advance()?;
        match operator {
            Operator::Compare(compare) => {
                Ok(Predicate::Compare { compare, left, right: self.value(power::SUM)? })
            }
            Operator::Is => self.is_null(&kind, left),
            Operator::In => self.is_in(left, false),
            Operator::Like => self.like(left, false),
            _ if self.cursor.takes_keyword("IN")? => self.is_in(left, true),
            _ if self.cursor.takes_keyword("LIKE")? => self.like(left, true),
            _ => Err(self.cursor.expected("`IN` or `LIKE`")),
        }
    }

    fn is_null(&mut self, is: &Token<'a>, left: Expr) -> Result<Predicate, ParseError> {
        let Expr::Property(property) = left else {
            return Err(self.cursor.expected_at(is, "an operator other than `IS`, which follows a property"));
        };
        let negated = self.cursor.takes_keyword("NOT")?;
        if !self.cursor.takes_keyword("NULL")? {
            return Err(self.cursor.expected(if negated { "`NULL`" } else { "`NULL` or `NOT NULL`" }));
        }
        Ok(Predicate::IsNull { property, negated })
    }

    fn is_in(&mut self, value: Expr, negated: bool) -> Result<Predicate, ParseError> {
        self.cursor.wants_sign("(", "`(`")?;
        let mut list = vec![self.expression()?];
        while self.cursor.takes_sign(",")? {
            list.push(self.expression()?);
        }
        self.cursor.wants_sign(")", "`,`, `)` or an arithmetic operator")?;
        Ok(Predicate::In { value, list, negated })
    }

    fn like(&mut self, value: Expr, negated: bool) -> Result<Predicate, ParseError> {
        let start = self.cursor.start();
        let pattern = self.expression()?;
        let escape = if self.cursor.takes_keyword("ESCAPE")? { Some(self.expression()?) } else { None };
        let fixed = match (pattern.as_text(), escape.as_ref().map(Expr::as_text)) {
            (Some(pattern), None) => Some(Pattern::new(pattern, None)),
            (Some(pattern), Some(Some(escape))) => Some(Pattern::new(pattern, Some(escape))),
            _ => None,
        };
        let fixed = fixed.transpose();
        let fixed = fixed.map_err(|error| self.cursor.fault(start, Problem::BadPattern(error)))?;
        Ok(Predicate::Like { value, pattern, escape, fixed, negated })
    }

    /// Operand in front of the first operator, with its own prefixes.
    fn operand(&mut self, min_power: u8) -> Result<Item, ParseError> {
        let wants_value = min_power > power::NOT;
        if self.cursor.is_sign("(") {
            return self.nested(|parser| {
                parser.cursor.advance()?;
                let item = parser.item(if wants_value { power::SUM } else { power::ANY })?;
                parser.cursor.wants_sign(")", "an operator or `)`").map(|()| item)
            });
        }
        if self.cursor.is_sign("+") || self.cursor.is_sign("-") {
            return self.nested(Self::signed).map(Item::Value);
        }
        if !wants_value && self.cursor.is_keyword("NOT") {
            return self.nested(|parser| {
                parser.cursor.advance()?;
                Ok(Item::Truth(Predicate::Not(Box::new(parser.truth(power::NOT)?))))
            });
        }
        if !wants_value && self.cursor.takes_keyword("EXISTS")? {
            self.cursor.wants_sign("(", "`(`")?;
            let property = self.property()?;
            self.cursor.wants_sign(")", "`)`")?;
            return Ok(Item::Truth(Predicate::Exists(property)));
        }
        let expected = if wants_value { "a value" } else { "a value, `NOT`, `EXISTS` or `(`" };
        self.primary(expected).map(Item::Value)
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, ParseError>) -> Result<T, ParseError> {
        if self.depth == MAX_NESTING {
            return Err(self.cursor.fault(self.cursor.start(), Problem::TooDeep));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// A sign and what it belongs to. The smallest integer has a magnitude that only a sign makes fit.
    fn signed(&mut self) -> Result<Expr, ParseError> {
        let negative = self.cursor.is_sign("-");
        self.cursor.advance()?;
        if let TokenKind::Integer(magnitude) = *self.cursor.kind()
            && negative
        {
            let value = 0i64.checked_sub_unsigned(magnitude).ok_or_else(|| self.too_large())?;
            self.cursor.advance()?;
            return Ok(Expr::Constant(Value::Int(value)));
        }
        Ok(Expr::Sign { negative, of: Box::new(self.value(power::SIGN)?) })
    }

    fn too_large(&self) -> ParseError {
        self.cursor.fault(self.cursor.start(), Problem::NumberTooLarge)
    }

    fn primary(&mut self, expected: &'static str) -> Result<Expr, ParseError> {
        let constant = match self.cursor.kind() {
            TokenKind::Text(text) => Value::Text(text.clone()),
            TokenKind::Double(value) => Value::Double(*value),
            TokenKind::Integer(value) => Value::Int(i64::try_from(*value).map_err(|_| self.too_large())?),
            TokenKind::Parameter(name) => self.parameters.get(name).cloned().ok_or_else(|| {
                self.cursor.fault(self.cursor.start(), Problem::UnknownParameter((*name).into()))
            })?,
            TokenKind::Name(_) if self.cursor.is_keyword("TRUE") => Value::Bool(true),
            TokenKind::Name(_) if self.cursor.is_keyword("FALSE") => Value::Bool(false),
            TokenKind::Name(_) if self.cursor.is_keyword("NULL") => Value::Null,
            TokenKind::Name(_) if !self.cursor.is_reserved() => {
                let name = self.cursor.advance()?;
                return if self.cursor.is_sign("(") {
                    self.function(&name)
                } else {
                    self.scoped(name).map(Expr::Property)
                };
            }
            TokenKind::Delimited(_) => return self.property().map(Expr::Property),
            _ => return Err(self.cursor.expected(expected)),
        };
        self.cursor.advance()?;
        Ok(Expr::Constant(constant))
    }

    fn function(&mut self, token: &Token<'a>) -> Result<Expr, ParseError> {
        let TokenKind::Name(name) = token.kind else {
            return Err(self.cursor.expected_at(token, "a function"));
        };
        let is = |function: &str| name.eq_ignore_ascii_case(function);
        if is("newid") {
            self.cursor.advance()?;
            return self.cursor.wants_sign(")", "`)`").map(|()| Expr::NewId);
        }
        if is("property") || is("p") {
            return self.nested(|parser| {
                parser.cursor.advance()?;
                let name = parser.expression()?;
                parser.cursor.wants_sign(")", "an arithmetic operator or `)`")?;
                Ok(Expr::Lookup(Box::new(name)))
            });
        }
        Err(self.cursor.fault(token.start, Problem::UnknownFunction(name.into())))
    }

    /// `name`, `sys.name` or `user.name`, where the name may be delimited.
    pub(crate) fn property(&mut self) -> Result<Named, ParseError> {
        let token = self.part()?;
        self.scoped(token)
    }

    /// The property that starts with this word.
    fn scoped(&mut self, token: Token<'a>) -> Result<Named, ParseError> {
        let TokenKind::Name(scope) = token.kind else { return Ok(user(token)) };
        if !self.cursor.takes_sign(".")? {
            return Ok(user(token));
        }
        if scope.eq_ignore_ascii_case("user") {
            return self.part().map(user);
        }
        if !scope.eq_ignore_ascii_case("sys") {
            let expected = "`sys` or `user` in front of a dot; a name with a dot in it stands in brackets";
            return Err(self.cursor.expected_at(&token, expected));
        }
        let name = text(self.part()?);
        let known = SystemProperty::named(&name).map(Property::System);
        Ok(known.map_or(Named::Unknown(name), Named::Known))
    }

    /// One name of a property.
    fn part(&mut self) -> Result<Token<'a>, ParseError> {
        match self.cursor.kind() {
            TokenKind::Delimited(_) => self.cursor.advance(),
            TokenKind::Name(_) if !self.cursor.is_reserved() => self.cursor.advance(),
            _ => Err(self.cursor.expected("the name of a property")),
        }
    }
}

fn user(token: Token<'_>) -> Named {
    Named::Known(Property::User(text(token)))
}

/// The name that a word is.
fn text(token: Token<'_>) -> Box<str> {
    match token.kind {
        TokenKind::Delimited(name) => name,
        TokenKind::Name(name) => name.into(),
        _ => Box::default(),
    }
}

#[cfg(test)]
mod tests;
