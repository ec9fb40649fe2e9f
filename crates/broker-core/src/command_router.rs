//! Which function does what a client asks.
//!
//! Invariant: every command has one place here; those that carry messages and settlements are found first.

use std::collections::BTreeMap;

use crate::{
    Command, DynamicNode, Effect, LockRef, NodeKind, Outcome, Output, Work,
    admin::{
        bulk_deletion::BulkDeletion,
        dynamic::DynamicNodeAdmin,
        entities::EntityAdmin,
        node_kind::{Asker, asked_of, attach_error, publish_error},
        removal::EntityRemoval,
        rules::RuleAdmin,
        snapshot::AdminSnapshot,
        update::EntityUpdates,
    },
    call::Cx,
    deliver::pending_read::{FetchRequest, PeekRequest, PendingRead, ReadRequest},
    link::{
        attachments::{Attachments, ConsumerOptions},
        subscribers::Subscribers,
    },
    namespace::Namespace,
    publish::publisher::Publisher,
    session::requests::SessionRequests,
    settle::settlements::{Settlements, TokenSet},
    transaction::manager::TransactionManager,
};

/// Brings each command to the type that does it.
#[derive(Debug)]
pub(crate) struct CommandRouter<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> CommandRouter<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl CommandRouter<'_> {
    /// Does what carries a message or a settlement without taking it from where it lies: commands are large, and there
    /// are millions of these. Says whether it was one.
    #[inline]
    pub(crate) fn dispatch_in_place(&mut self, cx: &mut Cx<'_, impl Output>, command: &mut Command) -> bool {
        match command {
            Command::Publish { queue, message, ticket } => {
                Publisher::of(&mut self.state.messages).publish(
                    cx,
                    *queue,
                    std::slice::from_ref(message),
                    *ticket,
                );
            }
            Command::Settle { queue, sequence, lock, outcome, ticket } => {
                let outcome = std::mem::replace(outcome, Outcome::Complete);
                let lock = LockRef { queue: *queue, sequence: sequence.0, lock: *lock };
                Settlements::of(self.state).settle(cx, lock, outcome, *ticket);
            }
            _ => return false,
        }
        true
    }

    /// Does any other.
    pub(crate) fn dispatch(&mut self, cx: &mut Cx<'_, impl Output>, mut command: Command) {
        let client = cx.client;
        if self.dispatch_in_place(cx, &mut command) {
            return;
        }
        cx.out.charge(Work::COMMAND.times(command.further_items() as u64));
        match command {
            Command::PublishBatch { queue, messages, ticket } => {
                Publisher::of(&mut self.state.messages).publish(cx, queue, &messages, ticket);
            }
            Command::PublishTo { path, messages, auto_create, ticket } => {
                Publisher::of(&mut self.state.messages).publish_to(cx, &path, &messages, auto_create, ticket);
            }
            Command::PublishVia { path, via, messages, ticket } => {
                Publisher::of(&mut self.state.messages).publish_via(cx, &path, &via, &messages, ticket);
            }
            Command::Credit { consumer, limit, drain } => {
                self.state.links.credit(&mut self.state.messages.entities, cx, consumer, limit, drain);
            }
            Command::ByteBudget { limit, min_bytes } => {
                self.state.links.byte_budget(&mut self.state.messages.entities, client, limit, min_bytes);
            }
            command => self.dispatch_request(cx, command),
        }
    }

    /// The commands of a management node.
    fn dispatch_request(&mut self, cx: &mut Cx<'_, impl Output>, command: Command) {
        match command {
            Command::SettleByToken { path, session, tokens, outcome, ticket } => {
                let which = TokenSet { path: &path, session: session.as_deref(), tokens: &tokens };
                Settlements::of(self.state).settle_by_token(cx, which, &outcome, ticket);
            }
            Command::RenewLocks { path, tokens, ticket } => {
                Settlements::of(self.state).renew_locks(cx, &path, &tokens, ticket);
            }
            Command::Declare { transaction, ticket } => {
                TransactionManager::of(self.state).declare(cx, transaction, ticket);
            }
            Command::Enlist { transaction, command, settled } => {
                TransactionManager::of(self.state).enlist(cx, transaction, *command, settled);
            }
            Command::FailTransaction { transaction } => {
                TransactionManager::of(self.state).fail(cx, transaction);
            }
            Command::Discharge { transaction, fail, ticket } => {
                TransactionManager::of(self.state).discharge(cx, transaction, fail, ticket);
            }
            Command::Peek { path, session, from, count, bytes, ticket } => {
                let request = PeekRequest { path, session, from, count, bytes, found: Vec::new() };
                self.state.pending_reads.push_back(PendingRead {
                    client: cx.client,
                    ticket,
                    disk_waits: 0,
                    request: ReadRequest::Peek(request),
                });
            }
            Command::ReceiveDeferred { path, session, sequences, delete, bytes, ticket } => {
                let kept = BTreeMap::new();
                let request = FetchRequest { path, session, sequences, delete, bytes, kept };
                self.state.pending_reads.push_back(PendingRead {
                    client: cx.client,
                    ticket,
                    disk_waits: 0,
                    request: ReadRequest::Fetch(request),
                });
            }
            Command::Schedule { path, messages, ticket } => {
                Publisher::of(&mut self.state.messages).schedule(cx, &path, &messages, ticket);
            }
            Command::CancelScheduled { path, sequences, ticket } => {
                Publisher::of(&mut self.state.messages).cancel_scheduled(cx, &path, &sequences, ticket);
            }
            Command::DeleteMessages { path, session, count, before, ticket } => {
                BulkDeletion::of(self.state).delete_messages(
                    cx,
                    &path,
                    session.as_deref(),
                    count,
                    before,
                    ticket,
                );
            }
            Command::RenewSession { .. }
            | Command::SetSessionState { .. }
            | Command::GetSessionState { .. }
            | Command::ListSessions { .. } => self.dispatch_session(cx, command),
            command => self.dispatch_link(cx, command),
        }
    }

    /// The commands about sessions.
    fn dispatch_session(&mut self, cx: &mut Cx<'_, impl Output>, command: Command) {
        match command {
            Command::RenewSession { path, session, ticket } => {
                SessionRequests::of(self.state).renew_session(cx, &path, &session, ticket);
            }
            Command::SetSessionState { path, session, state, ticket } => {
                SessionRequests::of(self.state).set_session_state(cx, &path, &session, state, ticket);
            }
            Command::GetSessionState { path, session, looks_on, ticket } => {
                SessionRequests::of(self.state).get_session_state(cx, &path, (&session, looks_on), ticket);
            }
            Command::ListSessions { path, updated_after, after, skip, top, ticket } => {
                let mut requests = SessionRequests::of(self.state);
                requests.list_sessions(cx, &path, updated_after, after.as_deref(), (skip, top), ticket);
            }
            _ => debug_assert!(false, "`dispatch` treats all other commands"),
        }
    }

    /// The commands that open and close things.
    fn dispatch_link(&mut self, cx: &mut Cx<'_, impl Output>, command: Command) {
        let client = cx.client;
        match command {
            Command::OfKind(kind, command) => self.dispatch_of_kind(cx, kind, *command),
            Command::OpenDynamicNode { node, open } => self.open_dynamic_node(cx, &node, *open),
            Command::ReleaseDynamicNode { name } => DynamicNodeAdmin::of(self.state).release(cx, &name),
            Command::Connect => self.state.links.connect(client),
            Command::Disconnect => Attachments::of(self.state).disconnect(cx),
            Command::OpenProducer { producer, path, auto_create } => {
                Attachments::of(self.state).open_producer(cx, producer, &path, auto_create);
            }
            Command::OpenProducerVia { producer, path, via, auto_create } => {
                Attachments::of(self.state).open_producer_via(cx, producer, &path, &via, auto_create);
            }
            Command::OpenConsumer { consumer, path, mode, unsettled, session, auto_create } => {
                let options = ConsumerOptions { session, ..ConsumerOptions::of(mode, unsettled) };
                Attachments::of(self.state).open_consumer(cx, consumer, &path, options, auto_create);
            }
            Command::OpenSubscriber { consumer, path, mode, unsettled, subscriber, auto_create } => {
                let options = ConsumerOptions::of(mode, unsettled);
                Subscribers::of(self.state).open_subscriber(
                    cx,
                    consumer,
                    path,
                    options,
                    *subscriber,
                    auto_create,
                );
            }
            Command::FindSubscriber { link, container, name } => {
                Subscribers::of(self.state).find_subscriber(cx, link, &container, &name);
            }
            Command::Unsubscribe { subscription } => {
                EntityRemoval::of(self.state).unsubscribe(cx, &subscription);
            }
            Command::CloseProducer { producer: link } | Command::CloseConsumer { consumer: link } => {
                Attachments::of(self.state).close_link(cx, client, link);
            }
            Command::LeaveConsumer { consumer: link } => {
                Attachments::of(self.state).leave_link(cx, client, link);
            }
            command => self.dispatch_entity(cx, command),
        }
    }

    /// The commands that create, change and show entities.
    fn dispatch_entity(&mut self, cx: &mut Cx<'_, impl Output>, command: Command) {
        match command {
            Command::CreateEntity { name, kind, settings, ticket } => {
                let done =
                    EntityAdmin::of(&mut self.state.messages).create_entity(cx, &name, kind, *settings);
                cx.answer_request(ticket, done);
            }
            Command::CreateSubscription { name, settings, rules, ticket } => {
                let done = EntityAdmin::of(&mut self.state.messages)
                    .create_subscription(cx, &name, *settings, rules);
                cx.answer_request(ticket, done);
            }
            Command::UpdateEntity { name, settings, expected, ticket } => {
                let done = EntityUpdates::of(self.state).update_entity(cx, &name, *settings, expected);
                cx.answer_request(ticket, done);
            }
            Command::Describe { query, ticket } => {
                let entities = AdminSnapshot::of(&self.state.messages).describe(&query);
                cx.out.charge(Work::LIST_ENTRY.times(entities.len() as u64));
                cx.reply(Effect::Described { ticket, entities });
            }
            Command::FindEntity { path, or_below, auto_create, ticket } => {
                let found = AdminSnapshot::of(&self.state.messages).find_entity(&path, or_below, auto_create);
                cx.answer_request(ticket, found);
            }
            Command::WatchKeys => self.state.messages.entities.keys_watcher = Some(cx.client),
            Command::DeleteEntity { name, expected, ticket } => {
                let done = EntityRemoval::of(self.state).delete_entity(cx, &name, expected);
                cx.answer_request(ticket, done);
            }
            command => self.dispatch_rule(cx, command),
        }
    }

    /// The commands about rules.
    fn dispatch_rule(&mut self, cx: &mut Cx<'_, impl Output>, command: Command) {
        match command {
            Command::AddRule { path, rule, ticket } => {
                let done = RuleAdmin::of(&mut self.state.messages).add_rule(cx, &path, *rule);
                cx.answer_request(ticket, done);
            }
            Command::UpdateRule { path, rule, expected, ticket } => {
                let done = RuleAdmin::of(&mut self.state.messages).update_rule(
                    cx,
                    &path,
                    *rule,
                    expected.as_deref(),
                );
                cx.answer_request(ticket, done);
            }
            Command::RemoveRule { path, name, expected, ticket } => {
                let done = RuleAdmin::of(&mut self.state.messages).remove_rule(
                    &path,
                    &name,
                    expected.as_deref(),
                    cx.out,
                );
                cx.answer_request(ticket, done);
            }
            Command::ShowRule { path, name, ticket } => {
                RuleAdmin::of(&mut self.state.messages).show_rule(cx, &path, &name, ticket);
            }
            Command::ListRules { path, skip, top, ticket } => {
                RuleAdmin::of(&mut self.state.messages).list_rules(cx, &path, skip, top, ticket);
            }
            _ => debug_assert!(false, "`dispatch` treats all other commands"),
        }
    }

    /// Creates a dynamic node and opens a link to it. Where the link is refused there is no node.
    fn open_dynamic_node(&mut self, cx: &mut Cx<'_, impl Output>, node: &DynamicNode, open: Command) {
        let link = match asked_of(&open) {
            Some((Asker::Sender(link) | Asker::Receiver(link) | Asker::Subscriber(link), ..)) => link,
            Some((Asker::Message(_), ..)) | None => {
                debug_assert!(false, "the command opens a link");
                return;
            }
        };
        if let Err(error) = DynamicNodeAdmin::of(self.state).create(cx, node) {
            // The gateway reuses a number only after its link has closed.
            Attachments::of(self.state).close_link(cx, cx.client, link);
            return cx.reply(Effect::AttachRefused { link, error });
        }
        self.dispatch(cx, open);
        DynamicNodeAdmin::of(self.state).delete_without_link(cx, link, node.name());
    }

    /// Does what a command asks of a node of this kind, or answers why not.
    pub(crate) fn dispatch_of_kind(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        kind: NodeKind,
        command: Command,
    ) {
        let refused = asked_of(&command).and_then(|(asker, path, auto_create)| {
            let why = EntityAdmin::of(&mut self.state.messages)
                .meet_kind(cx, kind, asker, path, auto_create)
                .err()?;
            Some((asker, path.clone(), why))
        });
        let Some((asker, path, why)) = refused else { return self.dispatch(cx, command) };
        if let Command::Enlist { transaction, .. } = command {
            // Or the transaction would commit without the message.
            TransactionManager::of(self.state).fail(cx, transaction);
        }
        match asker {
            Asker::Sender(link) | Asker::Receiver(link) | Asker::Subscriber(link) => {
                // The gateway reuses a number only after its link has closed.
                Attachments::of(self.state).close_link(cx, cx.client, link);
                let error = attach_error(path, kind, why);
                cx.reply(Effect::AttachRefused { link, error });
            }
            Asker::Message(ticket) => {
                cx.refuse_publish(ticket, publish_error(path, kind, why));
            }
        }
    }
}
