//! `ferrybus health`: whether the broker can be used, for health checks of containers that have no other client.
//!
//! Invariant: it succeeds only if the broker itself has said that it is ready, or alive.

use hyper::Method;
use serde_json::Value;

use super::{BrokerEndpoint, http::HttpRequest};
use crate::{failure::Failure, output};

/// The path that tells whether the broker lives, takes messages, or can be used at all.
pub(crate) const fn health_path(live: bool, sends: bool) -> &'static str {
    match (live, sends) {
        (true, _) => "/healthz",
        (false, true) => "/readyz/sends",
        (false, false) => "/readyz",
    }
}

/// Asks `path`. A broker that is degraded can be used: the reason is printed, and the command succeeds.
pub(crate) async fn health(target: BrokerEndpoint, path: &str, as_json: bool) -> Result<(), Failure> {
    let reply = target.http().send(HttpRequest::new(Method::GET, path)).await?;
    let said: Option<Value> = serde_json::from_slice(&reply.body).ok();
    let word = |name: &str| said.as_ref().and_then(|said| said.get(name)).and_then(Value::as_str);
    if !reply.status.is_success() {
        let reason = word("reason").map_or_else(|| reply.status.to_string(), str::to_owned);
        return Err(Failure::new(format_args!("{} cannot be used: {reason}", target.place())));
    }
    match word("status") {
        Some(status) if !as_json => match word("reason") {
            Some(reason) => output::line(format_args!("{} is {status}: {reason}", target.place())),
            None => output::line(format_args!("{} is {status}", target.place())),
        },
        Some(_) => output::line(said.as_ref().unwrap_or(&Value::Null)),
        None => Err(Failure::new(format_args!("{}: the answer cannot be read", target.place()))),
    }
}
