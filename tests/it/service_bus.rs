//! What every Service Bus SDK does, in the dialect of each.

use amqp_codec::{
    message::{BATCH_FORMAT, MessageBuilder},
    performative::{Attach, DeliveryState, Disposition, Modified, Open, Performative, Source, Target},
    raw::{AnnotationValue, RawMap, RawValue},
    sections::PropertyField,
    types::{Kind, ReceiverSettleMode, Role, SenderSettleMode},
};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, Secret, sign_token};
use testkit::Script;

use crate::{
    broker::{Broker, QUEUE},
    client::{Client, tag},
    message::{Delivery, batch, message, peek, renewal, update},
};

/// Settle modes of an attach.
pub(crate) type Modes = (Option<SenderSettleMode>, Option<ReceiverSettleMode>);

/// How one SDK says what all say.
pub(crate) struct Dialect {
    /// SASL mechanism and initial response.
    pub(crate) sasl: (&'static str, Option<&'static [u8]>),
    pub(crate) open: fn() -> Open,
    /// The address of an entity's links.
    pub(crate) address: fn(&str) -> String,
    /// The scheme of the audiences of tokens.
    pub(crate) audience: &'static str,
    pub(crate) expiration: AnnotationValue<'static>,
    /// Message-ids of requests.
    pub(crate) message_id: AnnotationValue<'static>,
    /// The target address of the reply link of a node, which requests name as `reply-to`.
    pub(crate) reply_to: fn(&str) -> String,
    /// Requests are sent settled, with an empty tag.
    pub(crate) settled_requests: bool,
    /// Modes of links to `$cbs` and management nodes.
    pub(crate) requests: Modes,
    /// Modes of links from them.
    pub(crate) replies: Modes,
    pub(crate) sending: Modes,
    pub(crate) locking: Modes,
    pub(crate) deleting: Modes,
    /// Properties of attaches.
    pub(crate) properties: fn() -> Option<RawMap>,
    /// `com.microsoft:server-timeout`.
    pub(crate) server_timeout: AnnotationValue<'static>,
    pub(crate) abandon: fn() -> DeliveryState,
    pub(crate) defer: fn() -> DeliveryState,
    /// With the reason `broken` and the description `cannot be read`.
    pub(crate) dead_letter: fn() -> DeliveryState,
}

const CBS_OUT: u32 = 0;
const CBS_IN: u32 = 1;
const SENDER: u32 = 2;
const RECEIVER: u32 = 3;
const REQUESTS: u32 = 4;
const REPLIES: u32 = 5;

/// A modified state, for a dialect.
pub(crate) fn modified(delivery_failed: Option<bool>, undeliverable_here: Option<bool>) -> DeliveryState {
    DeliveryState::Modified(Box::new(Modified {
        delivery_failed,
        undeliverable_here,
        message_annotations: None,
    }))
}

/// The names of a dead-letter error's info, as symbols or as strings.
pub(crate) fn dead_letter(symbols: bool) -> DeliveryState {
    let entries = [
        ("DeadLetterReason", AnnotationValue::Str("broken")),
        ("DeadLetterErrorDescription", AnnotationValue::Str("cannot be read")),
    ];
    let info = if symbols { RawMap::with_symbol_keys(&entries) } else { RawMap::with_string_keys(&entries) };
    DeliveryState::Rejected(Some(Box::new(amqp_codec::performative::Error {
        condition: "com.microsoft:dead-letter".into(),
        description: None,
        info: Some(info),
    })))
}

/// A connected SDK.
pub(crate) struct Sdk<'d> {
    pub(crate) client: Client,
    dialect: &'d Dialect,
    next_channel: u16,
}

impl<'d> Sdk<'d> {
    /// Connects and opens the `$cbs` links on a session of their own.
    pub(crate) fn connect(broker: &Broker, dialect: &'d Dialect) -> Self {
        let (mechanism, response) = dialect.sasl;
        let client = Client::connect(broker.address, mechanism, response, (dialect.open)());
        let mut sdk = Self { client, dialect, next_channel: 0 };
        let channel = sdk.session();
        sdk.pair(channel, "$cbs", CBS_OUT, CBS_IN);
        sdk
    }

