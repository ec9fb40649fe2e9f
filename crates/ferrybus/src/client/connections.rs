//! `ferrybus connection`.
//!
//! Invariant: what is printed as JSON is what the broker answered.

use std::time::Duration;

use broker_admin::rfc_3339_millis;
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::{BrokerEndpoint, http::HttpRequest};
use crate::{
    failure::Failure,
    output,
    property::{human_bytes, human_time},
    table::Table,
};

const PATH: &str = "/$ferrybus/connections";

/// Lists who is connected.
pub(crate) async fn list(target: BrokerEndpoint, as_json: bool) -> Result<(), Failure> {
    let said = target.ask(Method::GET, PATH, None).await?;
    let unreadable = || Failure::new(format_args!("the broker's answer cannot be read: {said}"));
    let all = said.get("connections").and_then(Value::as_array).ok_or_else(unreadable)?;
    if as_json {
        return all.iter().try_for_each(output::line);
    }
    if all.is_empty() {
        output::note("nobody is connected");
    }
    table(all).print()
}

/// Numbers stand last, so that they end in line.
fn table(all: &[Value]) -> Table {
    let titles = &[
        "ID",
        "PEER",
        "TRANSPORT",
        "PROTOCOL",
        "NAMESPACE",
        "USER",
        "CONTAINER",
        "SINCE",
        "SESSIONS",
        "LINKS",
        "UNSETTLED",
        "OLDEST",
        "IN",
        "OUT",
    ];
    let mut table = Table::new(titles, 8);
    for connection in all {
        let text = |name: &str| connection.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
        let number = |name: &str| connection.get(name).and_then(Value::as_u64);
        let shown = |name: &str| number(name).map_or("-".into(), |number| number.to_string());
        let bytes = |name: &str| number(name).map_or("-".into(), human_bytes);
        let since = number("since_ms").and_then(|millis| i64::try_from(millis).ok());
        table.row([
            shown("id"),
            text("peer"),
            text("transport"),
            text("protocol"),
            text("namespace"),
            user(connection),
            text("container_id"),
            since.map_or("-".into(), rfc_3339_millis),
            shown("sessions"),
            shown("links"),
            shown("unsettled"),
            number("oldest_unsettled_seconds")
                .map_or("-".into(), |seconds| human_time(Duration::from_secs(seconds))),
            bytes("bytes_in"),
            bytes("bytes_out"),
        ]);
    }
    table
}

/// Clients of Service Bus log in as nobody and show tokens: what counts is the key that signed them.
fn user(connection: &Value) -> String {
    let keys = connection.get("keys").and_then(Value::as_array);
    let keys: Vec<&str> = keys.into_iter().flatten().filter_map(Value::as_str).collect();
    if keys.is_empty() {
        return connection.get("user").and_then(Value::as_str).unwrap_or("-").to_owned();
    }
    keys.join(",")
}

/// Closes a connection.
pub(crate) async fn close(target: BrokerEndpoint, id: u64, as_json: bool) -> Result<(), Failure> {
    let path = format!("{PATH}/{id}");
    let reply = target.http().send(HttpRequest::new(Method::DELETE, &path)).await?;
    if reply.status == StatusCode::NOT_FOUND {
        return Err(Failure::new(format_args!("there is no connection {id}"))
            .hint("`ferrybus connection list` shows those that there are"));
    }
    let what = format!("cannot close connection {id}");
    if !reply.status.is_success() {
        return Err(reply.failure(&what));
    }
    if as_json {
        let said: Value = serde_json::from_slice(&reply.body)
            .map_err(|_| Failure::new(format_args!("{what}: the answer is not JSON")))?;
        return output::line(said);
    }
    output::line(format_args!("closed connection {id}"))
}

#[cfg(test)]
mod tests;
