//! Writes a tree as text that reads as the same tree, all in parentheses.

use crate::sql::ast::{Expr, Named, Predicate};
use crate::{Property, Value};

pub(super) fn predicate(tree: &Predicate) -> String {
    match tree {
        Predicate::Compare { compare, left, right } => {
            format!("{} {} {}", expr(left), compare.sign(), expr(right))
        }
        Predicate::IsNull { property, negated } => {
            format!("{} IS {}NULL", named(property), not(*negated))
        }
        Predicate::Exists(property) => format!("EXISTS({})", named(property)),
        Predicate::In { value, list, negated } => {
            let list: Vec<String> = list.iter().map(expr).collect();
            format!("{} {}IN ({})", expr(value), not(*negated), list.join(","))
        }
        Predicate::Like { value, pattern, escape, negated, .. } => {
            let escape = escape.as_ref().map_or(String::new(), |escape| format!(" ESCAPE {}", expr(escape)));
            format!("{} {}LIKE {}{escape}", expr(value), not(*negated), expr(pattern))
        }
        // Reading never gives one.
        Predicate::Lenient(inner) => predicate(inner),
        Predicate::Not(inner) => format!("NOT ({})", predicate(inner)),
        Predicate::And(parts) => joined(parts, " AND "),
        Predicate::Or(parts) => joined(parts, " OR "),
    }
}

fn joined(parts: &[Predicate], with: &str) -> String {
    let parts: Vec<String> = parts.iter().map(|part| format!("({})", predicate(part))).collect();
    parts.join(with)
}

const fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

fn named(property: &Named) -> String {
    let quoted = |name: &str| format!("[{}]", name.replace(']', "]]"));
    match property {
        Named::Known(Property::System(property)) => format!("sys.{property}"),
        Named::Known(Property::User(name)) => quoted(name),
        Named::Unknown(name) => format!("sys.{}", quoted(name)),
    }
}

fn expr(tree: &Expr) -> String {
    match tree {
        Expr::Constant(value) => constant(value),
        Expr::Property(property) => named(property),
        Expr::NewId => "newid()".to_owned(),
        Expr::Lookup(name) => format!("property({})", expr(name)),
        Expr::Sign { negative, of } => format!("{}({})", if *negative { "-" } else { "+" }, expr(of)),
        Expr::Chain { first, rest } => rest.iter().fold(expr(first), |left, (operator, right)| {
            format!("({left}) {} ({})", operator.sign(), expr(right))
        }),
    }
}

fn constant(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Double(value) => format!("{value:?}"),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        other => panic!("{other:?} is never a constant of a text"),
    }
}
