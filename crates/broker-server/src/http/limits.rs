//! `GET /$ferrybus/limits`: what bounds all entities, for who compares them with a file.
//!
//! Invariant: shown to who may manage the whole namespace, and to nobody else.

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
