//! `ferrybus fault`: what goes wrong because a test ordered it.
//!
//! Invariant: what is printed is what the broker answered.

use clap::ValueEnum as _;
use hyper::Method;
use serde_json::{Value, json};

use super::BrokerEndpoint;
use crate::{arguments::FaultArguments, failure::Failure, output, size_and_duration::Span};

const PATH: &str = "/$ferrybus/faults";

/// Orders a fault.
pub(crate) async fn add_fault(target: BrokerEndpoint, arguments: &FaultArguments) -> Result<(), Failure> {
    let kind = arguments.kind.to_possible_value();
    let mut order = json!({
        "kind": kind.as_ref().map(clap::builder::PossibleValue::get_name),
        "entity": arguments.entity.clone().unwrap_or_default(),
    });
    let fields = [
        ("count", arguments.count),
        ("for_ms", millis(arguments.duration)?),
        ("delay_ms", millis(arguments.delay)?),
    ];
    for (name, value) in fields {
        if let (Some(value), Some(order)) = (value, order.as_object_mut()) {
            order.insert(name.into(), value.into());
        }
    }
    let fault = target.ask(Method::POST, PATH, Some(order)).await?;
    print(&fault, arguments.operator.connect.json)
}

/// Shows those that can still strike.
pub(crate) async fn list_faults(target: BrokerEndpoint, as_json: bool) -> Result<(), Failure> {
    let said = target.ask(Method::GET, PATH, None).await?;
    let faults = said.get("faults").and_then(Value::as_array);
    let unreadable = || Failure::new(format_args!("the broker's answer cannot be read: {said}"));
    faults.ok_or_else(unreadable)?.iter().try_for_each(|fault| print(fault, as_json))
}

/// Takes back one, or all.
pub(crate) async fn clear_faults(
    target: BrokerEndpoint,
    number: Option<u64>,
    as_json: bool,
) -> Result<(), Failure> {
    let path = number.map_or(PATH.to_owned(), |number| format!("{PATH}/{number}"));
    let said = target.ask(Method::DELETE, &path, None).await?;
    if as_json {
        return output::line(said);
    }
    output::line(format_args!("cleared {}", said.get("cleared").unwrap_or(&Value::Null)))
}

fn millis(span: Option<Span>) -> Result<Option<u64>, Failure> {
    let Some(span) = span else { return Ok(None) };
    let millis = span.finite().and_then(|time| u64::try_from(time.as_millis()).ok());
    millis.map(Some).ok_or_else(|| Failure::misuse("a fault needs an end, expected a time such as `30s`"))
}

fn print(fault: &Value, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return output::line(fault);
    }
    let text = |name: &str| fault.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| fault.get(name).and_then(Value::as_u64);
    let entity = match text("entity") {
        "" => "everywhere",
        entity => entity,
    };
    let limits = [("count", " more"), ("for_ms", " ms"), ("delay_ms", " ms each")];
    let limits = limits.into_iter().filter_map(|(name, what)| Some(format!("  {}{what}", number(name)?)));
    let (id, kind) = (number("id").unwrap_or_default(), text("kind"));
    output::line(format_args!("{id}  {kind}  {entity}{}", limits.collect::<String>()))
}
