//! `/healthz`, `/readyz`, `/readyz/sends` and the emulator's `/health`: whether the broker lives, and whether it can be used.
//!
//! Invariant: a good answer is given only when the node has just given one itself; however many ask, the node is asked
//! at most once in [`FRESH`].

use std::{sync::Arc, time::Duration};

use hyper::{Method, Request, StatusCode, body::Incoming};
use serde_json::json;

use super::{
    answer::{HttpResponse, Refusal, json_answer},
    context::RequestContext,
    core_client,
    probe::{HealthProblem, PATIENCE},
};
use crate::{clock, executor::Executor, node_driver::NodeView, shutdown::Shutdown};

/// Time for which an answer is reused.
const FRESH: Duration = Duration::from_millis(250);

/// Kind of a probe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Probe {
    /// Is the process alive?
    Alive,
    /// Can it be used, at least for receiving? A full disk or memory does not count: only receivers can empty it, and a load balancer that
    /// takes the broker out of service would keep new ones away. Nor does one shard that recovers beside others that work.
    Ready,
    /// Can messages be sent?
    Sends,
    /// The same, in the emulator's words.
    Emulator,
}

/// Answers a probe.
pub(super) async fn health(
    context: &RequestContext,
    request: &Request<Incoming>,
    probe: Probe,
) -> Result<HttpResponse, Refusal> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refusal::Method { allow: "GET, HEAD" });
    }
    Ok(health_response(probe, health_problem(context).await))
}

async fn health_problem(context: &RequestContext) -> Option<HealthProblem> {
    let ending = ending(context);
    if ending.is_some() {
        return ending;
    }
    let mut last = context.shared.last_probe.0.lock().await;
    if let Some((at, health_problem)) = *last
        && clock::instant().saturating_duration_since(at) < FRESH
    {
        return health_problem;
    }
    let health_problem = look(context).await;
    *last = Some((clock::instant(), health_problem));
    health_problem
}

/// That it ends, and why.
fn ending(context: &RequestContext) -> Option<HealthProblem> {
    match *context.shared.stop.borrow() {
        Shutdown::No => None,
        Shutdown::Asked => Some(HealthProblem::Stopping),
        Shutdown::Failed => Some(HealthProblem::Ended),
    }
}

async fn look(context: &RequestContext) -> Option<HealthProblem> {
    match core_client::look(context, PATIENCE).await {
        Some(shards) => full(&shards),
        None => Some(silence(context)),
    }
}

/// The reason for which sends are refused.
fn full(shards: &[NodeView]) -> Option<HealthProblem> {
    let disk = shards.iter().any(|node| node.storage_full).then_some(HealthProblem::DiskFull);
    disk.or_else(|| shards.iter().any(|node| node.memory_full).then_some(HealthProblem::MemoryFull))
}

/// Reason why the node has not answered.
pub(super) fn silence(context: &RequestContext) -> HealthProblem {
    ending(context).or_else(|| failure(context.shared.shards.all())).unwrap_or(HealthProblem::Silent)
}

/// That a shard has ended. The server is told of each that does not recover.
fn failure(shards: &[Arc<Executor>]) -> Option<HealthProblem> {
    let ended: Vec<_> = shards.iter().filter(|shard| shard.has_ended()).collect();
    let recovering = HealthProblem::Recovering { others: ended.len() < shards.len() };
    let recovers = ended.iter().all(|shard| shard.has_panicked());
    (!ended.is_empty()).then_some(if recovers { recovering } else { HealthProblem::Ended })
}

/// The answer to a probe.
fn health_response(probe: Probe, health_problem: Option<HealthProblem>) -> HttpResponse {
    let health_problem =
        health_problem.filter(|health_problem| probe != Probe::Alive || health_problem.is_fatal());
    let (status, body) = match (probe, health_problem) {
        (Probe::Emulator, None) => (OK, json!({ "status": "healthy", "message": "Service is healthy." })),
        (Probe::Emulator, Some(health_problem)) => {
            (UNAVAILABLE, json!({ "status": "unhealthy", "message": health_problem.to_string() }))
        }
        (Probe::Alive, None) => (OK, json!({ "status": "alive" })),
        (Probe::Ready | Probe::Sends, None) => (OK, json!({ "status": "ready" })),
        (Probe::Ready, Some(partial)) if partial.is_partial() => {
            (OK, json!({ "status": "degraded", "reason": partial.to_string() }))
        }
        (Probe::Alive | Probe::Ready | Probe::Sends, Some(health_problem)) => {
            (UNAVAILABLE, json!({ "status": "unavailable", "reason": health_problem.to_string() }))
        }
    };
    json_answer(status, &body)
}

const OK: StatusCode = StatusCode::OK;
const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

#[cfg(test)]
mod tests;
