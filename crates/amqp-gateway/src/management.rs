//! `<entity>/$management`: peek, renew, settle by token, schedule, receive by number, delete in bulk, rules.
//!
//! Invariant: every request gets one answer, with string keys and the documented types in its body.

mod deferred;
mod delete;
mod locks;
mod peek;
mod rules;
mod schedule;
mod sessions;

use amqp_codec::{
    raw::{RawMap, RawValue},
    types::{self, code},
};
use broker_auth::Right;
use broker_core::{
    Command, EntityPath, Fetched, LockToken, Renewed, SequenceNumber, Stored, StoredRule, Ticket, Timestamp,
};
use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    condition::{NO_SESSION, Refusal},
    correlation::SessionNumber,
    gateway::Gateway,
    message_parse::{ParseOptions, RequiredFields},
    requests::{Caller, NULL, Pending, Reply, Request},
    settlement_rules::Dialect,
};

/// Operation of a request, which its reply needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    /// `com.microsoft:peek-message`.
    Peek,
    /// The same with `omit-message-body`.
    PeekWithoutBody,
    /// `com.microsoft:renew-lock`.
    RenewLocks,
    /// `com.microsoft:update-disposition`.
    UpdateDisposition,
    /// `com.microsoft:schedule-message`.
    Schedule,
    /// `com.microsoft:cancel-scheduled-message`.
    CancelScheduled,
    /// `com.microsoft:receive-by-sequence-number`.
    ReceiveDeferred,
    /// `com.microsoft:batch-delete-messages`.
    BatchDelete,
    /// `com.microsoft:renew-session-lock`.
    RenewSession,
    /// `com.microsoft:get-session-state`.
    GetSessionState,
    /// `com.microsoft:set-session-state`.
    SetSessionState,
    /// `com.microsoft:get-message-sessions`.
    ListSessions,
    /// `com.microsoft:add-rule`.
    AddRule,
    /// `com.microsoft:remove-rule`.
    RemoveRule,
    /// `com.microsoft:enumerate-rules`.
    ListRules,
}

impl Operation {
    /// The operation of a name.
    fn named(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("com.microsoft:")? {
            "peek-message" => Self::Peek,
            "renew-lock" => Self::RenewLocks,
            "update-disposition" => Self::UpdateDisposition,
            "schedule-message" => Self::Schedule,
            "cancel-scheduled-message" => Self::CancelScheduled,
            "receive-by-sequence-number" => Self::ReceiveDeferred,
            "batch-delete-messages" => Self::BatchDelete,
            "renew-session-lock" => Self::RenewSession,
            "get-session-state" => Self::GetSessionState,
            "set-session-state" => Self::SetSessionState,
            "get-message-sessions" => Self::ListSessions,
            "add-rule" => Self::AddRule,
            "remove-rule" => Self::RemoveRule,
            "enumerate-rules" => Self::ListRules,
            _ => return None,
        })
    }

    /// The right that it needs.
    pub(crate) const fn right(self) -> Right {
        match self {
            Self::Schedule | Self::CancelScheduled => Right::Send,
            Self::Peek
            | Self::PeekWithoutBody
            | Self::RenewLocks
            | Self::UpdateDisposition
            | Self::ReceiveDeferred
            | Self::BatchDelete
            | Self::RenewSession
            | Self::GetSessionState
            | Self::SetSessionState
            | Self::ListSessions
            | Self::AddRule
            | Self::RemoveRule
            | Self::ListRules => Right::Listen,
        }
    }

    /// Whether it can be part of a transaction. What cannot is done at once, or refused for itself alone.
    pub(crate) const fn joins_transactions(self) -> bool {
        matches!(
            self,
            Self::UpdateDisposition | Self::Schedule | Self::CancelScheduled | Self::SetSessionState
        )
    }

    /// Whether its answer may be as large as a message, or larger.
    const fn has_large_answer(self) -> bool {
        matches!(self, Self::Peek | Self::PeekWithoutBody | Self::ReceiveDeferred | Self::GetSessionState)
    }
}