    /// A new session and its channel.
    pub(crate) fn session(&mut self) -> u16 {
        let channel = self.next_channel;
        self.next_channel += 1;
        self.client.begin(channel);
        channel
    }

    /// Attaches, and demands that modes and addresses come back as they went.
    pub(crate) fn attach(&mut self, channel: u16, modes: Modes, mut attach: Attach) -> Attach {
        (attach.snd_settle_mode, attach.rcv_settle_mode) = modes;
        attach.properties = (self.dialect.properties)();
        let asked = attach.clone();
        let answer = self.client.attach(channel, attach);
        // go-amqp fails otherwise; .NET loses messages without being told.
        for (asked, answered) in [
            (asked.snd_settle_mode.map(|mode| mode as u8), answer.snd_settle_mode.map(|mode| mode as u8)),
            (asked.rcv_settle_mode.map(|mode| mode as u8), answer.rcv_settle_mode.map(|mode| mode as u8)),
        ] {
            assert!(asked.is_none() || asked == answered, "{asked:?} {answered:?}");
        }
        let address = |source: &Option<Source>| source.as_ref().and_then(|source| source.address.clone());
        assert_eq!(address(&answer.source), address(&asked.source));
        let address = |target: &Option<Target>| target.as_ref().and_then(|target| target.address().cloned());
        assert_eq!(address(&answer.target), address(&asked.target));
        answer
    }

    /// The two links to a node that answers requests.
    fn pair(&mut self, channel: u16, node: &str, requests: u32, replies: u32) {
        let mut sender = Attach::new(format!("{node}:sender"), requests, Role::Sender);
        (sender.source, sender.target) = (Some(Source::new("here")), Some(Target::new(node)));
        sender.initial_delivery_count = Some(0);
        self.attach(channel, self.dialect.requests, sender);
        let mut receiver = Attach::new(format!("{node}:receiver"), replies, Role::Receiver);
        receiver.source = Some(Source::new(node));
        receiver.target = Some(Target::new((self.dialect.reply_to)(node)));
        self.attach(channel, self.dialect.replies, receiver);
        self.client.credit_on(channel, replies, 50, false);
    }

    /// Sends a request and waits for its answer, and for the settlement of the request when it is owed one.
    fn request(&mut self, channel: u16, handle: u32, node: &str, request: MessageBuilder) -> Delivery {
        self.request_in(channel, handle, node, request, None)
    }

    /// The same with a state on its transfer: the transaction that it is part of.
    fn request_in(
        &mut self,
        channel: u16,
        handle: u32,
        node: &str,
        request: MessageBuilder,
        state: Option<&DeliveryState>,
    ) -> Delivery {
        let reply_to = (self.dialect.reply_to)(node);
        let request =
            request.property(PropertyField::MessageId, self.dialect.message_id).reply_to(&reply_to).build();
        let settled = self.dialect.settled_requests;
        let transfer = |id| {
            let mut transfer = Script::transfer_frame(handle, id, settled);
            transfer.state = state.cloned();
            if settled {
                transfer.delivery_tag = tag(b"");
            }
            transfer
        };
        self.client.send_with(channel, transfer, &request);
        let (mut reply, mut open) = (None, !settled);
        while reply.is_none() || open {
            let frame = self.client.wire.next_frame().unwrap();
            match frame.performative {
                Performative::Transfer(transfer) => {
                    reply = Some(Delivery { transfer, frames: 1, payload: frame.payload });
                }
                Performative::Disposition(disposition) => {
                    assert!(open, "a settled request is not answered");
                    assert_eq!((disposition.role, disposition.settled), (Role::Receiver, true));
                    let accepted = DeliveryState::Accepted;
                    let expected = match state {
                        Some(DeliveryState::Transactional { txn_id, .. }) => {
                            let outcome = Some(Box::new(accepted));
                            DeliveryState::Transactional { txn_id: txn_id.clone(), outcome }
                        }
                        _ => accepted,
                    };
                    assert_eq!(disposition.state, Some(expected));
                    open = false;
                }
                _ => {}
            }
        }
        let reply = reply.unwrap();
        let settled = self.dialect.replies.0 == Some(SenderSettleMode::Settled);
        assert_eq!(reply.transfer.settled, Some(settled), "as the reply link says");
        let mut id = bytes::BytesMut::new();
        self.dialect.message_id.write(&mut id);
        assert_eq!(reply.correlation_id().kind(), RawValue::first(&id).unwrap().kind());
        assert_eq!(reply.correlation_id().bytes(), &id[..], "verbatim");
        reply
    }

