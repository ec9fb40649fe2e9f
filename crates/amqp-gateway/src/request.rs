//! Requests to `$cbs` and management nodes.
//!
//! Invariant: a request is read from its sections in any order, and its answer carries its message-id as correlation-id.

mod audit;
pub(crate) mod cbs;
pub(crate) mod large_replies;
pub(crate) mod management;
pub(crate) mod nodes;
pub(crate) mod operation;
pub(crate) mod reply;

use amqp_codec::{
    performative::TxnId,
    raw::{MapView, RawValue},
    sections::{PropertiesView, Sections},
    types::code,
};
use broker_core::LinkId;
use bytes::Bytes;

use crate::{address::NodeName, condition::Refusal, correlation::SessionNumber};

/// Application property that identifies a request in logs of the client.
const TRACKING_ID: &str = "com.microsoft:tracking-id";

/// Sender of a request, with the route of its reply.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The session the request came on.
    pub(crate) session: SessionNumber,
    pub(crate) node: NodeName,
    /// `properties.reply-to`.
    reply_to: Option<Box<str>>,
    /// `properties.message-id`, encoded.
    message_id: Option<Bytes>,
    /// Application property `com.microsoft:tracking-id`.
    tracking_id: Option<Box<str>>,
    /// Object of the request besides its entity, for the audit log.
    pub(crate) subject: Option<Box<str>>,
    /// The transaction that the request names, and the link it came on.
    pub(crate) transaction: Option<(LinkId, TxnId)>,
}

/// A request, taken apart.
#[derive(Debug)]
struct Request<'a> {
    caller: Caller,
    properties: MapView<'a>,
    /// The value in its body; null when it has none.
    body: RawValue<'a>,
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
        let body = body.map_or_else(|| RawValue::first(&[code::NULL]), |(_, value)| Ok(value));
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

    /// A text among its application properties.
    fn text(&self, name: &str) -> Option<&'a str> {
        self.properties.get(name).and_then(RawValue::as_str)
    }
}
