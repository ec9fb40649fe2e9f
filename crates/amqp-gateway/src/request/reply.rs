//! Replies of nodes, and their route to the client.
//!
//! Invariant: an answer carries its request's message-id, type and value, as correlation-id; an answer that has
//! nowhere to go is dropped. Of the answers of `$cbs`, which anybody may ask, and of those of management nodes one
//! connection keeps no more bytes than each kind may have, and one answer.

use amqp_codec::{
    raw::AnnotationValue,
    sections::{Header, Section},
    types::{self, Symbol},
};
use broker_core::LinkId;
use bytes::{BufMut, Bytes, BytesMut};

use super::{Caller, TRACKING_ID};
use crate::{
    address::NodeName,
    condition::Refusal,
    cx::Cx,
    endpoints::Endpoints,
    link::{LinkKind, detach::Detacher, table::LinkTable},
};

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

/// Sends the replies of nodes to the client of one connection.
#[derive(Debug)]
pub(crate) struct Replier<'a> {
    cx: &'a mut Cx,
    ends: &'a mut Endpoints,
}

impl<'a> Replier<'a> {
    pub(crate) const fn new(cx: &'a mut Cx, ends: &'a mut Endpoints) -> Self {
        Self { cx, ends }
    }

    /// Answers with a refusal.
    pub(crate) fn refuse(&mut self, caller: &Caller, refusal: &Refusal) {
        if let Some((_, name)) = &caller.transaction {
            self.ends.transactions.mark_rollback_only(name, self.cx);
        }
        let description = self.cx.error_text(refusal, caller.node.entity_name());
        let named = refusal.named();
        let condition = Some(named.condition);
        self.reply(caller, Reply { status: named.status, description: &description, condition, body: NULL });
    }

    /// Sends an answer to the link it belongs to.
    pub(crate) fn reply(&mut self, caller: &Caller, reply: Reply<'_>) {
        let Some(id) = reply_link(&self.ends.links, caller) else { return };
        if let Err(refusal) = self.check_unread(&caller.node) {
            return Detacher::new(self.cx, self.ends).detach(id, &refusal);
        }
        let limit = self.cx.config.max_waiting_replies;
        let Some(link) = self.ends.links.get_mut(id) else { return };
        let LinkKind::Reply(replies) = &mut link.kind else { return };
        if replies.waiting() >= limit {
            return Detacher::new(self.cx, self.ends).detach(id, &Refusal::TooManyRequests { limit });
        }
        replies.push(sections(caller, &reply), reply.body);
        replies.send(link.key, self.ends.sessions.get_mut(link.session), self.cx);
    }

    /// Refuses one more answer of a node to a client that leaves too much unread already.
    fn check_unread(&mut self, node: &NodeName) -> Result<(), Refusal> {
        let of_cbs = *node == NodeName::Cbs;
        let config = &self.cx.config;
        let limit = if of_cbs { config.max_unread_cbs_bytes } else { config.max_unread_answer_bytes };
        let mut unread = 0;
        for link in self.ends.links.iter_mut() {
            let LinkKind::Reply(replies) = &mut link.kind else { continue };
            if (*replies.node() == NodeName::Cbs) == of_cbs {
                unread += replies.unread_bytes(self.cx.engine.session(link.key.session()).oldest_unsent());
            }
        }
        if unread <= limit { Ok(()) } else { Err(Refusal::UnreadAnswers { limit }) }
    }
}

/// The link an answer goes to: on the request's session, by the address of the peer's end, else by name, else
/// the latest from the node itself; and where that session has none, by the address on another one, as the older SDK for
/// Java has it.
pub(super) fn reply_link(links: &LinkTable, caller: &Caller) -> Option<LinkId> {
    let mut by_address = None;
    let mut by_name = None;
    let mut by_node = None;
    let mut elsewhere = None;
    for (id, link) in links.iter() {
        let LinkKind::Reply(replies) = &link.kind else { continue };
        let id = Some(id);
        if link.session != caller.session {
            if replies.node().is(&caller.node)
                && caller.reply_to.as_deref().is_some_and(|to| replies.is_at(to))
            {
                elsewhere = id;
            }
            continue;
        }
        if replies.node().is(&caller.node) {
            by_node = id;
        }
        match &caller.reply_to {
            Some(to) if replies.is_at(to) => by_address = id,
            Some(to) if link.name == *to => by_name = id,
            _ => {}
        }
    }
    let names_node = caller.reply_to.as_deref().is_none_or(|to| caller.node.is_named(to));
    by_address.or(by_name).or(if names_node { by_node } else { None }).or(elsewhere)
}

/// Encodes an answer up to the value of its body, which is not copied. `$cbs` spells its keys with hyphens and names no
/// condition, `$management` in camel case.
fn sections(caller: &Caller, reply: &Reply<'_>) -> Bytes {
    let keys = if caller.node == NodeName::Cbs { &CBS_KEYS } else { &MANAGEMENT_KEYS };
    let mut out = BytesMut::with_capacity(256);
    // Every message has a header.
    Header::default().encode(&mut out);
    section(&mut out, Section::Properties);
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
    section(&mut out, Section::ApplicationProperties);
    let condition = reply.condition.map(Symbol::from_static);
    let mut entries = vec![
        (keys.status, AnnotationValue::Int(reply.status)),
        (keys.description, AnnotationValue::Str(reply.description)),
    ];
    if let (Some(key), Some(condition)) = (keys.condition, &condition) {
        entries.push((key, AnnotationValue::Symbol(condition)));
    }
    if let Some(id) = caller.tracking_id.as_deref() {
        entries.push((TRACKING_ID, AnnotationValue::Str(id)));
    }
    types::write_map(&mut out, entries.len() * 2, |out| {
        for (key, value) in &entries {
            types::write_str(out, key);
            value.write(out);
        }
    });
    section(&mut out, Section::AmqpValue);
    out.freeze()
}

fn section(out: &mut BytesMut, section: Section) {
    out.put_slice(&[types::code::DESCRIBED, types::code::SMALL_ULONG, section.code()]);
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
/// An encoded null.
pub(crate) const NULL: Bytes = Bytes::from_static(&[types::code::NULL]);
