//! Values and demands as recordings write them.
//!
//! Invariant: a text that this module reads has one meaning; what it cannot read is an error with its place.

use amqp_codec::value::{Timestamp, Uuid, Value};

use super::vocabulary::{Composite, composite_named, section_named};

/// A value of a recording, or a demand on one.
///
/// | text | value |
/// |---|---|
/// | `null`, `true`, `5`, `5u8`, `5u16`, `5u64`, `-5i32`, `5i64`, `1.5f64` | without a suffix a number is a `uint` |
/// | `1700000000000ms`, `uuid(0x…)`, `char(97)`, `decimal(0x…)` | timestamp, uuid, char, decimal128 |
/// | `"text ${variable}"`, `'symbol'`, `b"bytes \x00"`, `letters(1000)` | `$$` is a dollar; `letters` is the alphabet over and over |
/// | `$variable`, `uuid($tag)` | a variable; the lock token that is the delivery-tag `$tag` as a GUID of .NET |
/// | `[…]`, `array[…]`, `{key: value}` | list, array, map |
/// | `source(address: "q")`, `data b"…"`, `described(5u64, …)` | composite types and sections of messages by their names |
/// | `encoded(properties(…) data b"…")` | a binary that holds these values |
///
/// In a demand `?` fits any value, `?uint` any of that type, `?positive` any number above 0. A demand looks only at what it
/// names: at these fields of a composite, these keys of a map, these elements of an array. Behind `exactly` nothing else may
/// be there.
#[derive(Clone, Debug, PartialEq)]
pub struct Term(pub(super) Shape);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Scalar(Value),
    Text { pieces: Vec<Piece>, symbol: bool },
    Variable(String),
    LockToken(String),
    Any(String),
    List(Vec<Term>),
    Array(Vec<Term>),
    Map(Vec<(Term, Term)>),
    Composite(&'static Composite, Vec<(usize, Term)>),
    Described(Box<Term>, Box<Term>),
    Encoded(Vec<Term>),
    Exactly(Box<Term>),
}

/// Part of a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Piece {
    Plain(String),
    Variable(String),
}

/// Text that is no value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected {expected} at `{rest}`")]
pub struct TermError {
    expected: String,
    /// Beginning of what follows.
    rest: String,
}

impl Term {
    /// All values of a text, separated by spaces.
    pub fn read_all(text: &str) -> Result<Vec<Self>, TermError> {
        let mut reader = TermReader { rest: text };
        let mut terms = Vec::new();
        while !reader.is_at_end() {
            terms.push(reader.term()?);
        }
        Ok(terms)
    }

    pub(super) fn composite(&self) -> Option<&'static Composite> {
        match &self.0 {
            Shape::Composite(composite, _) => Some(composite),
            Shape::Exactly(inner) => inner.composite(),
            _ => None,
        }
    }

    /// The field of this name, if the term names it.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        let Shape::Composite(composite, fields) = &self.0 else { return None };
        let place = composite.fields.iter().position(|field| *field == name)?;
        fields.iter().find(|(field, _)| *field == place).map(|(_, term)| term)
    }

    /// The same composite with this field set.
    pub(super) fn with_field(&self, name: &str, value: Value) -> Self {
        let Shape::Composite(composite, fields) = &self.0 else { return self.clone() };
        let Some(place) = composite.fields.iter().position(|field| *field == name) else {
            return self.clone();
        };
        let mut fields: Vec<(usize, Self)> =
            fields.iter().filter(|(field, _)| *field != place).cloned().collect();
        fields.push((place, Self(Shape::Scalar(value))));
        Self(Shape::Composite(composite, fields))
    }
}

struct TermReader<'a> {
    rest: &'a str,
}

