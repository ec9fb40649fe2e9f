//! `/healthz`, `/readyz`, `/readyz/sends` and the emulator's `/health`: whether the broker lives, and whether it can be used.
//!
//! Invariant: a good answer is given only when the node has just given one itself; however many ask, the node is asked
//! at most once in [`FRESH`].

use std::time::Duration;

use hyper::{Method, Request, StatusCode, body::Incoming};
use serde_json::json;

use super::{
    answer::{HttpResponse, Refusal, json_answer},
    context::RequestContext,
    core_client,
    probe::HealthProblem,
};
use crate::{clock, node_driver::NodeView};

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
    let ending = HealthProblem::of_shutdown(*context.shared.stop.borrow());
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

async fn look(context: &RequestContext) -> Option<HealthProblem> {
    core_client::look(context).await.map_or_else(Some, |shards| problem_of(&shards))
}

/// That a shard recovers, or the reason for which sends are refused.
fn problem_of(shards: &[Option<NodeView>]) -> Option<HealthProblem> {
    let missing = shards.iter().filter(|node| node.is_none()).count();
    if missing > 0 {
        return Some(HealthProblem::Recovering { others: missing < shards.len() });
    }
    let has = |is_full: fn(&NodeView) -> bool| shards.iter().flatten().any(is_full);
    let disk = has(|node| node.storage_full).then_some(HealthProblem::DiskFull);
    disk.or_else(|| has(|node| node.memory_full).then_some(HealthProblem::MemoryFull))
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
