//! Conditions with another way to their answers: truth is 0, 1 or 2, `AND` the least, `OR` the greatest.

use proptest::prelude::*;

use crate::{PropertySet, Value};

#[derive(Debug, Clone)]
pub(super) enum Condition {
    Compare(&'static str, Side, Side),
    Null(&'static str, bool),
    Exists(&'static str),
    In(&'static str, Vec<Option<i64>>, bool),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

#[derive(Debug, Clone)]
pub(super) enum Side {
    Name(&'static str),
    Number(Option<i64>),
    Sum(&'static str, i64),
}

const NAMES: [&str; 3] = ["x", "Y", "z"];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn number() -> impl Strategy<Value = Option<i64>> {
    prop::option::weighted(0.8, -1i64..3)
}

/// Properties that are small numbers, null or absent.
pub(super) fn properties() -> impl Strategy<Value = PropertySet> {
    prop::collection::vec((name(), number()), 0..4).prop_map(|entries| {
        let mut set = PropertySet::new();
        for (name, value) in entries {
            set.set_user(name, value.map_or(Value::Null, Value::Int));
        }
        set
    })
}

pub(super) fn condition() -> impl Strategy<Value = Condition> {
    let side = || {
        prop_oneof![
            name().prop_map(Side::Name),
            number().prop_map(Side::Number),
            (name(), -1i64..2).prop_map(|(name, number)| Side::Sum(name, number)),
        ]
    };
    let sign = prop::sample::select(&["=", "<>", "<", "<=", ">", ">="][..]);
    let leaf = prop_oneof![
        4 => (sign, side(), side()).prop_map(|(sign, left, right)| Condition::Compare(sign, left, right)),
        1 => (name(), any::<bool>()).prop_map(|(name, negated)| Condition::Null(name, negated)),
        1 => name().prop_map(Condition::Exists),
        1 => (name(), prop::collection::vec(number(), 1..3), any::<bool>())
            .prop_map(|(name, list, negated)| Condition::In(name, list, negated)),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Condition::Not(Box::new(inner))),
            (inner.clone(), inner.clone())
                .prop_map(|(left, right)| Condition::And(Box::new(left), Box::new(right))),
            (inner.clone(), inner).prop_map(|(left, right)| Condition::Or(Box::new(left), Box::new(right))),
        ]
    })
}

impl Condition {
    pub(super) fn text(&self) -> String {
        let not = |negated: bool| if negated { "NOT " } else { "" };
        match self {
            Self::Compare(sign, left, right) => format!("{} {sign} {}", left.text(), right.text()),
            Self::Null(name, negated) => format!("{name} IS {}NULL", not(*negated)),
            Self::Exists(name) => format!("EXISTS({name})"),
            Self::In(name, list, negated) => {
                let list: Vec<String> = list.iter().map(|number| Side::Number(*number).text()).collect();
                format!("{name} {}IN ({})", not(*negated), list.join(","))
            }
            Self::Not(inner) => format!("NOT ({})", inner.text()),
            Self::And(left, right) => format!("({}) AND ({})", left.text(), right.text()),
            Self::Or(left, right) => format!("({}) OR ({})", left.text(), right.text()),
        }
    }

    /// 0 for false, 1 for unknown, 2 for true.
    pub(super) fn truth(&self, set: &PropertySet) -> u8 {
        let of = |truth: bool| if truth { 2 } else { 0 };
        match self {
            Self::Compare(sign, left, right) => {
                let (Some(left), Some(right)) = (left.value(set), right.value(set)) else { return 1 };
                of(match *sign {
                    "=" => left == right,
                    "<>" => left != right,
                    "<" => left < right,
                    "<=" => left <= right,
                    ">" => left > right,
                    _ => left >= right,
                })
            }
            Self::Null(name, negated) => of(Side::Name(name).value(set).is_none() != *negated),
            Self::Exists(name) => of(set.users().any(|(other, _)| other == *name)),
            Self::In(name, list, negated) => {
                let Some(value) = Side::Name(name).value(set) else { return 1 };
                let each = list.iter().map(|number| number.map_or(1, |number| of(number == value)));
                let found = each.max().unwrap_or(0);
                if *negated { 2 - found } else { found }
            }
            Self::Not(inner) => 2 - inner.truth(set),
            Self::And(left, right) => left.truth(set).min(right.truth(set)),
            Self::Or(left, right) => left.truth(set).max(right.truth(set)),
        }
    }
}

impl Side {
    fn text(&self) -> String {
        match self {
            Self::Name(name) => (*name).to_owned(),
            Self::Number(number) => number.map_or_else(|| "NULL".to_owned(), |number| number.to_string()),
            Self::Sum(name, number) => format!("{name} + {number}"),
        }
    }

    fn value(&self, set: &PropertySet) -> Option<i64> {
        let read = |name: &str| match set.users().find(|(other, _)| *other == name)?.1 {
            Value::Int(value) => Some(*value),
            _ => None,
        };
        match self {
            Self::Name(name) => read(name),
            Self::Number(number) => *number,
            Self::Sum(name, number) => Some(read(name)? + number),
        }
    }
}
