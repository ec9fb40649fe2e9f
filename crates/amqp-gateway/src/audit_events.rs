//! Audit events: changes that clients make over AMQP.
//!
//! Invariant: one note for each change that the core has answered or that the client may not ask for, done or refused; none holds a secret or a payload.

use broker_auth::Scope;
use broker_core::{Command, Ticket};

use crate::{
    address,
    correlation::Correlation,
    gateway::Gateway,
    link::NodeName,
    management::Operation,
    requests::{Caller, Pending},
};

/// One change that a client asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditEvent {
    /// Name of the key, user or subject that permitted it, or that did not.
    pub who: Box<str>,
    /// `add-rule`, `remove-rule` or `purge`.
    pub action: &'static str,
    /// The entity, as the client named it.
    pub entity: Box<str>,
    /// The rule, or how many messages are gone.
    pub subject: Option<Box<str>>,
    /// The condition with which it was refused; `None`: it is done.
    pub refused: Option<&'static str>,
}

impl Gateway {
    /// Notes the answer to a request, if it was for a change.
    pub(crate) fn record_audit(
        &mut self,
        caller: &Caller,
        operation: Operation,
        refused: Option<&'static str>,
    ) {
        let action = match operation {
            Operation::AddRule => "add-rule",
            Operation::RemoveRule => "remove-rule",
            Operation::BatchDelete => "purge",
            _ => return,
        };
        let NodeName::Management(path) = &caller.node else { return };
        // SDKs put a token for the node itself, which permits nothing at the entity above it.
        let scope = Scope::of(&address::resource(path, true));
        let who = self.grants.who(&scope, operation.right()).into();
        let (entity, subject) = (caller.node.entity_name().into(), caller.subject.clone());
        self.record.add_change(AuditEvent { who, action, entity, subject, refused });
    }
}

impl Gateway {
    /// Notes what a request turned out to be about, besides its entity.
    pub(crate) fn record_audit_subject(&mut self, ticket: Ticket, command: &Command) {
        if let Some(subject) = subject(command)
            && let Some(Correlation::Request(number)) = Correlation::unpack(ticket)
            && let Some(Pending::Request(caller, _)) = self.pending.get_mut(&number)
        {
            caller.subject = Some(subject);
        }
    }
}

fn subject(command: &Command) -> Option<Box<str>> {
    match command {
        Command::AddRule { rule, .. } => Some(rule.name.clone()),
        Command::RemoveRule { name, .. } => Some(name.clone()),
        _ => None,
    }
}
