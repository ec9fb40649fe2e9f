//! Nodes that answer requests: the way of a request to `$cbs` or to a management node, and of the core's answer.
//!
//! Invariant: a request that can be read is accepted, whatever its answer is.

use amqp_codec::performative::DeliveryState;
use amqp_engine::IncomingDelivery;
use broker_core::{Effect, LinkId, Ticket};

use super::{
    Request,
    cbs::{Cbs, CbsNode},
    large_replies::LargeReplies,
    management::ManagementNode,
};
use crate::{
    address::NodeName,
    condition::Refusal,
    cx::Cx,
    endpoints::Endpoints,
    link::{LinkKind, attach::REQUEST_CREDIT, detach::Detacher},
    transaction::inside,
    turn_work,
};

/// The nodes of one connection, and what waits at them.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    pub(super) cbs: Cbs,
    pub(super) large_replies: LargeReplies,
}

impl Nodes {
    /// `$cbs`.
    pub(crate) const fn cbs<'a>(&'a mut self, cx: &'a mut Cx, ends: &'a mut Endpoints) -> CbsNode<'a> {
        CbsNode::new(cx, ends, &mut self.cbs)
    }

    /// Any management node.
    pub(crate) const fn management<'a>(
        &'a mut self,
        cx: &'a mut Cx,
        ends: &'a mut Endpoints,
    ) -> ManagementNode<'a> {
        ManagementNode::new(cx, ends, &mut self.large_replies)
    }

    /// When a token is to be looked at again.
    pub(crate) fn deadline(&self) -> Option<std::time::Instant> {
        self.cbs.deadline()
    }

    /// Asks for the next large reply, where there is room for it.
    pub(crate) fn ask_next(&mut self, cx: &mut Cx, ends: &mut Endpoints) {
        self.large_replies.ask_next(cx, ends);
    }

    /// A request has come on a link to a node.
    pub(crate) fn on_transfer(
        &mut self,
        id: LinkId,
        delivery: &IncomingDelivery,
        cx: &mut Cx,
        ends: &mut Endpoints,
    ) {
        let Some(link) = ends.links.get(id) else { return };
        let LinkKind::Request(node) = &link.kind else { return };
        cx.top_up(link.key, REQUEST_CREDIT);
        cx.work.charge(turn_work::of_request(delivery.payload.len()));
        let (session, node) = (link.session, NodeName::clone(node));
        let mut request = match Request::read(&delivery.payload, session, &node) {
            Ok(request) => request,
            Err(refusal) => {
                ends.transactions.on_work_lost(delivery.state.as_ref(), cx);
                return Detacher::new(cx, ends).detach(id, &refusal);
            }
        };
        let mut state = DeliveryState::Accepted;
        if let Some(DeliveryState::Transactional { txn_id, .. }) = &delivery.state {
            state = inside(txn_id, state);
            request.caller.transaction = Some((id, txn_id.clone()));
        }
        if !delivery.settled {
            ends.sessions.settle_received(cx, session, delivery.delivery_id.0, state);
        }
        match node {
            NodeName::Cbs => self.cbs(cx, ends).on_request(&request),
            NodeName::Management(path) => self.management(cx, ends).on_request(request, path),
        }
    }

    /// The core says what has become of a request.
    pub(crate) fn handle_effect(&mut self, effect: &Effect, cx: &mut Cx, ends: &mut Endpoints) {
        let mut node = self.management(cx, ends);
        match effect {
            Effect::Renewed(renewed) => node.on_renewed(renewed),
            Effect::Peeked { ticket, messages } => node.on_peeked(*ticket, messages),
            Effect::Scheduled { ticket, sequences } => node.on_scheduled(*ticket, sequences),
            Effect::Fetched { ticket, messages } => node.on_fetched(*ticket, messages),
            Effect::Deleted { ticket, count } => node.on_deleted(*ticket, *count),
            Effect::SessionRenewed { ticket, until } => node.on_session_renewed(*ticket, *until),
            Effect::SessionState { ticket, state } => node.on_session_state(*ticket, state.as_deref()),
            Effect::SessionList { ticket, skip, ids } => node.on_session_list(*ticket, *skip, ids),
            Effect::SessionRefused { ticket, error } => {
                node.on_refused(*ticket, &Refusal::Session(error.clone()));
            }
            Effect::Rules { ticket, rules } => node.on_rules(*ticket, rules),
            Effect::RequestRefused { ticket, error } => {
                self.on_refused(*ticket, &Refusal::Entity(error.clone()), cx, ends);
            }
            Effect::EntityDone { ticket } => self.on_entity_done(*ticket, cx, ends),
            // Of links and messages.
            _ => {}
        }
    }

    /// The core has found, made, changed or deleted an entity or a rule.
    fn on_entity_done(&mut self, ticket: Ticket, cx: &mut Cx, ends: &mut Endpoints) {
        if !self.cbs(cx, ends).on_entity_looked_for(ticket, None) {
            self.management(cx, ends).on_entity_done(ticket);
        }
    }

    /// The core has refused a request, or not found an entity.
    fn on_refused(&mut self, ticket: Ticket, refusal: &Refusal, cx: &mut Cx, ends: &mut Endpoints) {
        if !self.cbs(cx, ends).on_entity_looked_for(ticket, Some(refusal)) {
            self.management(cx, ends).on_refused(ticket, refusal);
        }
    }
}
