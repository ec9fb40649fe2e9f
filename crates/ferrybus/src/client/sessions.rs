//! `ferrybus session`.
//!
//! Invariant: a state is read and written under the session's lock, as receivers do it.

use std::{
    fs,
    io::{self, IsTerminal as _, Read as _, Write as _},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fe2o3_amqp_types::{
    messaging::ApplicationProperties,
    primitives::{Binary, OrderedMap, Timestamp, Value},
};
use serde_json::json;

use super::{BrokerEndpoint, address, connect::Client, request::ManagementResponse};
use crate::{arguments::NewState, failure::Failure, output};

/// Lists the sessions of a queue.
pub(crate) async fn list(target: BrokerEndpoint, queue: &str, as_json: bool) -> Result<(), Failure> {
    let queue = address(queue, false);
    let mut client = target.connect(&queue).await?;
    let mut management = client.requester(&format!("{queue}/$management")).await?;
    let mut count: i32 = 0;
    loop {
        let mut question = OrderedMap::new();
        let mut put = |key: &str, value| question.insert(Value::String(key.into()), value);
        put("last-updated-time", Value::Timestamp(Timestamp::from_milliseconds(ANY_TIME)));
        put("skip", Value::Int(count));
        put("top", Value::Int(PAGE));
        let properties = operation("get-message-sessions");
        let answer = management.ask(properties, Value::Map(question)).await?;
        let ids = ids(&answer, &queue)?;
        for id in &ids {
            if as_json {
                output::line(json!({ "session_id": id }))?;
            } else {
                output::line(output::printable(id))?;
            }
        }
        let page = i32::try_from(ids.len()).unwrap_or(i32::MAX);
        count = count.saturating_add(page);
        if page < PAGE {
            break;
        }
    }
    management.close().await;
    client.close().await;
    if count == 0 {
        output::note(format_args!("`{queue}` has no session with messages or a state"));
    }
    Ok(())
}

fn operation(name: &str) -> ApplicationProperties {
    ApplicationProperties::builder().insert("operation", format!("com.microsoft:{name}")).build()
}

fn ids(answer: &ManagementResponse, queue: &str) -> Result<Vec<String>, Failure> {
    if !answer.is_good() {
        return Err(Failure::new(format_args!(
            "cannot list the sessions of `{queue}`: {}",
            answer.error_text()
        )));
    }
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    let Value::Map(map) = &answer.body else { return Ok(Vec::new()) };
    Ok(match map.get(&Value::String("sessions-ids".into())) {
        Some(Value::Array(ids)) => ids.0.iter().filter_map(text).collect(),
        Some(Value::List(ids)) => ids.iter().filter_map(text).collect(),
        _ => Vec::new(),
    })
}

/// Prints the state of a session.
pub(crate) async fn get_state(
    target: BrokerEndpoint,
    queue: &str,
    session: &str,
    as_json: bool,
) -> Result<(), Failure> {
    let queue = address(queue, false);
    let body = vec![("session-id", Value::String(session.into()))];
    let what = format!("cannot get the state of session `{session}`");
    let answer = under_lock(target, &queue, session, ("get-session-state", body), &what).await?;
    let state = match &answer {
        Value::Map(map) => map.get(&Value::String("session-state".into())),
        _ => None,
    };
    let Some(Value::Binary(state)) = state else {
        output::note(format_args!("session `{session}` has no state"));
        return if as_json { output::line(json!({ "state": null })) } else { Ok(()) };
    };
    let text = std::str::from_utf8(state);
    if as_json {
        return output::line(match text {
            Ok(text) => json!({ "state": text }),
            Err(_) => json!({ "state_base64": STANDARD.encode(state) }),
        });
    }
    if io::stdout().is_terminal() {
        return match text {
            Ok(text) => output::line(output::printable(text)),
            Err(_) => output::line(format_args!("<{} bytes>", state.len())),
        };
    }
    let mut out = io::stdout().lock();
    out.write_all(state).and_then(|()| out.flush()).map_err(|error| output::lost(&error))
}

/// Replaces the state of a session.
pub(crate) async fn set_state(
    target: BrokerEndpoint,
    queue: &str,
    session: &str,
    new: &NewState,
    as_json: bool,
) -> Result<(), Failure> {
    let queue = address(queue, false);
    let state = read(new)?;
    let bytes = state.as_ref().map(Vec::len);
    let value = state.map_or(Value::Null, |state| Value::Binary(Binary::from(state)));
    let body = vec![("session-id", Value::String(session.into())), ("session-state", value)];
    let what = format!("cannot set the state of session `{session}`");
    under_lock(target, &queue, session, ("set-session-state", body), &what).await?;
    if as_json {
        return output::line(json!({ "session_id": session, "state_bytes": bytes }));
    }
    match bytes {
        Some(bytes) => output::line(format_args!("set the state of session `{session}`, {bytes} bytes")),
        None => output::line(format_args!("cleared the state of session `{session}`")),
    }
}

fn read(new: &NewState) -> Result<Option<Vec<u8>>, Failure> {
    if new.clear {
        return Ok(None);
    }
    if let Some(text) = &new.body {
        return Ok(Some(text.clone().into_bytes()));
    }
    if let Some(file) = new.file.as_ref().filter(|file| file.as_os_str() != "-") {
        let read = fs::read(file);
        return read
            .map(Some)
            .map_err(|error| Failure::misuse(format_args!("cannot read `{}`: {error}", file.display())));
    }
    let mut bytes = Vec::new();
    let read = io::stdin().read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(format_args!("cannot read standard input: {error}")))?;
    Ok(Some(bytes))
}

/// Asks the management node while this connection holds the session.
async fn under_lock(
    target: BrokerEndpoint,
    queue: &str,
    session: &str,
    (name, body): (&str, Vec<(&str, Value)>),
    what: &str,
) -> Result<Value, Failure> {
    let mut client = target.connect(queue).await?;
    let link = client.session_receiver(queue, session).await?;
    let answer = ask(&mut client, queue, name, body).await;
    drop(tokio::time::timeout(super::connect::GOODBYE, link.close()).await);
    client.close().await;
    let answer = answer?;
    if !answer.is_good() {
        return Err(Failure::new(format_args!("{what}: {}", answer.error_text())));
    }
    Ok(answer.body)
}

async fn ask(
    client: &mut Client,
    queue: &str,
    name: &str,
    body: Vec<(&str, Value)>,
) -> Result<ManagementResponse, Failure> {
    let mut management = client.requester(&format!("{queue}/$management")).await?;
    let body = body.into_iter().map(|(key, value)| (Value::String(key.into()), value)).collect();
    let answer = management.ask(operation(name), Value::Map(body)).await;
    management.close().await;
    answer
}

/// The end of .NET's calendar, which asks for all sessions; in milliseconds since 1970.
const ANY_TIME: i64 = 253_402_300_799_000;
/// Ids in one answer.
const PAGE: i32 = 1_000;