impl Gateway {
    /// Takes a request to a management node.
    pub(crate) fn on_management_request(&mut self, mut request: Request<'_>, path: EntityPath) {
        let name = request.properties.get("operation").and_then(RawValue::as_str).unwrap_or_default();
        let Some(operation) = Operation::named(name) else {
            let refusal = Refusal::UnknownOperation { operation: name.to_owned() };
            return self.reply_refused(&request.caller, &refusal);
        };
        let in_transaction = request.caller.transaction.is_some();
        if !operation.joins_transactions() {
            request.caller.transaction = None;
        }
        if let Err(refusal) = self.claim(&path, true, operation.right()) {
            self.record_audit(&request.caller, operation, Some(refusal.named().condition));
            return self.reply_refused(&request.caller, &refusal);
        }
        if operation.has_large_answer()
            && let Err(refusal) = self.room_for(operation, request.caller.session)
        {
            return self.reply_refused(&request.caller, &refusal);
        }
        let body = RawMap::copy_from_slice(request.body.bytes());
        let Ok(body) = body else {
            let what = "the body must be a map".into();
            return self.reply_refused(&request.caller, &Refusal::BadRequest { what });
        };
        let operation = match operation {
            Operation::Peek if peek::omits_body(&body) => Operation::PeekWithoutBody,
            other => other,
        };
        let read = match operation {
            Operation::Peek | Operation::PeekWithoutBody => {
                peek::command(&body, path, self.config.max_peek_bytes)
            }
            Operation::RenewLocks => locks::renew(&body, path),
            Operation::UpdateDisposition => locks::update(&body, path),
            Operation::Schedule => {
                let options = ParseOptions {
                    dialect: Dialect::ServiceBus,
                    utc: self.now.utc,
                    required_fields: RequiredFields::ALL,
                };
                let limit = self.config.max_batch_messages;
                schedule::command(&body, path, options, limit, &mut self.tracking)
            }
            Operation::CancelScheduled => schedule::cancel(&body, path),
            Operation::ReceiveDeferred => deferred::command(&body, path, self.config.max_peek_bytes),
            Operation::BatchDelete => delete::command(&body, path, self.now.utc),
            Operation::RenewSession => sessions::renew(&body, path),
            Operation::GetSessionState => sessions::get_state(&body, path),
            Operation::SetSessionState => sessions::set_state(&body, path),
            Operation::ListSessions => sessions::list(&body, path),
            Operation::AddRule => rules::add(&body, path),
            Operation::RemoveRule => rules::remove(&body, path),
            Operation::ListRules => rules::list(&body, path),
        };
        match read {
            Ok(ask) => self.ask(request.caller, operation, ask, in_transaction),
            Err(refusal) => self.reply_refused(&request.caller, &refusal),
        }
    }

    /// Messages and session states are large. So many may be asked for as may wait; messages are looked up one request
    /// after another, and no state while the client leaves unread what it is sent.
    fn room_for(&mut self, operation: Operation, session: SessionNumber) -> Result<(), Refusal> {
        let limit = self.config.max_waiting_replies;
        let is_large =
            |pending: &&Pending| matches!(pending, Pending::Request(_, it) if it.has_large_answer());
        let asked = self.pending.values().filter(is_large).count();
        if asked >= limit {
            return Err(Refusal::TooManyRequests { limit });
        }
        if operation != Operation::GetSessionState {
            return Ok(());
        }
        let unread = self
            .sessions
            .get_mut(session.0)
            .map_or(0, |session| session.waiting(self.engine.unsent_deliveries(session.id)));
        let unread_max = self.config.deliver_window_bytes.saturating_add(self.config.max_peek_bytes);
        if unread <= unread_max { Ok(()) } else { Err(Refusal::TooManyRequests { limit }) }
    }

    /// Rules have been looked up.
    pub(crate) fn on_rules(&mut self, ticket: Ticket, found: &[StoredRule]) {
        if let Some((caller, _)) = self.answered(ticket) {
            let body = rules::answer(found, self.config.max_peek_bytes);
            self.reply_ok(&caller, body);
        }
    }

