//! Requests to `$cbs` and management nodes, and the route of their replies.
//!
//! Invariant: an answer carries its request's message-id, type and value, as correlation-id; an answer that has
//! nowhere to go is dropped.

use amqp_codec::{
    performative::{DeliveryState, TxnId},
    raw::{AnnotationValue, MapView, RawValue},
    sections::{PropertiesView, Sections},
    types::{self, DeliveryTag},
};
use amqp_engine::{IncomingDelivery, OutgoingDelivery};
use broker_core::{LinkId, Ticket};
use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    condition::Refusal,
    coordinator::{Control, TrackedSettlement},
    correlation::{Correlation, SessionNumber},
    enlist::inside,
    gateway::Gateway,
    link::{LinkRole, NodeName, TrackedPublish},
    management::Operation,
};

/// Request that waits for an answer of the core.
#[derive(Debug)]
pub(crate) enum Pending {
    Publish(TrackedPublish),
    /// A declaration, and the name that it is to get.
    Declare(Control, u128),
    /// A discharge, the name of what it ends, and whether it is to be rolled back.
    Discharge(Control, u128, bool),
    /// A settlement that joins a transaction.
    Settle(TrackedSettlement),
    Request(Box<Caller>, Operation),
}

/// Sender of a request, with the route of its reply.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The session the request came on.
    pub(crate) session: SessionNumber,
    pub(crate) node: NodeName,
    /// `properties.reply-to`.
    pub(crate) reply_to: Option<Box<str>>,
    /// `properties.message-id`, encoded.
    pub(crate) message_id: Option<Bytes>,
    /// Application property `com.microsoft:tracking-id`.
    pub(crate) tracking_id: Option<Box<str>>,
    /// Object of the request besides its entity, for the audit log.
    pub(crate) subject: Option<Box<str>>,
    /// The transaction that the request names, and the link it came on.
    pub(crate) transaction: Option<(LinkId, TxnId)>,
}

/// A request, taken apart.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) caller: Caller,
    pub(crate) properties: MapView<'a>,
    /// The value in its body; null when it has none.
    pub(crate) body: RawValue<'a>,
}

/// Contents of a reply.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) status: i32,
    /// Description of the status.
    pub(crate) description: &'a str,
    /// The AMQP error condition of a failure.
    pub(crate) condition: Option<&'static str>,
    /// The value of the body, encoded.
    pub(crate) body: Bytes,
}

impl Gateway {
    /// A request has come on a link to a node.
    pub(crate) fn on_request(&mut self, id: LinkId, delivery: &IncomingDelivery) {
        let Some(link) = self.links.get(id.0) else { return };
        let LinkRole::Requests(requests) = &link.role else { return };
        let (session, node) = (link.session, requests.node.clone());
        let mut request = match Request::read(&delivery.payload, session, &node) {
            Ok(request) => request,
            Err(refusal) => {
                self.on_enlisted_work_lost(delivery.state.as_ref());
                return self.detach_link(id, &refusal);
            }
        };
        let mut state = DeliveryState::Accepted;
        if let Some(DeliveryState::Transactional { txn_id, .. }) = &delivery.state {
            state = inside(txn_id, state);
            request.caller.transaction = Some((id, txn_id.clone()));
        }
        if !delivery.settled {
            self.settle_received(session, delivery.delivery_id.0, state);
        }
        match node {
            NodeName::Cbs => self.on_cbs_request(&request),
            NodeName::Management(path) => self.on_management_request(request, path),
        }
    }

    /// Remembers what waits for the core, and gives it a ticket.
    pub(crate) fn await_answer(&mut self, pending: Pending) -> Ticket {
        let (number, ticket) = self.next_ticket();
        self.pending.insert(number, pending);
        ticket
    }

    /// The number of the next request to the core, and its ticket.
    pub(crate) fn next_ticket(&mut self) -> (u64, Ticket) {
        let number = self.next_request;
        self.next_request += 1;
        (number, Correlation::Request(number).pack())
    }