    /// Puts a token for an entity, signed with `key`, and says the answer's status code.
    pub(crate) fn put_token(&mut self, entity: &str, key: &str, expires_at: u64) -> i64 {
        let audience = format!("{}://localhost/{entity}", self.dialect.audience);
        let token = sign_token(&audience, DEVELOPMENT_KEY_NAME, &Secret::new(key), expires_at);
        self.put("servicebus.windows.net:sastoken", entity, token)
    }

    /// Puts this token for an entity, and says the answer's status code.
    pub(crate) fn put(&mut self, kind: &str, entity: &str, token: String) -> i64 {
        let audience = format!("{}://localhost/{entity}", self.dialect.audience);
        let request = MessageBuilder::new()
            .application_property("operation", AnnotationValue::Str("put-token"))
            .application_property("type", AnnotationValue::Str(kind))
            .application_property("name", AnnotationValue::Str(&audience))
            .application_property("expiration", self.dialect.expiration)
            .body_value(&amqp_codec::value::Value::String(token));
        self.request(0, CBS_OUT, "$cbs", request).status("status-code")
    }

    /// Puts a good token.
    pub(crate) fn authorize(&mut self, entity: &str) {
        assert_eq!(self.put_token(entity, DEVELOPMENT_KEY, u64::from(u32::MAX)), 202);
    }

    /// A sender on a session of its own, with its credit.
    fn sender(&mut self) -> u16 {
        self.authorize(QUEUE);
        let channel = self.session();
        let mut attach = Attach::new("sender", SENDER, Role::Sender);
        attach.source = Some(Source::new("identifier"));
        attach.target = Some(Target::new((self.dialect.address)(QUEUE)));
        attach.initial_delivery_count = Some(0);
        let answer = self.attach(channel, self.dialect.sending, attach);
        assert!(answer.max_message_size.is_some_and(|size| size > 0), "the limit of a batch");
        assert!(self.client.wire.flowed().unwrap().link_credit.is_some_and(|credit| credit > 0));
        channel
    }

    /// Sends, and waits for `accepted`.
    fn send(&mut self, channel: u16, format: u32, payload: &[u8]) {
        let transfer = |id: u32| {
            let mut transfer = Script::transfer_frame(SENDER, id, false);
            (transfer.message_format, transfer.delivery_tag) = (Some(format), tag(&id.to_le_bytes()));
            transfer
        };
        let id = self.client.send_with(channel, transfer, payload);
        let answer = self.client.wire.disposed().unwrap();
        assert_eq!((answer.role, answer.settled, answer.first), (Role::Receiver, true, id));
        assert_eq!(answer.state, Some(DeliveryState::Accepted));
    }

    /// A receiver on a session of its own.
    pub(crate) fn receiver(&mut self, entity: &str, handle: u32, modes: Modes) -> u16 {
        self.authorize(entity);
        let channel = self.session();
        let mut attach = Attach::new(format!("receiver-{handle}"), handle, Role::Receiver);
        attach.source = Some(Source::new((self.dialect.address)(entity)));
        attach.target = Some(Target::new("identifier"));
        self.attach(channel, modes, attach);
        channel
    }

