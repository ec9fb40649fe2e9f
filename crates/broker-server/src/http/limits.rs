//! `GET /$ferrybus/limits`: the limits of all entities, for clients that compare entities with a file.
//!
//! Invariant: shown only to clients that may manage the whole namespace.

use broker_auth::Scope;
use hyper::{Method, Request, StatusCode, body::Incoming};
use serde_json::json;

use super::{
    admin,
    answer::{HttpResponse, Refusal, json_answer},
    context::RequestContext,
    testing::only,
};

/// Answers with the profile and the largest message in bytes.
pub(super) fn limits(context: &RequestContext, request: &Request<Incoming>) -> Result<HttpResponse, Refusal> {
    only(request.method(), &Method::GET, "GET")?;
    admin::admit(context, request.headers(), &Scope::namespace())?;
    let (profile, bytes) = (context.shared.profile.name(), context.shared.gateway.max_message_bytes);
    Ok(json_answer(StatusCode::OK, &json!({ "profile": profile, "max_message_bytes": bytes })))
}