impl TermReader<'_> {
    fn is_at_end(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.is_empty()
    }

    fn fail<T>(&self, expected: &str) -> Result<T, TermError> {
        let rest = self.rest.chars().take(40).collect();
        Err(TermError { expected: expected.to_owned(), rest })
    }

    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn demand(&mut self, token: &str) -> Result<(), TermError> {
        if self.take(token) { Ok(()) } else { self.fail(&format!("`{token}`")) }
    }

    fn word(&mut self) -> String {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word.to_owned()
    }

    fn term(&mut self) -> Result<Term, TermError> {
        self.shape().map(Term)
    }

    fn boxed(&mut self) -> Result<Box<Term>, TermError> {
        self.term().map(Box::new)
    }

    fn shape(&mut self) -> Result<Shape, TermError> {
        if self.take("$") {
            return Ok(Shape::Variable(self.word()));
        }
        if self.take("?") {
            return Ok(Shape::Any(self.word()));
        }
        if self.take("[") {
            return self.items("]").map(Shape::List);
        }
        if self.take("{") {
            return self.entries().map(Shape::Map);
        }
        if self.take("b\"") {
            return self.bytes().map(|bytes| Shape::Scalar(Value::Binary(bytes.into())));
        }
        for (quote, symbol) in [('"', false), ('\'', true)] {
            if self.take(&quote.to_string()) {
                return self.text(quote).map(|pieces| Shape::Text { pieces, symbol });
            }
        }
        match self.rest.chars().next() {
            Some(first) if first == '-' || first.is_ascii_digit() => self.number().map(Shape::Scalar),
            Some(first) if first.is_ascii_lowercase() => {
                let word = self.word();
                self.named(&word)
            }
            _ => self.fail("a value"),
        }
    }

    /// A term that begins with a word.
    fn named(&mut self, word: &str) -> Result<Shape, TermError> {
        Ok(match word {
            "null" => Shape::Scalar(Value::Null),
            "true" => Shape::Scalar(Value::Bool(true)),
            "false" => Shape::Scalar(Value::Bool(false)),
            "exactly" => Shape::Exactly(self.boxed()?),
            "array" => {
                self.demand("[")?;
                Shape::Array(self.items("]")?)
            }
            "encoded" => {
                self.demand("(")?;
                let mut terms = Vec::new();
                while !self.take(")") {
                    terms.push(self.term()?);
                }
                Shape::Encoded(terms)
            }
            "described" => {
                self.demand("(")?;
                let descriptor = self.boxed()?;
                self.demand(",")?;
                let value = self.boxed()?;
                self.demand(")")?;
                Shape::Described(descriptor, value)
            }
            "uuid" | "decimal" | "char" | "letters" => return self.call(word),
            _ => return self.composite(word),
        })
    }

    fn composite(&mut self, word: &str) -> Result<Shape, TermError> {
        if let Some(code) = section_named(word) {
            let descriptor = Term(Shape::Scalar(Value::Ulong(code)));
            return Ok(Shape::Described(Box::new(descriptor), self.boxed()?));
        }
        let Some(composite) = composite_named(word) else { return self.fail("a known name before") };
        self.demand("(")?;
        let mut fields = Vec::new();
        while !self.take(")") {
            let name = self.word();
            let Some(place) = composite.fields.iter().position(|field| *field == name) else {
                return self.fail(&format!("a field of {word} instead of `{name}`"));
            };
            self.demand(":")?;
            fields.push((place, self.term()?));
            if !self.take(",") {
                self.demand(")")?;
                break;
            }
        }
        Ok(Shape::Composite(composite, fields))
    }

    fn call(&mut self, word: &str) -> Result<Shape, TermError> {
        self.demand("(")?;
        let shape = if self.take("$") {
            Shape::LockToken(self.word())
        } else {
            let argument = self.word();
            let value = match argument.strip_prefix("0x") {
                Some(digits) => of_bytes(word, &hex(digits).unwrap_or_default()),
                None => argument.parse().ok().and_then(|number| of_number(word, number)),
            };
            let Some(value) = value else { return self.fail(&format!("another argument of {word} before")) };
            Shape::Scalar(value)
        };
        self.demand(")")?;
        Ok(shape)
    }

    fn items(&mut self, end: &str) -> Result<Vec<Term>, TermError> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(self.term()?);
            if !self.take(",") {
                self.demand(end)?;
                break;
            }
        }
        Ok(items)
    }

    fn entries(&mut self) -> Result<Vec<(Term, Term)>, TermError> {
        let mut entries = Vec::new();
        while !self.take("}") {
            let key = self.term()?;
            self.demand(":")?;
            entries.push((key, self.term()?));
            if !self.take(",") {
                self.demand("}")?;
                break;
            }
        }
        Ok(entries)
    }

    fn number(&mut self) -> Result<Value, TermError> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-.+".contains(c));
        let (token, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let Some(value) = number(token) else { return self.fail("a number") };
        self.rest = rest;
        Ok(value)
    }

    /// Behind the quote, up to its end.
    fn text(&mut self, quote: char) -> Result<Vec<Piece>, TermError> {
        let (mut pieces, mut plain) = (Vec::new(), String::new());
        loop {
            let mut chars = self.rest.chars();
            let Some(next) = chars.next() else { return self.fail("the end of a text") };
            self.rest = chars.as_str();
            match next {
                _ if next == quote => break,
                '\\' => plain.push(self.escaped()?),
                '$' if self.rest.starts_with('$') => {
                    self.rest = self.rest.get(1..).unwrap_or_default();
                    plain.push('$');
                }
                '$' if self.rest.starts_with('{') => {
                    self.rest = self.rest.get(1..).unwrap_or_default();
                    pieces.push(Piece::Plain(std::mem::take(&mut plain)));
                    pieces.push(Piece::Variable(self.word()));
                    self.demand("}")?;
                }
                other => plain.push(other),
            }
        }
        pieces.push(Piece::Plain(plain));
        pieces.retain(|piece| *piece != Piece::Plain(String::new()));
        Ok(pieces)
    }

    fn escaped(&mut self) -> Result<char, TermError> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        Ok(match next {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('x' | 'u') => {
                let digits = if next == Some('x') { 2 } else { 4 };
                let code = self.rest.get(..digits).and_then(|code| u32::from_str_radix(code, 16).ok());
                let Some(decoded) = code.and_then(char::from_u32) else { return self.fail("a character") };
                self.rest = self.rest.get(digits..).unwrap_or_default();
                decoded
            }
            Some(other) => other,
            None => return self.fail("an escaped character"),
        })
    }

    fn bytes(&mut self) -> Result<Vec<u8>, TermError> {
        let mut bytes = Vec::new();
        loop {
            let mut chars = self.rest.chars();
            let Some(next) = chars.next() else { return self.fail("the end of the bytes") };
            self.rest = chars.as_str();
            let next = match next {
                '"' => return Ok(bytes),
                '\\' => self.escaped()?,
                other => other,
            };
            let Ok(byte) = u8::try_from(next) else { return self.fail("a byte before") };
            bytes.push(byte);
        }
    }
}

