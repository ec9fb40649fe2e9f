//! `<entity>/$management`: peek, renew, settle by token, schedule, receive by number, delete in bulk, rules.
//!
//! Invariant: every request gets one answer, with string keys and the documented types in its body.

mod body;
mod deferred;
mod delete;
mod locks;
mod peek;
mod rules;
mod schedule;
mod sessions;

use amqp_codec::raw::RawMap;
use broker_core::{
    Command, EntityPath, Fetched, Peeked, Renewed, SequenceNumber, StoredRule, Ticket, Timestamp,
};
use bytes::Bytes;

use self::body::CommandBuilder;
use super::{
    Caller, Request,
    audit::{event, subject},
    large_replies::LargeReplies,
    operation::Operation,
    reply::{NULL, Replier, Reply},
};
use crate::{
    condition::{NO_SESSION, Refusal},
    correlation::{Correlation, SessionNumber},
    cx::Cx,
    dialect::Dialect,
    endpoints::Endpoints,
    pending::Pending,
    transfer::message_parse::{ParseOptions, RequiredFields},
    turn_work,
};

/// Application property with the name of the link that a request is about.
const ASSOCIATED_LINK: &str = "associated-link-name";

/// Handles the requests to the management nodes of one connection.
#[derive(Debug)]
pub(crate) struct ManagementNode<'a> {
    cx: &'a mut Cx,
    ends: &'a mut Endpoints,
    large: &'a mut LargeReplies,
}

impl<'a> ManagementNode<'a> {
    pub(super) const fn new(cx: &'a mut Cx, ends: &'a mut Endpoints, large: &'a mut LargeReplies) -> Self {
        Self { cx, ends, large }
    }

    /// Takes a request to a management node.
    pub(super) fn on_request(&mut self, mut request: Request<'_>, path: EntityPath) {
        let name = request.text("operation").unwrap_or_default();
        let Some(operation) = Operation::named(name) else {
            let refusal = Refusal::UnknownOperation { operation: name.to_owned() };
            return self.refuse(&request.caller, &refusal);
        };
        let in_transaction = request.caller.transaction.is_some();
        if !operation.joins_transactions() {
            request.caller.transaction = None;
        }
        if let Err(refusal) = self.cx.claim(&path, true, operation.right()) {
            self.audit(&request.caller, operation, Some(refusal.named().condition));
            return self.refuse(&request.caller, &refusal);
        }
        if operation.has_large_answer()
            && let Err(refusal) = self.room_for(operation, request.caller.session)
        {
            return self.refuse(&request.caller, &refusal);
        }
        let body = RawMap::copy_from_slice(request.body.bytes());
        let Ok(body) = body else {
            let what = "the body must be a map".into();
            return self.refuse(&request.caller, &Refusal::BadRequest { what });
        };
        let operation = match operation {
            Operation::Peek if peek::omits_body(&body) => Operation::PeekWithoutBody,
            other => other,
        };
        match self.read(&request, operation, &body, path) {
            Ok(ask) => self.ask(request.caller, operation, ask, in_transaction),
            Err(refusal) => self.refuse(&request.caller, &refusal),
        }
    }

    /// The command of a request.
    fn read(
        &mut self,
        request: &Request<'_>,
        operation: Operation,
        body: &RawMap,
        path: EntityPath,
    ) -> Result<CommandBuilder, Refusal> {
        let session = if operation.is_of_session() { self.session_of(request, body, &path)? } else { None };
        let config = &self.cx.config;
        match operation {
            Operation::Peek | Operation::PeekWithoutBody => {
                peek::command(body, path, session, config.max_peek_bytes)
            }
            Operation::RenewLocks => locks::renew(body, path),
            Operation::UpdateDisposition => locks::update(body, path, session),
            Operation::Schedule => {
                let options = ParseOptions {
                    dialect: Dialect::ServiceBus,
                    utc: self.cx.now.utc,
                    required_fields: RequiredFields::ALL,
                };
                let limit = config.max_batch_messages;
                schedule::command(body, path, options, limit, &mut self.cx.tracking)
            }
            Operation::CancelScheduled => schedule::cancel(body, path),
            Operation::ReceiveDeferred => deferred::command(body, path, session, config.max_deferred_bytes),
            Operation::BatchDelete => delete::command(body, path, session, self.cx.now.utc),
            Operation::RenewSession => sessions::renew(path, session),
            Operation::GetSessionState => {
                let link = request.text(ASSOCIATED_LINK);
                let looks_on = link.is_some_and(|link| self.ends.links.looks_on(link, &path));
                sessions::get_state(path, session, looks_on)
            }
            Operation::SetSessionState => sessions::set_state(body, path, session),
            Operation::ListSessions => sessions::list(body, path),
            Operation::AddRule => rules::add(body, path, &mut self.cx.work),
            Operation::RemoveRule => rules::remove(body, path),
            Operation::ListRules => rules::list(body, path),
        }
    }

