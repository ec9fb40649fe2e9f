//! Audit of changes that clients make over AMQP.
//!
//! Invariant: one event for each change that the core has answered or that the client may not ask for, done or refused;
//! none holds a secret or a payload.

use broker_auth::Scope;
use broker_core::Command;

use super::{Caller, operation::Operation};
use crate::{
    address::{self, NodeName},
    connection::record::AuditEvent,
    cx::Cx,
};

/// The event of an answer, if the request was for a change.
pub(super) fn event(
    cx: &Cx,
    caller: &Caller,
    operation: Operation,
    refused: Option<&'static str>,
) -> Option<AuditEvent> {
    let action = match operation {
        Operation::AddRule => "add-rule",
        Operation::RemoveRule => "remove-rule",
        Operation::BatchDelete => "purge",
        _ => return None,
    };
    let NodeName::Management(path) = &caller.node else { return None };
    // SDKs put a token for the node itself, which permits nothing at the entity above it.
    let scope = Scope::of_name(&address::resource(path, true));
    let who = cx.client.grants().who(&scope, operation.right()).into();
    let namespace = cx.record.namespace().into();
    let (entity, subject) = (caller.node.entity_name().into(), caller.subject.clone());
    Some(AuditEvent { namespace, who, action, entity, subject, refused })
}

/// Object of a command besides its entity.
pub(super) fn subject(command: &Command) -> Option<Box<str>> {
    match command {
        Command::AddRule { rule, .. } => Some(rule.name.clone()),
        Command::RemoveRule { name, .. } => Some(name.clone()),
        _ => None,
    }
}
