//! `/healthz`, `/readyz`, `/readyz/sends` and the emulator's `/health`: whether the broker lives, and whether it can be used.
//!
//! Invariant: a good answer is given only when the node has just given one itself; however many ask, the node is asked
//! at most once in [`FRESH`].

use std::time::{Duration, Instant};

use hyper::{Method, Request, StatusCode, body::Incoming};
use serde_json::json;

use super::{
    Visitor,
    answer::{Answer, Refusal, json_answer},
    core,
};
use crate::{clock, stop::Stop};

/// Time within which the node has to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer may be given again.
const FRESH: Duration = Duration::from_millis(250);

/// Why the broker cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum Trouble {
    /// It is ending.
    #[error("the broker is stopping")]
    Stopping,
    /// The node has ended: the journal failed.
    #[error("the journal failed, nothing is accepted until a restart")]
    Ended,
    /// The node does not answer in time.
    #[error("the broker did not answer within {} s", PATIENCE.as_secs())]
    Silent,
    /// Sends are refused.
    #[error("the disk is full, sends are refused")]
    DiskFull,
}

impl Trouble {
    /// Whether it is one that a restart may end.
    const fn is_fatal(self) -> bool {
        matches!(self, Self::Ended | Self::Silent)
    }
}

/// What was found last, and when.
#[derive(Debug, Default)]
pub(crate) struct LastLook(tokio::sync::Mutex<Option<(Instant, Option<Trouble>)>>);

/// Who asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Probe {
    /// Is the process alive?
    Alive,
    /// Can it be used, at least for receiving? A full disk does not count: only receivers can empty it, and a load balancer that
    /// takes the broker out of service would keep new ones away.
    Ready,
    /// Can messages be sent?
    Sends,
    /// The same, in the emulator's words.
    Emulator,
}

/// Answers a probe.
pub(super) async fn health(
    visitor: &Visitor,
    request: &Request<Incoming>,
    probe: Probe,
) -> Result<Answer, Refusal> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refusal::Method { allow: "GET, HEAD" });
    }
    Ok(told(probe, trouble(visitor).await))
}

async fn trouble(visitor: &Visitor) -> Option<Trouble> {
    let ending = ending(visitor);
    if ending.is_some() {
        return ending;
    }
    let mut last = visitor.shared.last_look.0.lock().await;
    if let Some((at, trouble)) = *last
        && clock::instant().saturating_duration_since(at) < FRESH
    {
        return trouble;
    }
    let trouble = look(visitor).await;
    *last = Some((clock::instant(), trouble));
    trouble
}

/// That it ends, and why.
fn ending(visitor: &Visitor) -> Option<Trouble> {
    match *visitor.shared.stop.borrow() {
        Stop::No => None,
        Stop::Asked => Some(Trouble::Stopping),
        Stop::Failed => Some(Trouble::Ended),
    }
}

async fn look(visitor: &Visitor) -> Option<Trouble> {
    match core::look(visitor, PATIENCE).await {
        Some(node) => node.storage_full.then_some(Trouble::DiskFull),
        None => Some(silence(visitor)),
    }
}

/// Why the node has not answered.
pub(super) fn silence(visitor: &Visitor) -> Trouble {
    let ended = visitor.shared.inbox.has_ended();
    ending(visitor).unwrap_or(if ended { Trouble::Ended } else { Trouble::Silent })
}

/// The answer to a probe.
fn told(probe: Probe, trouble: Option<Trouble>) -> Answer {
    let trouble = trouble.filter(|trouble| probe != Probe::Alive || trouble.is_fatal());
    let (status, body) = match (probe, trouble) {
        (Probe::Emulator, None) => (OK, json!({ "status": "healthy", "message": "Service is healthy." })),
        (Probe::Emulator, Some(trouble)) => {
            (UNAVAILABLE, json!({ "status": "unhealthy", "message": trouble.to_string() }))
        }
        (Probe::Alive, None) => (OK, json!({ "status": "alive" })),
        (Probe::Ready | Probe::Sends, None) => (OK, json!({ "status": "ready" })),
        (Probe::Ready, Some(full @ Trouble::DiskFull)) => {
            (OK, json!({ "status": "degraded", "reason": full.to_string() }))
        }
        (Probe::Alive | Probe::Ready | Probe::Sends, Some(trouble)) => {
            (UNAVAILABLE, json!({ "status": "unavailable", "reason": trouble.to_string() }))
        }
    };
    json_answer(status, &body)
}

const OK: StatusCode = StatusCode::OK;
const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

#[cfg(test)]
mod tests;