    /// A receiver on a session that is there.
    pub(crate) fn receiver_on(&mut self, channel: u16, entity: &str, handle: u32) {
        let mut attach = Attach::new(format!("receiver-{handle}"), handle, Role::Receiver);
        attach.source = Some(Source::new((self.dialect.address)(entity)));
        attach.target = Some(Target::new("identifier"));
        self.attach(channel, self.dialect.locking, attach);
    }

    /// A sender on a session that is there, through its entity to another one if that is given.
    pub(crate) fn sender_on(&mut self, channel: u16, entity: &str, handle: u32, destination: Option<&str>) {
        let mut attach = Attach::new(format!("sender-{handle}"), handle, Role::Sender);
        attach.source = Some(Source::new("identifier"));
        attach.target = Some(Target::new((self.dialect.address)(entity)));
        attach.initial_delivery_count = Some(0);
        attach.properties = destination.map(crate::transactions::sent_via);
        self.client.attach(channel, attach);
        assert!(self.client.wire.flowed().unwrap().link_credit.is_some_and(|credit| credit > 0));
    }

    /// Credit for that many, and as many deliveries.
    pub(crate) fn receive(&mut self, channel: u16, handle: u32, count: u32) -> Vec<Delivery> {
        self.client.credit_on(channel, handle, count, false);
        (0..count).map(|_| self.client.delivery(handle)).collect()
    }

    /// Settles as the SDK does, and demands the same kind of outcome back, an error never.
    pub(crate) fn settle(&mut self, channel: u16, delivery: &Delivery, state: DeliveryState) {
        let answer = self.client.outcome(channel, delivery.id(), state.clone());
        match (state, answer.state) {
            (DeliveryState::Accepted, Some(DeliveryState::Accepted))
            | (DeliveryState::Modified(_), Some(DeliveryState::Modified(_)))
            | (DeliveryState::Rejected(_), Some(DeliveryState::Rejected(None))) => {}
            (said, answered) => panic!("{said:?} answered by {answered:?}"),
        }
    }

    /// The links to the queue's management node, on a session of their own.
    pub(crate) fn management(&mut self) -> u16 {
        self.authorize(&format!("{QUEUE}/$management"));
        let channel = self.session();
        self.pair(channel, &format!("{QUEUE}/$management"), REQUESTS, REPLIES);
        channel
    }

    /// Asks the queue's management node, in a transaction.
    pub(crate) fn manage_in(
        &mut self,
        channel: u16,
        operation: &str,
        body: &RawMap,
        state: &DeliveryState,
    ) -> Delivery {
        let request = self.operation(operation, body);
        self.request_in(channel, REQUESTS, &format!("{QUEUE}/$management"), request, Some(state))
    }

    /// Asks the queue's management node.
    pub(crate) fn manage(&mut self, channel: u16, operation: &str, body: &RawMap) -> Delivery {
        let request = self.operation(operation, body);
        self.request(channel, REQUESTS, &format!("{QUEUE}/$management"), request)
    }

    fn operation(&self, operation: &str, body: &RawMap) -> MessageBuilder {
        MessageBuilder::new()
            .application_property("operation", AnnotationValue::Str(operation))
            .application_property("com.microsoft:server-timeout", self.dialect.server_timeout)
            .body_raw(RawValue::first(body.bytes()).unwrap())
    }
}

/// A broker with these messages in its queue.
pub(crate) fn filled(texts: &[&str]) -> Broker {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, texts);
    client.close();
    broker
}

/// One message and a batch are accepted and become messages in order.
pub(crate) fn sends_and_batches(dialect: &Dialect) {
    let broker = Broker::start();
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.sender();
    sdk.send(channel, 0, &message("one"));
    sdk.send(channel, BATCH_FORMAT, &batch(&["two", "three"].map(message)));
    let mut reader = broker.plain();
    reader.receiver(1, QUEUE, None);
    let received = reader.receive(1, 3);
    assert_eq!(received.iter().map(Delivery::text).collect::<Vec<_>>(), ["one", "two", "three"]);
    let first = received[0].sequence_number();
    assert_eq!(received.iter().map(|each| each.sequence_number() - first).collect::<Vec<_>>(), [0, 1, 2]);
    sdk.client.close();
}

