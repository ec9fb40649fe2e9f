//! Attach of a link to a dynamic node, which the attach asks for.
//!
//! Invariant: a node is asked for only by a client with the right to have dynamic nodes, and within the limits of its connection and
//! of the broker.

use amqp_codec::{performative::Attach, types::Role};
use amqp_engine::LinkKey;
use broker_auth::{Right, Scope};
use broker_core::{AttachError, EntityPath, SubQueue, is_dynamic_name};

use super::attach::{Attacher, OpeningNode};
use crate::{
    condition::Refusal,
    dialect::Dialect,
    dynamic::{refusal::DynamicRefusal, request::DynamicRequest},
};

impl Attacher<'_> {
    /// The peer asks for a node and a link to it.
    pub(super) fn attach_dynamic(
        &mut self,
        key: LinkKey,
        mut attach: Box<Attach>,
        dialect: Dialect,
    ) -> Result<(), Refusal> {
        let request = DynamicRequest::of(&attach)?;
        let claim = self.cx.client.claim_dynamic(self.cx.now.unix_seconds())?;
        let pool = &self.cx.config.dynamic_nodes;
        let limit = pool.connection_limit();
        if self.ends.dynamic_nodes.len() >= limit {
            return Err(Refusal::Dynamic(DynamicRefusal::ConnectionLimit { limit }));
        }
        let limit = pool.limit();
        let permit = pool.take().ok_or(Refusal::Dynamic(DynamicRefusal::BrokerLimit { limit }))?;
        let chance = pool.chance(self.cx.tracking.client(), self.ends.dynamic_nodes.next_number());
        let node = request.node(chance);
        request.grant(&mut attach, node.name());
        let path = EntityPath { entity: node.name().into(), sub_queue: SubQueue::Main };
        let (name, creator) = (Box::from(node.name()), (Box::from(attach.name.as_str()), attach.role));
        let opening = Some(OpeningNode { node, claim });
        let link = match attach.role {
            Role::Sender => self.attach_sender(key, attach, dialect, Some(path), opening)?,
            Role::Receiver => self.attach_receiver(key, attach, dialect, path, opening)?,
        };
        self.ends.dynamic_nodes.insert(name, link, creator, permit);
        Ok(())
    }

    /// The right by which the peer may send to an entity or receive from it. For its own dynamic nodes that is the right to
    /// have them.
    pub(super) fn claim_entity(&self, path: &EntityPath, right: Right) -> Result<(Scope, Right), Refusal> {
        if self.ends.dynamic_nodes.owns(&path.entity)
            && let Ok(claim) = self.cx.client.claim_dynamic(self.cx.now.unix_seconds())
        {
            return Ok(claim);
        }
        self.cx.claim(path, false, right)
    }

    /// Refuses requests about a dynamic node of another connection, which could read its messages.
    pub(super) fn check_managed(&self, path: &EntityPath) -> Result<(), Refusal> {
        if is_dynamic_name(&path.entity) && !self.ends.dynamic_nodes.owns(&path.entity) {
            return Err(Refusal::Attach(AttachError::NotOwner(path.entity.clone())));
        }
        Ok(())
    }
}