    /// The session of a request: the one that its body names, or else that of the receiver which it names. The SDK for Go
    /// names the session in no request for deferred messages, and in no peek.
    fn session_of(
        &mut self,
        request: &Request<'_>,
        body: &RawMap,
        path: &EntityPath,
    ) -> Result<Option<Box<str>>, Refusal> {
        if let Some(named) = sessions::session_id(body)? {
            return Ok(Some(named));
        }
        let Some(link) = request.text(ASSOCIATED_LINK) else { return Ok(None) };
        self.cx.work.charge(turn_work::of_links(self.ends.links.len()));
        Ok(self.ends.links.session_of(link, path).map(Box::from))
    }

    /// Gives a request to the core, as part of the transaction that it names if it can be one. What cannot is done at
    /// once, but that which takes messages away is refused in a transaction: a rollback would not bring them back.
    fn ask(&mut self, caller: Caller, operation: Operation, ask: CommandBuilder, in_transaction: bool) {
        let transaction = caller.transaction.clone();
        let entity = caller.node.entity_name().to_owned();
        let ticket = self.ends.pending.add(Pending::Request(Box::new(caller), operation));
        let command = ask(ticket);
        if let Some(subject) = subject(&command)
            && let Some(caller) = self.ends.pending.caller_mut(ticket)
        {
            caller.subject = Some(subject);
        }
        let takes_away =
            matches!(command, Command::ReceiveDeferred { delete: true, .. } | Command::DeleteMessages { .. });
        if in_transaction && takes_away {
            return self.on_refused(ticket, &Refusal::NotInTransaction);
        }
        let Some((link, name)) = transaction else { return self.give(command) };
        let joins = matches!(
            command,
            Command::SettleByToken { .. }
                | Command::Schedule { .. }
                | Command::CancelScheduled { .. }
                | Command::SetSessionState { .. }
        );
        if !joins {
            return self.give(command);
        }
        let link = self.ends.links.get(link).ok_or(Refusal::Unexpected);
        match link.and_then(|link| self.ends.transactions.join(&name, link, &entity, self.cx)) {
            Ok(transaction) => self.cx.commands.push(command.within(transaction)),
            Err(refusal) => self.on_refused(ticket, &refusal),
        }
    }

    /// Gives the core what a request asks for, when it is its turn.
    fn give(&mut self, command: Command) {
        match command {
            Command::Peek { ticket, .. } | Command::ReceiveDeferred { ticket, .. } => {
                self.large.ask(ticket, command, self.cx, self.ends);
            }
            command => self.cx.commands.push(command),
        }
    }

    /// Messages and session states are large. So many may be asked for as may wait; messages are looked up one request
    /// after another, and no state while the client leaves unread what it is sent.
    fn room_for(&mut self, operation: Operation, session: SessionNumber) -> Result<(), Refusal> {
        let limit = self.cx.config.max_waiting_replies;
        if self.ends.pending.large_requests() >= limit {
            return Err(Refusal::TooManyRequests { limit });
        }
        if operation != Operation::GetSessionState {
            return Ok(());
        }
        let session = self.ends.sessions.get_mut(session);
        let unread = session.map_or(0, |session| session.unsent_bytes(&self.cx.engine));
        let limit = self.cx.config.deliver_window_bytes.saturating_add(self.cx.config.max_peek_bytes);
        if unread <= limit { Ok(()) } else { Err(Refusal::UnreadAnswers { limit }) }
    }

    /// Rules have been looked up.
    pub(crate) fn on_rules(&mut self, ticket: Ticket, found: &[StoredRule]) {
        if let Some((caller, _)) = self.take(ticket) {
            let body = rules::answer(found, self.cx.config.max_peek_bytes);
            self.reply_ok(&caller, body);
        }
    }

    /// An entity or a rule has been made, changed or deleted.
    pub(crate) fn on_entity_done(&mut self, ticket: Ticket) {
        if let Some((caller, operation)) = self.take(ticket) {
            self.audit(&caller, operation, None);
            self.reply_ok(&caller, RawMap::empty().bytes().clone());
        }
    }

