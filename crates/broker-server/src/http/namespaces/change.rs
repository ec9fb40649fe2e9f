//! Changes of namespaces, and the answers of the interface to those that are refused.
//!
//! Invariant: a change that is answered as done is durable.

use std::sync::Arc;

use broker_core::{Effect, NamespaceDefinition, NamespaceError};
use broker_node::NamespaceCommand;
use hyper::{Request, header::IF_NONE_MATCH};

use super::resource::ROOT;
use crate::{
    executor::Executor,
    http::{answer::Refusal, context::RequestContext, core_client::CoreClient},
    namespaces::ServedNamespace,
};

/// Whether the request is only for a name that is not taken.
pub(super) fn is_for_new<B>(request: &Request<B>) -> bool {
    request.headers().get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == b"*")
}

/// Has a namespace that exists changed, and gives its definition.
pub(super) async fn change(
    context: &RequestContext,
    command: NamespaceCommand,
) -> Result<NamespaceDefinition, Refusal> {
    let name = match &command {
        NamespaceCommand::Put { name, .. }
        | NamespaceCommand::PutKey { name, .. }
        | NamespaceCommand::RemoveKey { name, .. }
        | NamespaceCommand::Delete { name } => name.to_string(),
    };
    let executor = Arc::clone(&existing(context, &name)?.executor);
    change_in(context, &executor, command).await
}

pub(super) async fn change_in(
    context: &RequestContext,
    executor: &Arc<Executor>,
    command: NamespaceCommand,
) -> Result<NamespaceDefinition, Refusal> {
    match CoreClient::of_shard(context, executor).change_namespace(command).await? {
        Effect::NamespaceDone { definition, .. } => Ok(*definition),
        Effect::NamespaceRefused { error, .. } => Err(refusal(error)),
        _ => Err(Refusal::Stopping),
    }
}

pub(super) fn refusal(error: NamespaceError) -> Refusal {
    let text = error.to_string();
    match error {
        NamespaceError::Name(_) | NamespaceError::Default => Refusal::Bad(text),
        NamespaceError::NotFound(name) => Refusal::NotFound(format!("{ROOT}/{name}")),
        NamespaceError::NoKey { namespace, key } => {
            Refusal::NotFound(format!("{ROOT}/{namespace}/keys/{key}"))
        }
        NamespaceError::AlreadyExists(_) => Refusal::Precondition(text),
        NamespaceError::Deleting(_) | NamespaceError::Hostname { .. } => Refusal::Conflict(text),
        NamespaceError::Full { .. }
        | NamespaceError::TooManyKeys { .. }
        | NamespaceError::QuotaExceeded(_) => Refusal::Full(text),
    }
}

pub(super) fn existing(context: &RequestContext, name: &str) -> Result<Arc<ServedNamespace>, Refusal> {
    context.shared.namespaces.named(name).ok_or_else(|| Refusal::NotFound(format!("{ROOT}/{name}")))
}

#[cfg(test)]
mod tests;
