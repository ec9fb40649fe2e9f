//! The JSON interface to namespaces, one request each.
//!
//! Invariant: a refusal is told in the broker's own words, with a hint where the cause is plain.

use broker_core::namespace_key;
use hyper::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::{
    client::{
        BrokerEndpoint,
        admin_login::VARIABLE,
        http::{Http, HttpRequest, Reply, changed_meanwhile},
    },
    failure::Failure,
    suggest::suggest,
};

/// The namespaces of one broker.
#[derive(Debug)]
pub(super) struct Interface<'t> {
    http: Http<'t>,
    /// The state of what was read last, for a change of just that.
    etag: Option<String>,
}

/// Outcome of a request to create something.
#[derive(Debug)]
pub(super) enum Written {
    /// It was created; the answer describes it.
    Done(Value),
    /// There is one of that name, and nothing was done.
    Exists,
}

impl<'t> Interface<'t> {
    pub(super) const fn new(target: &'t BrokerEndpoint) -> Self {
        Self { http: target.http(), etag: None }
    }

    /// The description of what is at `path`; `None` where nothing is.
    pub(super) async fn get(&mut self, path: &str, what: &str) -> Result<Option<Value>, Failure> {
        let reply = self.http.send(HttpRequest::new(Method::GET, path)).await?;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let answer = read(&reply, what)?;
        self.etag = reply.etag;
        Ok(Some(answer))
    }

    /// Creates something that must not be there.
    pub(super) async fn put_new(&mut self, path: &str, body: Value, what: &str) -> Result<Written, Failure> {
        let ask = HttpRequest::new(Method::PUT, path).with_body(JSON, body.to_string()).if_new();
        let reply = self.http.send(ask).await?;
        if reply.status == StatusCode::PRECONDITION_FAILED {
            return Ok(Written::Exists);
        }
        read(&reply, what).map(Written::Done)
    }

    /// Replaces the settings of what was read last.
    pub(super) async fn put(&mut self, path: &str, body: Value, what: &str) -> Result<Value, Failure> {
        let ask = HttpRequest::new(Method::PUT, path).with_body(JSON, body.to_string());
        let reply = self.http.send(ask.of_state(self.etag.as_deref())).await?;
        if reply.status == StatusCode::PRECONDITION_FAILED {
            return Err(changed_meanwhile(what));
        }
        read(&reply, what)
    }

    /// Deletes what is at `path`; false where nothing is.
    pub(super) async fn delete(&mut self, path: &str, what: &str) -> Result<bool, Failure> {
        let reply = self.http.send(HttpRequest::new(Method::DELETE, path)).await?;
        match reply.status {
            StatusCode::NOT_FOUND => Ok(false),
            status if status.is_success() => Ok(true),
            _ => Err(refused(&reply, what)),
        }
    }

    /// All namespaces, page by page.
    pub(super) async fn list(&mut self) -> Result<Vec<Value>, Failure> {
        let what = "cannot list the namespaces";
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let path = format!("{ROOT}?top={PAGE}{after}");
            let answer = self.get(&path, what).await?.ok_or_else(|| {
                Failure::new(format_args!("{what}: the broker has no interface for them"))
                    .hint("brokers before namespaces have none")
            })?;
            let page = answer.get("namespaces").and_then(Value::as_array).ok_or_else(|| unreadable(what))?;
            all.extend(page.iter().cloned());
            match answer.get("next").and_then(Value::as_str) {
                // A page without entries cannot be followed by another one.
                Some(next) if !page.is_empty() => after = format!("&after={}", escaped(next)),
                _ => return Ok(all),
            }
        }
    }

    /// The failure to find a namespace, with the name that was probably meant.
    pub(super) async fn missing(&mut self, name: &str) -> Failure {
        let failure = Failure::new(format_args!("there is no {}", label(name)));
        // That the list cannot be had is no more to tell than that the namespace is missing.
        let Ok(all) = self.list().await else { return failure };
        let names = all.iter().filter_map(|namespace| namespace.get("name")?.as_str());
        match suggest(name, names) {
            Some(near) => failure.hint(format_args!("did you mean `{near}`?")),
            None => failure.hint("`ferrybus namespace list` shows those that there are"),
        }
    }
}

fn read(reply: &Reply, what: &str) -> Result<Value, Failure> {
    if !reply.status.is_success() {
        return Err(refused(reply, what));
    }
    serde_json::from_slice(&reply.body).map_err(|_| unreadable(what))
}

fn refused(reply: &Reply, what: &str) -> Failure {
    let failure = Failure::new(format_args!("{what}: {}", reply.error_text()));
    match reply.status {
        StatusCode::UNAUTHORIZED => failure.hint(format_args!(
            "namespaces are an administrator's: check the name and password in `--admin-file` or {VARIABLE}"
        )),
        StatusCode::FORBIDDEN => failure.hint(format_args!(
            "namespaces are an administrator's, an `[[admin]]` of the configuration: `--admin-file` or {VARIABLE} names one"
        )),
        _ => failure,
    }
}

/// The failure of doing `what` for an answer of another form.
pub(super) fn unreadable(what: &str) -> Failure {
    Failure::new(format_args!("{what}: the broker's answer cannot be read"))
}

/// As errors name a namespace.
pub(super) fn label(name: &str) -> String {
    format!("namespace `{name}`")
}

/// Path of a namespace.
pub(super) fn path(name: &str) -> Result<String, Failure> {
    namespace_key(name).map_err(|error| {
        Failure::misuse(format_args!("`{name}` cannot be the name of a namespace: {error}"))
    })?;
    Ok(format!("{ROOT}/{name}"))
}

/// Path of the keys of a namespace.
pub(super) fn keys_path(namespace: &str) -> Result<String, Failure> {
    Ok(format!("{}/keys", path(namespace)?))
}

/// Path of a key of a namespace.
pub(super) fn key_path(namespace: &str, key: &str) -> Result<String, Failure> {
    if key.is_empty() {
        return Err(Failure::misuse("a key needs a name"));
    }
    Ok(format!("{}/{}", keys_path(namespace)?, escaped(key)))
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

const ROOT: &str = "/$ferrybus/namespaces";
const JSON: &str = "application/json";
/// Namespaces in one answer.
const PAGE: usize = 500;
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
