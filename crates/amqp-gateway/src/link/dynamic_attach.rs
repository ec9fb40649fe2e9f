//! Attach of a link to a dynamic node, which the attach asks for.
//!
//! Invariant: a node is asked for only by a client with the right to have dynamic nodes, and within the limits of its connection and
//! of the broker.

use std::sync::Arc;

use amqp_codec::performative::Attach;
use broker_auth::{Right, Scope};
use broker_core::{AttachError, DynamicNode, EntityPath, SubQueue, is_dynamic_name};

use crate::{
    condition::Refusal,
    cx::Cx,
    dynamic::{
        pool::{DynamicNodePermit, DynamicNodePool},
        refusal::DynamicRefusal,
        request::DynamicRequest,
        table::DynamicNodeTable,
    },
};

/// A dynamic node that is to be created for a link, and the right by which the peer has it.
pub(super) struct OpeningNode {
    pub(super) node: DynamicNode,
    pub(super) claim: (Scope, Right),
}

impl OpeningNode {
    /// The node that the attach asks for. The attach has its name from now on, as the reply will.
    pub(super) fn of(
        cx: &Cx,
        nodes: &mut DynamicNodeTable,
        attach: &mut Attach,
    ) -> Result<(Self, DynamicNodePermit), Refusal> {
        let claim = cx.client.claim_dynamic(cx.now.unix_seconds())?;
        let request = DynamicRequest::of(attach)?;
        let pool = &cx.config.dynamic_nodes;
        let permit = permit(pool, nodes).map_err(|refusal| {
            pool.note_refused();
            Refusal::Dynamic(refusal)
        })?;
        let chance = pool.chance(cx.tracking.client(), nodes.next_number());
        let node = request.node(chance);
        request.grant(attach, node.name());
        Ok((Self { node, claim }, permit))
    }

    /// Address of the node.
    pub(super) fn path(&self) -> EntityPath {
        EntityPath { entity: self.node.name().into(), sub_queue: SubQueue::Main }
    }
}

/// A permit for one node more of a connection.
fn permit(
    pool: &Arc<DynamicNodePool>,
    nodes: &DynamicNodeTable,
) -> Result<DynamicNodePermit, DynamicRefusal> {
    let limit = pool.connection_limit();
    if nodes.len() >= limit {
        return Err(DynamicRefusal::ConnectionLimit { limit });
    }
    pool.take().ok_or(DynamicRefusal::BrokerLimit { limit: pool.limit() })
}

/// The right by which the peer may send to an entity or receive from it. For its own dynamic nodes that is the right to have
/// them.
pub(super) fn claim_entity(
    cx: &Cx,
    nodes: &DynamicNodeTable,
    path: &EntityPath,
    right: Right,
) -> Result<(Scope, Right), Refusal> {
    if nodes.owns(&path.entity)
        && let Ok(claim) = cx.client.claim_dynamic(cx.now.unix_seconds())
    {
        return Ok(claim);
    }
    cx.claim(path, false, right)
}

/// Refuses requests about a dynamic node of another connection, which could read its messages.
pub(super) fn check_managed(nodes: &DynamicNodeTable, path: &EntityPath) -> Result<(), Refusal> {
    if is_dynamic_name(&path.entity) && !nodes.owns(&path.entity) {
        return Err(Refusal::Attach(AttachError::NotOwner(path.entity.clone())));
    }
    Ok(())
}
