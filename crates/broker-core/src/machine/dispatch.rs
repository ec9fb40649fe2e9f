//! Which function does what a client asks.
//!
//! Invariant: every command has one place here; those that carry messages and settlements are found first.

use broker_filter::Filter;

use super::{
    Core,
    deferred::FetchRequest,
    links::How,
    peek::{Lookup, PeekRequest, What},
};
use crate::{ClientId, Command, Effect, Outcome, Output, Timestamp, client::Standing};

impl Core {
    /// Does what carries a message or a settlement without taking it from where it lies: commands are large, and there
    /// are millions of these. Says whether it was one.
    #[inline]
    pub(super) fn dispatch_in_place(
        &mut self,
        now: Timestamp,
        client: ClientId,
        command: &mut Command,
        out: &mut impl Output,
    ) -> bool {
        match command {
            Command::Publish { queue, message, ticket } => {
                self.publish(now, client, *queue, std::slice::from_ref(message), *ticket, out);
            }
            Command::Settle { queue, sequence, lock, outcome, ticket } => {
                let outcome = std::mem::replace(outcome, Outcome::Complete);
                self.settle(now, client, (*queue, *sequence, *lock), outcome, *ticket, out);
            }
            _ => return false,
        }
        true
    }

    /// Does any other.
    pub(super) fn dispatch(
        &mut self,
        now: Timestamp,
        client: ClientId,
        mut command: Command,
        out: &mut impl Output,
    ) {
        if self.dispatch_in_place(now, client, &mut command, out) {
            return;
        }
        match command {
            Command::PublishBatch { queue, messages, ticket } => {
                self.publish(now, client, queue, &messages, ticket, out);
            }
            Command::PublishTo { path, messages, auto_create, ticket } => {
                self.publish_to(now, client, &path, &messages, auto_create, ticket, out);
            }
            Command::PublishThrough { path, through, messages, ticket } => {
                self.publish_through(now, client, &path, &through, &messages, ticket, out);
            }
            Command::Credit { consumer, limit, drain } => self.credit(client, consumer, limit, drain),
            Command::ByteBudget { limit, least } => self.byte_budget(client, limit, least),
            command => self.dispatch_request(now, client, command, out),
        }
    }

    /// The commands of a management node.
    fn dispatch_request(
        &mut self,
        now: Timestamp,
        client: ClientId,
        command: Command,
        out: &mut impl Output,
    ) {
        match command {
            Command::SettleByToken { path, session, tokens, outcome, ticket } => {
                let which = (&path, session.as_deref(), &*tokens);
                self.settle_by_token(now, client, which, &outcome, ticket, out);
            }
            Command::RenewLocks { path, tokens, ticket } => {
                self.renew_locks(now, client, &path, &tokens, ticket, out);
            }
            Command::Declare { transaction, ticket } => self.declare(client, transaction, ticket, out),
            Command::Enlist { transaction, operation } => {
                self.enlist(now, client, transaction, *operation, out);
            }
            Command::Discharge { transaction, fail, ticket } => {
                self.discharge(now, client, transaction, fail, ticket, out);
            }
            Command::Peek { path, session, from, count, bytes, ticket } => {
                let request = PeekRequest { path, session, from, count, bytes };
                self.lookups.push_back(Lookup { client, ticket, what: What::Peek(request) });
            }
            Command::ReceiveDeferred { path, session, sequences, delete, bytes, ticket } => {
                let request = FetchRequest { path, session, sequences, delete, bytes };
                self.lookups.push_back(Lookup { client, ticket, what: What::Fetch(request) });
            }
            Command::Schedule { path, messages, ticket } => {
                self.schedule(now, client, &path, &messages, ticket, out);
            }
            Command::CancelScheduled { path, sequences, ticket } => {
                self.cancel_scheduled(client, &path, &sequences, ticket, out);
            }
            Command::DeleteMessages { path, session, count, before, ticket } => {
                self.delete_messages(client, (&path, session.as_deref()), (count, before), ticket, out);
            }
            Command::RenewSession { .. }
            | Command::SetSessionState { .. }
            | Command::GetSessionState { .. }
            | Command::ListSessions { .. } => self.dispatch_session(now, client, command, out),
            command => self.dispatch_link(now, client, command, out),
        }
    }