/// Each settlement is answered in kind and has its effect.
pub(crate) fn settles(dialect: &Dialect) {
    let broker = filled(&["complete", "abandon", "defer", "dead-letter"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.receiver(QUEUE, RECEIVER, dialect.locking);
    let received = sdk.receive(channel, RECEIVER, 4);
    for delivery in &received {
        delivery.is_locked_for_service_bus(0);
    }
    sdk.settle(channel, &received[0], DeliveryState::Accepted);
    sdk.settle(channel, &received[1], (dialect.abandon)());
    sdk.settle(channel, &received[2], (dialect.defer)());
    sdk.settle(channel, &received[3], (dialect.dead_letter)());
    let again = sdk.receive(channel, RECEIVER, 1).remove(0);
    assert_eq!(again.text(), "abandon");
    again.is_locked_for_service_bus(1);
    assert_ne!(again.lock_token(), received[1].lock_token());
    sdk.settle(channel, &again, DeliveryState::Accepted);
    assert!(sdk.client.drain(channel, RECEIVER, 1).is_empty());
    let dead = format!("{QUEUE}/$DeadLetterQueue");
    let channel = sdk.receiver(&dead, RECEIVER + 10, dialect.locking);
    let letter = sdk.receive(channel, RECEIVER + 10, 1).remove(0);
    letter.is_locked_for_service_bus(0);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("broken"));
    assert_eq!(letter.property("DeadLetterErrorDescription").as_deref(), Some("cannot be read"));
    sdk.settle(channel, &letter, DeliveryState::Accepted);
    sdk.client.close();
}

/// Messages come settled; what some SDKs say about them afterwards does no harm.
pub(crate) fn receives_and_deletes(dialect: &Dialect) {
    let broker = filled(&["a", "b"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.receiver(QUEUE, RECEIVER, dialect.deleting);
    let received = sdk.receive(channel, RECEIVER, 2);
    for delivery in &received {
        assert_eq!(delivery.transfer.settled, Some(true));
        assert_eq!(delivery.transfer.message_format, Some(0));
        assert_eq!(delivery.header().delivery_count, 0);
        let disposition = Disposition {
            role: Role::Receiver,
            first: delivery.id(),
            last: None,
            settled: true,
            state: Some(DeliveryState::Accepted),
            batchable: false,
        };
        sdk.client.wire.script.send(channel, &Performative::Disposition(disposition), b"");
    }
    assert!(sdk.client.drain(channel, RECEIVER, 3).is_empty());
    sdk.client.close();
}

/// A lock is renewed and settled by its token alone, once, though link and connection are gone.
pub(crate) fn renews_and_settles_by_token(dialect: &Dialect) {
    let broker = filled(&["m"]);
    let mut first = Sdk::connect(&broker, dialect);
    let channel = first.receiver(QUEUE, RECEIVER, dialect.locking);
    let delivery = first.receive(channel, RECEIVER, 1).remove(0);
    let until = delivery.annotation("x-opt-locked-until", Kind::Timestamp).as_timestamp().unwrap();
    first.client.close();

    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.management();
    let token = delivery.lock_token();
    let renewed = sdk.manage(channel, "com.microsoft:renew-lock", &renewal(&[token]));
    assert_eq!(renewed.status("statusCode"), 200);
    let body = renewed.body();
    let expirations = body.get("expirations").unwrap();
    assert_eq!(expirations.kind(), Some(Kind::Array));
    let expiration = expirations.to_items().unwrap().remove(0);
    assert!(RawValue::first(&expiration).unwrap().as_timestamp().unwrap() >= until);
    let settled = sdk.manage(channel, "com.microsoft:update-disposition", &update(token, "completed"));
    assert_eq!((settled.status("statusCode"), settled.error_condition()), (200, None));
    for (operation, body) in
        [("update-disposition", update(token, "completed")), ("renew-lock", renewal(&[token]))]
    {
        let lost = sdk.manage(channel, &format!("com.microsoft:{operation}"), &body);
        assert_eq!(lost.status("statusCode"), 410, "{operation}");
        assert_eq!(lost.error_condition().as_deref(), Some("com.microsoft:message-lock-lost"));
    }
    sdk.client.close();
}

/// A peek shows what is there, in pages, without lock or effect; past the end there is no content.
pub(crate) fn peeks(dialect: &Dialect) {
    let broker = filled(&["a", "b", "c"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.management();
    let mut from = 1;
    for texts in [vec!["a", "b"], vec!["c"]] {
        let page = sdk.manage(channel, "com.microsoft:peek-message", &peek(from, 2));
        assert_eq!(page.status("statusCode"), 200);
        let body = page.body();
        let messages: Vec<Delivery> = body
            .get("messages")
            .unwrap()
            .as_list()
            .unwrap()
            .map(|entry| {
                let entry = entry.as_map().unwrap();
                let payload = entry.get("message").unwrap().as_binary().unwrap();
                Delivery { payload: bytes::Bytes::copy_from_slice(payload), ..page.clone() }
            })
            .collect();
        assert_eq!(messages.iter().map(Delivery::text).collect::<Vec<_>>(), texts);
        for message in &messages {
            assert_eq!(message.header().delivery_count, 0);
            assert_eq!(message.annotation("x-opt-message-state", Kind::Int).as_i64(), Some(0));
            from = message.sequence_number() + 1;
        }
    }
    let end = sdk.manage(channel, "com.microsoft:peek-message", &peek(from, 2));
    assert_eq!(end.status("statusCode"), 204);
    sdk.client.close();
}

/// A missing entity is told by the sentence that JavaScript and Java look for; the connection goes on.
pub(crate) fn misses_an_entity(dialect: &Dialect) {
    let broker = Broker::with(|config| config.auto_create = false);
    let mut sdk = Sdk::connect(&broker, dialect);
    sdk.authorize("nowhere");
    for role in [Role::Sender, Role::Receiver] {
        let channel = sdk.session();
        let mut attach = Attach::new("link", 7, role);
        let address = (dialect.address)("nowhere");
        (attach.source, attach.target) = (Some(Source::new(address.as_str())), Some(Target::new(address)));
        attach.initial_delivery_count = Some(0);
        let error = sdk.client.refused(channel, attach);
        assert_eq!(error.condition, "amqp:not-found");
        let text = error.description.unwrap();
        let rest = text.split_once("The messaging entity ").expect(&text).1;
        assert!(rest.contains(" could not be found"), "{text}");
        // The SDK answers the detach; that is not answered again.
        sdk.client.wire.script.detach(channel, 7, true).end(channel);
        sdk.client.wire.ended().unwrap();
    }
    sdk.authorize(QUEUE);
    sdk.client.close();
}

/// Tokens of a wrong key, and tokens whose time is over, are refused; links without a claim, too.
pub(crate) fn is_refused_without_a_good_token(dialect: &Dialect) {
    let broker = Broker::start();
    let mut sdk = Sdk::connect(&broker, dialect);
    assert_eq!(sdk.put_token(QUEUE, "another key", u64::from(u32::MAX)), 401);
    assert_eq!(sdk.put_token(QUEUE, DEVELOPMENT_KEY, 1_600_000_000), 401);
    let channel = sdk.session();
    let mut attach = Attach::new("link", 7, Role::Sender);
    attach.source = Some(Source::new("identifier"));
    attach.target = Some(Target::new((dialect.address)(QUEUE)));
    attach.initial_delivery_count = Some(0);
    assert_eq!(sdk.client.refused(channel, attach).condition, "amqp:unauthorized-access");
    sdk.client.close();
}