    /// Takes the request that an answer of the core is for.
    pub(crate) fn answered(&mut self, ticket: Ticket) -> Option<(Box<Caller>, Operation)> {
        let Some(Correlation::Request(number)) = Correlation::unpack(ticket) else { return None };
        self.large_replies.done(number);
        match self.pending.remove(&number)? {
            Pending::Request(caller, operation) => Some((caller, operation)),
            Pending::Publish(_) | Pending::Declare(..) | Pending::Discharge(..) | Pending::Settle(_) => None,
        }
    }

    /// Answers with a refusal.
    pub(crate) fn reply_refused(&mut self, caller: &Caller, refusal: &Refusal) {
        if let Some((_, name)) = &caller.transaction {
            self.mark_rollback_only(name);
        }
        let place = caller.node.entity_name().to_owned();
        let description = self.error_text(refusal, &place);
        let named = refusal.named();
        let condition = Some(named.condition);
        self.reply(caller, Reply { status: named.status, description: &description, condition, body: NULL });
    }

    /// Sends an answer to the link it belongs to.
    pub(crate) fn reply(&mut self, caller: &Caller, reply: Reply<'_>) {
        let Some(id) = self.reply_link(caller) else { return };
        if let Err(refusal) = self.check_unread(&caller.node) {
            return self.detach_link(id, &refusal);
        }
        let sections = sections(caller, &reply);
        let most = self.config.max_waiting_replies;
        let Some(link) = self.links.get_mut(id.0) else { return };
        let LinkRole::Replies(replies) = &mut link.role else { return };
        if replies.waiting.len() >= most {
            return self.detach_link(id, &Refusal::TooManyRequests { limit: most });
        }
        replies.unread.wait(sections.len() + reply.body.len());
        replies.waiting.push_back((sections, reply.body));
        self.send_replies(id, false);
    }

    /// The link an answer goes to: on the request's session, by the address of the peer's end, else by name, else
    /// the latest from the node itself.
    pub(crate) fn reply_link(&self, caller: &Caller) -> Option<LinkId> {
        let mut by_address = None;
        let mut by_name = None;
        let mut by_node = None;
        for (number, link) in self.links.iter().filter(|(_, link)| link.session == caller.session) {
            let LinkRole::Replies(replies) = &link.role else { continue };
            let id = Some(LinkId(number));
            if replies.node.is(&caller.node) {
                by_node = id;
            }
            match &caller.reply_to {
                Some(to) if replies.target_address.as_ref() == Some(to) => by_address = id,
                Some(to) if link.name == *to => by_name = id,
                _ => {}
            }
        }
        let names_node = caller.reply_to.as_deref().is_none_or(|to| caller.node.is_named(to));
        by_address.or(by_name).or(if names_node { by_node } else { None })
    }

    /// Sends the answers that have credit.
    pub(crate) fn send_replies(&mut self, id: LinkId, drain: bool) {
        let Some(link) = self.links.get_mut(id.0) else { return };
        let key = link.key;
        let LinkRole::Replies(replies) = &mut link.role else { return };
        while replies.sent < replies.limit
            && let Some((sections, body)) = replies.waiting.pop_front()
        {
            let tag =
                DeliveryTag::try_from(&replies.sent.to_be_bytes()[..]).unwrap_or_else(|_| [0; 16].into());
            let settled = replies.settled;
            let outgoing =
                OutgoingDelivery { settled, given: true, ..OutgoingDelivery::new(tag, sections, body) };
            let size = outgoing.len();
            let id = self.engine.send(key, outgoing);
            replies.unread.give(id, size);
            if id.is_some()
                && let Some(session) = self.sessions.get_mut(link.session.0)
            {
                session.given(size);
            }
            replies.sent += 1;
        }
        if drain {
            replies.sent = replies.limit;
            self.engine.drained(key, replies.limit);
        }
    }
}

