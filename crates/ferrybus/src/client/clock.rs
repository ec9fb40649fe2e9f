//! `ferrybus clock`: the time of a broker that was started for testing.
//!
//! Invariant: what is printed is what the broker answered.

use hyper::Method;
use serde_json::{Value, json};

use super::BrokerEndpoint;
use crate::{failure::Failure, output, size_and_duration::Span};

/// Says what time it is for the broker.
pub(crate) async fn show_clock(target: BrokerEndpoint, as_json: bool) -> Result<(), Failure> {
    let time = target.ask(Method::GET, "/$ferrybus/clock", None).await?;
    print(&time, as_json)
}

/// Moves the broker's time forward.
pub(crate) async fn advance_clock(target: BrokerEndpoint, by: Span, as_json: bool) -> Result<(), Failure> {
    let by = by.finite().and_then(|by| u64::try_from(by.as_millis()).ok());
    let by = by.ok_or_else(|| Failure::misuse("a clock cannot be moved for ever, expected such as `5m`"))?;
    let time = target.ask(Method::POST, "/$ferrybus/clock/advance", Some(json!({ "by_ms": by }))).await?;
    print(&time, as_json)
}

fn print(time: &Value, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return output::line(time);
    }
    let field = |name: &str| time.get(name).and_then(Value::as_i64);
    let (Some(now), Some(ahead)) = (field("now_ms"), field("ahead_ms")) else {
        return Err(Failure::new(format_args!("the broker's answer cannot be read: {time}")));
    };
    let ahead = std::time::Duration::from_millis(ahead.unsigned_abs());
    output::line(format_args!("{}  ahead {ahead:?}", broker_admin::rfc_3339_millis(now)))
}
