//! Delays of plain clients: annotations that say when a message may be delivered first.
//!
//! `x-opt-delivery-time` has milliseconds since 1970, `x-opt-delivery-delay` milliseconds from now. Qpid JMS writes the first one,
//! `ActiveMQ` and Artemis read both, and take the first one where a message has both.
//!
//! Invariant: a message that says when it may be delivered is never delivered earlier, or it is refused.

use std::time::Duration;

use amqp_codec::{
    raw::{MapView, RawValue},
    types::Symbol,
};
use broker_core::Timestamp;

use crate::condition::Refusal;

/// Capability of a connection and of a link on which delays are obeyed.
pub(crate) const CAPABILITY: &str = "DELAYED_DELIVERY";
const DELIVERY_TIME: &str = "x-opt-delivery-time";
const DELIVERY_DELAY: &str = "x-opt-delivery-delay";

/// When a message with these annotations may be delivered; `None`: at once.
pub(crate) fn due(annotations: MapView<'_>, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    let said = |name| annotations.get(name).filter(|value| !value.is_null());
    if let Some(time) = said(DELIVERY_TIME) {
        let wanted = "a timestamp or a whole number of milliseconds since 1970, not negative";
        let millis = time.as_timestamp().map_or_else(|| whole(time), not_negative);
        let millis = millis.ok_or(Refusal::BadAnnotation { name: DELIVERY_TIME, wanted })?;
        return Ok(Some(Timestamp::from_millis(millis)));
    }
    let Some(delay) = said(DELIVERY_DELAY) else { return Ok(None) };
    let wanted = "a whole number of milliseconds, not negative";
    let millis = whole(delay).ok_or(Refusal::BadAnnotation { name: DELIVERY_DELAY, wanted })?;
    // Times on the wire are signed.
    let latest = Timestamp::from_millis(i64::MAX.unsigned_abs());
    Ok(Some(now.after(Duration::from_millis(millis)).min(latest)))
}

/// A number of milliseconds in an integer type of any width.
fn whole(value: RawValue<'_>) -> Option<u64> {
    value.as_i64().and_then(not_negative)
}

fn not_negative(millis: i64) -> Option<u64> {
    u64::try_from(millis).ok()
}

/// The capability, where a peer desires it.
pub(crate) fn offered(desired: &[Symbol]) -> Option<Symbol> {
    desired.iter().find(|capability| *capability == CAPABILITY).cloned()
}

#[cfg(test)]
mod tests;
