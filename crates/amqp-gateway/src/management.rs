//! `<entity>/$management`: peek, renew, settle by token.
//!
//! Invariant: every request gets one answer, with string keys and the documented types in its body.

mod locks;
mod peek;

use amqp_codec::{
    raw::{RawMap, RawValue},
    types,
};
use broker_auth::Right;
use broker_core::{Command, EntityPath, LockToken, Renewed, Ticket};
use bytes::BytesMut;

use crate::{
    condition::Refusal,
    gateway::Gateway,
    requests::{Caller, NULL, Pending, Reply, Request},
    tickets::SessionNumber,
};

/// What was asked, for the answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    /// `com.microsoft:peek-message`.
    Peek,
    /// `com.microsoft:renew-lock`.
    RenewLocks,
    /// `com.microsoft:update-disposition`.
    UpdateDisposition,
}

impl Gateway {
    /// Takes a request to a management node.
    pub(crate) fn on_management_request(&mut self, request: Request<'_>, path: EntityPath) {
        let name = request.properties.get("operation").and_then(RawValue::as_str).unwrap_or_default();
        let operation = match name.strip_prefix("com.microsoft:") {
            Some("peek-message") => Operation::Peek,
            Some("renew-lock") => Operation::RenewLocks,
            Some("update-disposition") => Operation::UpdateDisposition,
            _ => {
                let refusal = Refusal::UnknownOperation { operation: name.to_owned() };
                return self.reply_refused(&request.caller, &refusal);
            }
        };
        if let Err(refusal) = self.claim(&path, true, Right::Listen) {
            return self.reply_refused(&request.caller, &refusal);
        }
        if operation == Operation::Peek
            && let Err(refusal) = self.room_for_peek(request.caller.session)
        {
            return self.reply_refused(&request.caller, &refusal);
        }
        let body = RawMap::copy_from_slice(request.body.bytes());
        let Ok(body) = body else {
            let what = "the body must be a map".into();
            return self.reply_refused(&request.caller, &Refusal::BadRequest { what });
        };
        let read = match operation {
            Operation::Peek => peek::command(&body, path, self.config.max_peek_bytes),
            Operation::RenewLocks => locks::renew(&body, path),
            Operation::UpdateDisposition => locks::update(&body, path, self.config.max_message_bytes),
        };
        match read {
            Ok(ask) => {
                let ticket = self.await_answer(Pending::Request(Box::new(request.caller), operation));
                self.commands.push(ask(ticket));
            }
            Err(refusal) => self.reply_refused(&request.caller, &refusal),
        }
    }

    /// Answers to `peek-message` are large. So many may be asked for as may wait, and none while the client leaves
    /// unread what it is sent.
    fn room_for_peek(&mut self, session: SessionNumber) -> Result<(), Refusal> {
        let limit = self.config.max_waiting_replies;
        let is_peek = |pending: &&Pending| matches!(pending, Pending::Request(_, Operation::Peek));
        let asked = self.pending.values().filter(is_peek).count();
        let unread = self
            .sessions
            .get_mut(session.0)
            .map_or(0, |session| session.waiting(self.engine.unsent_deliveries(session.id)));
        let unread_max = self.config.deliver_window_bytes.saturating_add(self.config.max_peek_bytes);
        if asked < limit && unread <= unread_max { Ok(()) } else { Err(Refusal::TooManyRequests { limit }) }
    }

    /// Locks have been extended.
    pub(crate) fn on_renewed(&mut self, renewed: &Renewed) {
        if let Some((caller, _)) = self.answered(renewed.ticket) {
            let body = locks::expirations(&renewed.until);
            self.reply_ok(&caller, &body);
        }
    }

    /// Messages have been looked up.
    pub(crate) fn on_peeked(&mut self, ticket: Ticket, messages: &[broker_core::Peeked]) {
        let Some((caller, _)) = self.answered(ticket) else { return };
        if messages.is_empty() {
            let reply = Reply { status: 204, description: "NoContent", condition: None, body: NULL };
            return self.reply(&caller, &reply);
        }
        let body = peek::messages(messages, caller.node.place());
        self.reply_ok(&caller, &body);
    }

    /// A request without a result is done.
    pub(crate) fn on_request_done(&mut self, number: u64) {
        let ticket = crate::tickets::Errand::Request(number).pack();
        if let Some((caller, _)) = self.answered(ticket) {
            self.reply_ok(&caller, RawMap::empty().bytes());
        }
    }

    /// A request is refused by the core.
    pub(crate) fn on_request_refused(&mut self, ticket: Ticket, refusal: &Refusal) {
        if let Some((caller, _)) = self.answered(ticket) {
            self.reply_refused(&caller, refusal);
        }
    }

    fn reply_ok(&mut self, caller: &Caller, body: &[u8]) {
        self.reply(caller, &Reply { status: 200, description: "OK", condition: None, body });
    }
}

/// A command that waits for its ticket.
type Ask = Box<dyn FnOnce(Ticket) -> Command>;

fn bad(what: &'static str) -> Refusal {
    Refusal::BadRequest { what: what.into() }
}

/// The tokens of a request: an array (or list) of uuids.
fn lock_tokens(body: &RawMap) -> Result<Vec<LockToken>, Refusal> {
    let what = "'lock-tokens' must be an array of uuid, with one token at least";
    let items = body.get("lock-tokens").and_then(RawValue::to_items).ok_or_else(|| bad(what))?;
    let token =
        |item: &bytes::Bytes| RawValue::first(item).ok()?.as_uuid().map(u128::from_be_bytes).map(LockToken);
    let tokens: Option<Vec<_>> = items.iter().map(token).collect();
    tokens.filter(|tokens| !tokens.is_empty()).ok_or_else(|| bad(what))
}

/// A map with one entry.
fn one_entry(key: &str, write: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    types::write_map(&mut out, 2, |out| {
        types::write_str(out, key);
        write(out);
    });
    out
}

#[cfg(test)]
mod tests;