    /// Locks have been extended.
    pub(crate) fn on_renewed(&mut self, renewed: &Renewed) {
        if let Some((caller, _)) = self.take(renewed.ticket) {
            let body = locks::expirations(&renewed.until);
            self.reply_ok(&caller, body);
        }
    }

    /// Messages have been looked up.
    pub(crate) fn on_peeked(&mut self, ticket: Ticket, messages: &[Peeked]) {
        let Some((caller, operation)) = self.take(ticket) else { return };
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
        let Some((caller, _)) = self.take(ticket) else { return };
        let body = deferred::messages(messages, caller.node.entity_name());
        self.reply_ok(&caller, body);
    }

    /// Messages have been scheduled.
    pub(crate) fn on_scheduled(&mut self, ticket: Ticket, sequences: &[SequenceNumber]) {
        let Some((caller, _)) = self.take(ticket) else { return };
        self.reply_ok(&caller, schedule::sequence_numbers(sequences));
    }

    /// Messages have been deleted.
    pub(crate) fn on_deleted(&mut self, ticket: Ticket, count: u32) {
        let Some((mut caller, operation)) = self.take(ticket) else { return };
        caller.subject = Some(format!("{count} messages").into());
        self.audit(&caller, operation, None);
        let (status, description) = if count == 0 { (204, "NoContent") } else { (200, "OK") };
        let body = delete::count(count).freeze();
        self.reply(&caller, Reply { status, description, condition: None, body });
    }

    /// The lock of a session has been extended.
    pub(crate) fn on_session_renewed(&mut self, ticket: Ticket, until: Timestamp) {
        if let Some((caller, _)) = self.take(ticket) {
            self.reply_ok(&caller, sessions::expiration(until));
        }
    }

    /// The state of a session has been read.
    pub(crate) fn on_session_state(&mut self, ticket: Ticket, state: Option<&[u8]>) {
        if let Some((caller, _)) = self.take(ticket) {
            self.reply_ok(&caller, sessions::state(state));
        }
    }

    /// Sessions have been listed.
    pub(crate) fn on_session_list(&mut self, ticket: Ticket, skip: u32, ids: &[Box<str>]) {
        let Some((caller, _)) = self.take(ticket) else { return };
        if ids.is_empty() {
            let condition = Some(NO_SESSION);
            let reply = Reply { status: 204, description: "NoContent", condition, body: NULL };
            return self.reply(&caller, reply);
        }
        self.reply_ok(&caller, sessions::ids(skip, ids));
    }

    /// A request without a result is done.
    pub(crate) fn on_done(&mut self, number: u64) {
        let ticket = Correlation::Request(number).pack();
        if let Some((caller, _)) = self.take(ticket) {
            self.reply_ok(&caller, RawMap::empty().bytes().clone());
        }
    }

    /// A request is refused by the core.
    pub(crate) fn on_refused(&mut self, ticket: Ticket, refusal: &Refusal) {
        if let Some((caller, operation)) = self.take(ticket) {
            self.audit(&caller, operation, Some(refusal.named().condition));
            self.refuse(&caller, refusal);
        }
    }

    /// Takes the request that an answer of the core is for.
    fn take(&mut self, ticket: Ticket) -> Option<(Box<Caller>, Operation)> {
        self.large.on_answered(ticket);
        match self.ends.pending.take_of(ticket)? {
            Pending::Request(caller, operation) => Some((caller, operation)),
            Pending::Publish(_) | Pending::Declare(..) | Pending::Discharge(..) | Pending::Settle(_) => None,
        }
    }

    /// Notes the answer to a request, if it was for a change.
    fn audit(&mut self, caller: &Caller, operation: Operation, refused: Option<&'static str>) {
        if let Some(event) = event(self.cx, caller, operation, refused) {
            self.cx.record.add_change(event);
        }
    }

    fn reply(&mut self, caller: &Caller, reply: Reply<'_>) {
        Replier::new(self.cx, self.ends).reply(caller, reply);
    }

    fn refuse(&mut self, caller: &Caller, refusal: &Refusal) {
        Replier::new(self.cx, self.ends).refuse(caller, refusal);
    }

    fn reply_ok(&mut self, caller: &Caller, body: impl Into<Bytes>) {
        let body = body.into();
        self.reply(caller, Reply { status: 200, description: "OK", condition: None, body });
    }
}

#[cfg(test)]
mod tests;