fn number(token: &str) -> Option<Value> {
    if let Some(millis) = token.strip_suffix("ms") {
        return millis.parse().ok().map(|millis: i64| Value::Timestamp(Timestamp::from(millis)));
    }
    let at = token.find(['u', 'i', 'f']).unwrap_or(token.len());
    let (digits, suffix) = token.split_at(at);
    match suffix {
        "" => digits.parse().ok().map(Value::Uint),
        "u8" => digits.parse().ok().map(Value::Ubyte),
        "u16" => digits.parse().ok().map(Value::Ushort),
        "u64" => digits.parse().ok().map(Value::Ulong),
        "i8" => digits.parse().ok().map(Value::Byte),
        "i16" => digits.parse().ok().map(Value::Short),
        "i32" => digits.parse().ok().map(Value::Int),
        "i64" => digits.parse().ok().map(Value::Long),
        "f32" => digits.parse().ok().map(|number: f32| Value::from(number)),
        "f64" => digits.parse().ok().map(|number: f64| Value::from(number)),
        _ => None,
    }
}

fn of_bytes(word: &str, bytes: &[u8]) -> Option<Value> {
    let sixteen: [u8; 16] = bytes.try_into().ok()?;
    match word {
        "uuid" => Some(Value::Uuid(Uuid::from(sixteen))),
        "decimal" => Some(Value::Decimal128(sixteen.into())),
        _ => None,
    }
}

fn of_number(word: &str, number: u32) -> Option<Value> {
    match word {
        "char" => char::from_u32(number).map(Value::Char),
        "letters" => {
            let letters: Vec<u8> = (b'a'..=b'z').cycle().take(usize::try_from(number).ok()?).collect();
            Some(Value::Binary(letters.into()))
        }
        _ => None,
    }
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}
