//! The record of a subscription's rule.
//!
//! Invariant: a rule that was accepted comes back equal, its texts read anew.

use broker_filter::{CorrelationFilter, Filter, Parameters, Property, SqlAction, SqlFilter, SystemProperty};

use super::{
    head::Head,
    kind,
    reader::Reader,
    value::{put_long, put_written, take_text, take_written},
};
use crate::{QueueId, RecordError, Rule, Timestamp};

const PRESENT: u8 = 0;
const GONE: u8 = 1;

mod filter {
    pub(super) const TRUE: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const SQL: u8 = 2;
    pub(super) const CORRELATION: u8 = 3;
    pub(super) const LENIENT_SQL: u8 = 4;
}

const SYSTEM: u8 = 0;
const USER: u8 = 1;

/// Record of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RuleRecord {
    /// The subscription's main store.
    pub(crate) subscription: QueueId,
    /// Which of its rules: counts up, so that the order of rules stays.
    pub(crate) number: u32,
    /// The rule and its creation time; `None`: it was removed.
    pub(crate) rule: Option<(Rule, Timestamp)>,
}

/// The record of a rule that exists.
pub(crate) fn encode_rule(subscription: QueueId, number: u32, rule: &Rule, created_at: Timestamp) -> Vec<u8> {
    let mut record = head(PRESENT, subscription, number);
    record.extend_from_slice(&created_at.as_millis().to_le_bytes());
    put_long(&mut record, rule.name.as_bytes());
    put_filter(&mut record, &rule.filter);
    record.push(u8::from(rule.action.is_some()));
    if let Some(action) = &rule.action {
        put_sql(&mut record, action.text(), action.parameters());
    }
    record
}

/// The record of a removed rule.
pub(crate) fn encode_rule_gone(subscription: QueueId, number: u32) -> Vec<u8> {
    head(GONE, subscription, number)
}

fn head(state: u8, subscription: QueueId, number: u32) -> Vec<u8> {
    let mut record = Head::encode(kind::RULE, subscription).to_vec();
    record.extend_from_slice(&number.to_le_bytes());
    record.extend_from_slice(&[state, 0, 0, 0]);
    record
}

fn put_filter(record: &mut Vec<u8>, filter: &Filter) {
    match filter {
        Filter::True => record.push(filter::TRUE),
        Filter::False => record.push(filter::FALSE),
        Filter::Sql(sql) => {
            record.push(if sql.is_lenient() { filter::LENIENT_SQL } else { filter::SQL });
            put_sql(record, sql.text(), sql.parameters());
        }
        Filter::Correlation(correlation) => {
            record.push(filter::CORRELATION);
            put_count(record, correlation.conditions().len());
            for (property, value) in correlation.conditions() {
                let written = match property {
                    Property::System(property) => {
                        record.push(SYSTEM);
                        put_long(record, property.to_string().as_bytes());
                        None
                    }
                    Property::User(name) => {
                        record.push(USER);
                        put_long(record, name.as_bytes());
                        correlation.written(name)
                    }
                };
                put_written(record, value, written);
            }
        }
    }
}

fn put_sql(record: &mut Vec<u8>, text: &str, parameters: &Parameters) {
    put_long(record, text.as_bytes());
    put_count(record, parameters.iter().len());
    for (name, value) in parameters.iter() {
        put_long(record, name.as_bytes());
        put_written(record, value, parameters.written(name));
    }
}

fn put_count(record: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("rules are limited to far less than 4 GiB");
    record.extend_from_slice(&count.to_le_bytes());
}

impl RuleRecord {
    /// The head is read already.
    pub(super) fn decode(subscription: QueueId, reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let number = reader.u32("number")?;
        let state = reader.u8("state")?;
        reader.array::<3>("reserved")?;
        let rule = match state {
            PRESENT => Some(take_rule(reader)?),
            GONE => None,
            other => return Err(RecordError::Value { field: "state", value: u64::from(other) }),
        };
        Ok(Self { subscription, number, rule })
    }
}

fn take_rule(reader: &mut Reader<'_>) -> Result<(Rule, Timestamp), RecordError> {
    let created_at = Timestamp::from_millis(reader.u64("created_at")?);
    let name = take_text(reader, "rule name")?;
    let filter = take_filter(reader)?;
    let action = match reader.u8("action")? {
        0 => None,
        1 => {
            let (text, parameters) = take_sql(reader)?;
            let action = SqlAction::parse(&text, parameters);
            Some(action.map_err(|error| unreadable("action", error.at.offset))?)
        }
        other => return Err(RecordError::Value { field: "action", value: u64::from(other) }),
    };
    Ok((Rule { name, filter, action }, created_at))
}

fn take_filter(reader: &mut Reader<'_>) -> Result<Filter, RecordError> {
    Ok(match reader.u8("filter")? {
        filter::TRUE => Filter::True,
        filter::FALSE => Filter::False,
        kind @ (filter::SQL | filter::LENIENT_SQL) => {
            let (text, parameters) = take_sql(reader)?;
            let parse = if kind == filter::SQL { SqlFilter::parse } else { SqlFilter::parse_lenient };
            let filter = parse(&text, parameters);
            Filter::Sql(filter.map_err(|error| unreadable("filter", error.at.offset))?)
        }
        filter::CORRELATION => Filter::Correlation(take_correlation(reader)?),
        other => return Err(RecordError::Value { field: "filter", value: u64::from(other) }),
    })
}

/// A text that this program does not understand; `offset` is where.
fn unreadable(field: &'static str, offset: usize) -> RecordError {
    RecordError::Value { field, value: offset as u64 }
}

fn take_sql(reader: &mut Reader<'_>) -> Result<(Box<str>, Parameters), RecordError> {
    let text = take_text(reader, "expression")?;
    let mut parameters = Parameters::new();
    for _ in 0..reader.u32("parameter count")? {
        let name = take_text(reader, "parameter")?;
        match take_written(reader)? {
            (value, Some(written)) => parameters.set_written(&name, value, written),
            (value, None) => parameters.set(&name, value),
        }
    }
    Ok((text, parameters))
}

fn take_correlation(reader: &mut Reader<'_>) -> Result<CorrelationFilter, RecordError> {
    let mut filter = CorrelationFilter::new();
    for _ in 0..reader.u32("condition count")? {
        let scope = reader.u8("scope")?;
        let name = take_text(reader, "property")?;
        let (value, written) = take_written(reader)?;
        match (scope, SystemProperty::named(&name), written) {
            (SYSTEM, Some(property), None) => filter.system(property, value),
            (USER, _, None) => filter.user(&name, value),
            (USER, _, Some(written)) => filter.user_written(&name, value, written),
            _ => return Err(RecordError::Value { field: "scope", value: u64::from(scope) }),
        }
    }
    Ok(filter)
}