    /// An entity or a rule has been made, changed or deleted.
    pub(crate) fn on_entity_done(&mut self, ticket: Ticket) {
        if let Some((caller, operation)) = self.answered(ticket) {
            self.record_audit(&caller, operation, None);
            self.reply_ok(&caller, RawMap::empty().bytes().clone());
        }
    }

    /// Locks have been extended.
    pub(crate) fn on_renewed(&mut self, renewed: &Renewed) {
        if let Some((caller, _)) = self.answered(renewed.ticket) {
            let body = locks::expirations(&renewed.until);
            self.reply_ok(&caller, body);
        }
    }

    /// Messages have been looked up.
    pub(crate) fn on_peeked(&mut self, ticket: Ticket, messages: &[broker_core::Peeked]) {
        let Some((caller, operation)) = self.answered(ticket) else { return };
        if messages.is_empty() {
            let reply = Reply { status: 204, description: "NoContent", condition: None, body: NULL };
            return self.reply(&caller, reply);
        }
        let with_body = operation != Operation::PeekWithoutBody;
        let body = peek::messages(messages, caller.node.entity_name(), with_body);
        self.reply_ok(&caller, body);
    }

    /// Deferred messages have been taken.
    pub(crate) fn on_fetched(&mut self, ticket: Ticket, messages: &[Fetched]) {
        let Some((caller, _)) = self.answered(ticket) else { return };
        let body = deferred::messages(messages, caller.node.entity_name());
        self.reply_ok(&caller, body);
    }

    /// Messages have been scheduled.
    pub(crate) fn on_scheduled(&mut self, ticket: Ticket, sequences: &[SequenceNumber]) {
        let Some((caller, _)) = self.answered(ticket) else { return };
        self.reply_ok(&caller, schedule::sequence_numbers(sequences));
    }

    /// Messages have been deleted.
    pub(crate) fn on_deleted(&mut self, ticket: Ticket, count: u32) {
        let Some((mut caller, operation)) = self.answered(ticket) else { return };
        caller.subject = Some(format!("{count} messages").into());
        self.record_audit(&caller, operation, None);
        let (status, description) = if count == 0 { (204, "NoContent") } else { (200, "OK") };
        let body = delete::count(count).freeze();
        self.reply(&caller, Reply { status, description, condition: None, body });
    }

    /// The lock of a session has been extended.
    pub(crate) fn on_session_renewed(&mut self, ticket: Ticket, until: Timestamp) {
        if let Some((caller, _)) = self.answered(ticket) {
            self.reply_ok(&caller, sessions::expiration(until));
        }
    }

    /// The state of a session has been read.
    pub(crate) fn on_session_state(&mut self, ticket: Ticket, state: Option<&[u8]>) {
        if let Some((caller, _)) = self.answered(ticket) {
            self.reply_ok(&caller, sessions::state(state));
        }
    }

    /// Sessions have been listed.
    pub(crate) fn on_session_list(&mut self, ticket: Ticket, skip: u32, ids: &[Box<str>]) {
        let Some((caller, _)) = self.answered(ticket) else { return };
        if ids.is_empty() {
            let condition = Some(NO_SESSION);
            let reply = Reply { status: 204, description: "NoContent", condition, body: NULL };
            return self.reply(&caller, reply);
        }
        self.reply_ok(&caller, sessions::ids(skip, ids));
    }

    /// A request without a result is done.
    pub(crate) fn on_request_done(&mut self, number: u64) {
        if let Some(Pending::Settle(settlement)) = self.pending.get(&number) {
            let settlement = *settlement;
            self.pending.remove(&number);
            return self.on_enlisted(settlement);
        }
        let ticket = crate::correlation::Correlation::Request(number).pack();
        if let Some((caller, _)) = self.answered(ticket) {
            self.reply_ok(&caller, RawMap::empty().bytes().clone());
        }
    }