    /// The commands about sessions.
    fn dispatch_session(
        &mut self,
        now: Timestamp,
        client: ClientId,
        command: Command,
        out: &mut impl Output,
    ) {
        match command {
            Command::RenewSession { path, session, ticket } => {
                self.renew_session(now, client, &path, &session, ticket, out);
            }
            Command::SetSessionState { path, session, state, ticket } => {
                self.set_session_state(now, client, (&path, &session), state, ticket, out);
            }
            Command::GetSessionState { path, session, ticket } => {
                self.get_session_state(now, client, &path, &session, ticket, out);
            }
            Command::ListSessions { path, updated_after, skip, top, ticket } => {
                self.list_sessions(client, &path, updated_after, (skip, top), ticket, out);
            }
            _ => debug_assert!(false, "`dispatch` treats all other commands"),
        }
    }

    /// The commands that open and close things.
    fn dispatch_link(&mut self, now: Timestamp, client: ClientId, command: Command, out: &mut impl Output) {
        match command {
            Command::OfKind(kind, command) => self.dispatch_of_kind(now, client, kind, *command, out),
            Command::Connect => self.connect(client),
            Command::Disconnect => self.disconnect(now, client, out),
            Command::OpenProducer { producer, path, auto_create } => {
                self.open_producer(now, client, producer, &path, auto_create, out);
            }
            Command::OpenProducerThrough { producer, path, through, auto_create } => {
                self.open_producer_through(now, client, producer, (&path, &through), auto_create, out);
            }
            Command::OpenConsumer { consumer, path, mode, unsettled, session, auto_create } => {
                let how = How { mode, unsettled, session, filter: Filter::True, standing: Standing::Guest };
                self.open_consumer(now, client, consumer, &path, how, auto_create, out);
            }
            Command::OpenSubscriber { consumer, path, mode, unsettled, subscriber, auto_create } => {
                let how = (mode, unsettled);
                self.open_subscriber(now, client, consumer, path, how, *subscriber, auto_create, out);
            }
            Command::FindSubscriber { link, container, name } => {
                self.find_subscriber(client, link, (&container, &name), out);
            }
            Command::Unsubscribe { subscription } => self.unsubscribe(&subscription, out),
            Command::CloseProducer { producer: link } | Command::CloseConsumer { consumer: link } => {
                self.close_link(now, client, link, out);
            }
            Command::CreateEntity { name, kind, settings, ticket } => {
                let done = self.create_entity(now, &name, kind, *settings, out);
                self.answer_request(client, ticket, done, out);
            }
            Command::CreateSubscription { name, settings, rules, ticket } => {
                let done = self.create_subscription(now, &name, *settings, rules, out);
                self.answer_request(client, ticket, done, out);
            }
            Command::AddRule { path, rule, ticket } => {
                let done = self.add_rule(now, &path, *rule, out);
                self.answer_request(client, ticket, done, out);
            }
            Command::UpdateRule { path, rule, expected, ticket } => {
                let done = self.update_rule(now, &path, *rule, expected.as_deref(), out);
                self.answer_request(client, ticket, done, out);
            }
            Command::RemoveRule { path, name, expected, ticket } => {
                let done = self.remove_rule(&path, &name, expected.as_deref(), out);
                self.answer_request(client, ticket, done, out);
            }
            Command::ShowRule { path, name, ticket } => self.show_rule(client, &path, &name, ticket, out),
            Command::ListRules { path, skip, top, ticket } => {
                self.list_rules(client, &path, (skip, top), ticket, out);
            }
            Command::UpdateEntity { name, settings, expected, ticket } => {
                let done = self.update_entity(now, &name, *settings, expected, out);
                self.answer_request(client, ticket, done, out);
            }
            Command::Describe { look, ticket } => {
                let entities = self.describe(&look);
                self.merge.effect(client, Effect::Described { ticket, entities }, out);
            }
            Command::FindEntity { path, or_below, auto_create, ticket } => {
                let found = self.find_entity(&path, or_below, auto_create);
                self.answer_request(client, ticket, found, out);
            }
            Command::WatchKeys => self.keys_watcher = Some(client),
            Command::DeleteEntity { name, expected, ticket } => {
                let done = self.delete_entity(&name, expected, out);
                self.answer_request(client, ticket, done, out);
            }
            _ => debug_assert!(false, "`dispatch` treats all other commands"),
        }
    }
}