impl<'a> Request<'a> {
    /// Takes a request apart. Sections may come in any order: a client of RabbitMQ puts the body first.
    fn read(payload: &'a Bytes, session: SessionNumber, node: &NodeName) -> Result<Self, Refusal> {
        let malformed = |error: &dyn std::fmt::Display| Refusal::Malformed(error.to_string());
        let sections = Sections::scan_tolerant(payload).map_err(|error| malformed(&error))?;
        let view = PropertiesView::new(sections.properties.of(payload)).map_err(|error| malformed(&error))?;
        let properties = MapView::of_section(sections.application_properties.of(payload))
            .map_err(|error| malformed(&error))?;
        let body = sections.body.of(payload);
        let body = RawValue::first(body).ok().and_then(RawValue::described);
        let body = body.map_or_else(|| RawValue::first(&[types::code::NULL]), |(_, value)| Ok(value));
        Ok(Self {
            caller: Caller {
                session,
                node: node.clone(),
                reply_to: view.reply_to().and_then(RawValue::as_str).map(Box::from),
                message_id: view.message_id().map(|id| Bytes::copy_from_slice(id.bytes())),
                tracking_id: properties.get(TRACKING_ID).and_then(RawValue::as_str).map(Box::from),
                subject: None,
                transaction: None,
            },
            properties,
            body: body.map_err(|error| malformed(&error))?,
        })
    }
}

impl NodeName {
    /// The entity or node that error texts name.
    pub(crate) fn entity_name(&self) -> &str {
        match self {
            Self::Cbs => "$cbs",
            Self::Management(path) => &path.entity,
        }
    }

    /// True for an address of this node.
    fn is_named(&self, address: &str) -> bool {
        match crate::address::parse(address) {
            Ok(crate::address::Node::Cbs) => *self == Self::Cbs,
            Ok(crate::address::Node::Management(path)) => self.is(&Self::Management(path)),
            _ => false,
        }
    }
}

/// Encodes an answer up to the value of its body, which is not copied. `$cbs` spells its keys with hyphens and names no condition, `$management` in camel case.
fn sections(caller: &Caller, reply: &Reply<'_>) -> Bytes {
    let keys = if caller.node == NodeName::Cbs { &CBS_KEYS } else { &MANAGEMENT_KEYS };
    let mut out = BytesMut::with_capacity(256);
    section(&mut out, 0x70);
    // Durable, priority, ttl, first-acquirer, delivery-count: every message has a header.
    types::write_list(&mut out, 5, |out| {
        types::write_bool(out, false);
        types::write_null(out);
        types::write_null(out);
        types::write_bool(out, false);
        types::write_uint(out, 0);
    });
    section(&mut out, 0x73);
    types::write_list(&mut out, 6, |out| {
        types::write_null(out);
        types::write_null(out);
        types::write_opt(out, caller.reply_to.as_deref(), types::write_str);
        types::write_null(out);
        types::write_null(out);
        match &caller.message_id {
            Some(id) => out.extend_from_slice(id),
            None => types::write_null(out),
        }
    });
    section(&mut out, 0x74);
    let entries = [
        Some((keys.status, AnnotationValue::Int(reply.status))),
        Some((keys.description, AnnotationValue::Str(reply.description))),
        None,
    ];
    let condition = reply.condition.map(types::Symbol::from_static);
    let condition = keys.condition.zip(condition.as_ref());
    let condition = condition.map(|(key, condition)| (key, AnnotationValue::Symbol(condition)));
    let tracking = caller.tracking_id.as_deref().map(|id| (TRACKING_ID, AnnotationValue::Str(id)));
    let entries: Vec<_> = entries.into_iter().chain([condition, tracking]).flatten().collect();
    types::write_map(&mut out, entries.len() * 2, |out| {
        for (key, value) in &entries {
            types::write_str(out, key);
            value.write(out);
        }
    });
    section(&mut out, 0x77);
    out.freeze()
}

fn section(out: &mut BytesMut, code: u8) {
    out.put_slice(&[types::code::DESCRIBED, types::code::SMALL_ULONG, code]);
}

/// Keys of replies, which `$cbs` and management nodes spell differently.
struct Keys {
    status: &'static str,
    description: &'static str,
    condition: Option<&'static str>,
}

const CBS_KEYS: Keys = Keys { status: "status-code", description: "status-description", condition: None };
const MANAGEMENT_KEYS: Keys =
    Keys { status: "statusCode", description: "statusDescription", condition: Some("errorCondition") };
const TRACKING_ID: &str = "com.microsoft:tracking-id";
/// An encoded null.
pub(crate) const NULL: Bytes = Bytes::from_static(&[types::code::NULL]);