    /// A request is refused by the core.
    pub(crate) fn on_request_refused(&mut self, ticket: Ticket, refusal: &Refusal) {
        if let Some((caller, operation)) = self.answered(ticket) {
            self.record_audit(&caller, operation, Some(refusal.named().condition));
            self.reply_refused(&caller, refusal);
        }
    }

    fn reply_ok(&mut self, caller: &Caller, body: impl Into<Bytes>) {
        let body = body.into();
        self.reply(caller, Reply { status: 200, description: "OK", condition: None, body });
    }
}

/// A command that waits for its ticket.
pub(crate) type CommandBuilder = Box<dyn FnOnce(Ticket) -> Command>;

fn bad(what: &'static str) -> Refusal {
    Refusal::BadRequest { what: what.into() }
}

fn out_of_range(field: &'static str, value: i64, allowed: &'static str) -> Refusal {
    Refusal::OutOfRange { field, value, allowed }
}

/// A number of a request that is 1 at least and is cut to `most`.
fn count_of(body: &RawMap, field: &'static str, what: &'static str, most: i64) -> Result<u32, Refusal> {
    let count = body.get(field).and_then(RawValue::as_i64).ok_or_else(|| bad(what))?;
    if count < 1 {
        return Err(out_of_range(field, count, "1 and more"));
    }
    Ok(u32::try_from(count.min(most)).unwrap_or(1))
}

/// The tokens of a request: an array (or list) of uuids.
fn lock_tokens(body: &RawMap) -> Result<Vec<LockToken>, Refusal> {
    let what = "'lock-tokens' must be an array of uuid, with one token at least";
    let items = body.get("lock-tokens").and_then(RawValue::to_items).ok_or_else(|| bad(what))?;
    let token = |item: &Bytes| RawValue::first(item).ok()?.as_uuid().map(u128::from_be_bytes).map(LockToken);
    let tokens: Option<Vec<_>> = items.iter().map(token).collect();
    tokens.filter(|tokens| !tokens.is_empty()).ok_or_else(|| bad(what))
}

/// The `sequence-numbers` of a request: an array (or list) of long.
fn sequence_numbers_of(body: &RawMap) -> Result<Vec<SequenceNumber>, Refusal> {
    let what = "'sequence-numbers' must be an array of long, with one number at least";
    let items = body.get("sequence-numbers").and_then(RawValue::to_items).ok_or_else(|| bad(what))?;
    if items.is_empty() {
        return Err(bad(what));
    }
    let number = |item: &Bytes| {
        let number = RawValue::first(item).ok().and_then(RawValue::as_i64).ok_or_else(|| bad(what))?;
        let range = || out_of_range("sequence-numbers", number, "0 and more");
        u64::try_from(number).map(SequenceNumber).map_err(|_| range())
    };
    items.iter().map(number).collect()
}

/// An array of 64-bit values of one type, as the value of a map's only entry.
fn one_array(key: &str, constructor: u8, values: impl ExactSizeIterator<Item = i64>) -> BytesMut {
    // The request was one message, which holds fewer than 2^29 values.
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    one_entry(key, 0, |out| {
        out.put_u8(code::ARRAY_32);
        out.put_u32(count.saturating_mul(8).saturating_add(5));
        out.put_u32(count);
        out.put_u8(constructor);
        values.for_each(|value| out.put_i64(value));
    })
}

/// A map with one entry.
/// Estimated size of these messages in a reply.
fn bytes_of<'a>(messages: impl Iterator<Item = &'a Stored>) -> usize {
    messages.map(|stored| stored.payload.len() + SECTIONS_BYTES).sum()
}

/// Estimated size of the sections that the broker writes in front of a message, in bytes.
const SECTIONS_BYTES: usize = 512;

/// A map of one entry, whose value has `bytes` bytes or so.
fn one_entry(key: &str, bytes: usize, write: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::with_capacity(bytes);
    types::write_map(&mut out, 2, |out| {
        types::write_str(out, key);
        write(out);
    });
    out
}

#[cfg(test)]
mod tests;
