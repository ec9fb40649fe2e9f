//! How a Service Bus SDK speaks: what all of them say, in the words of one.
//!
//! A [`Dialect`] has what they say differently; an [`Sdk`] is a connection that speaks it and demands of each answer
//! what the SDKs demand.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
};

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Modified, Open, Performative, Source, Target, Transfer},
    raw::{AnnotationValue, RawMap, RawValue},
    sections::PropertyField,
    types::{ReceiverSettleMode, Role, SenderSettleMode},
    value::{Described, Descriptor, Value},
};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, Secret, sign_token};
use testkit::{Script, Wire};

use crate::{
    broker::{Broker, QUEUE},
    client::{Client, tag},
    message::{Delivery, message},
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
    pub(crate) properties: fn(Role) -> Option<RawMap>,
    /// Receivers have none of them, unless they ask for the next session.
    pub(crate) bare_receivers: bool,
    /// The link whose messages requests name as theirs.
    pub(crate) associated_link: Option<&'static str>,
    /// The value of a source's filter for this session, or for any.
    pub(crate) session_filter: fn(Option<&str>) -> Value,
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
/// The receiver of most scenarios.
pub(crate) const RECEIVER: u32 = 3;
const REQUESTS: u32 = 4;
const REPLIES: u32 = 5;

/// The filter value of most: the session's id, or null for any.
pub(crate) fn plain_session(id: Option<&str>) -> Value {
    id.map_or(Value::Null, |id| Value::String(id.to_owned()))
}

/// The same described, as Go and Rust say it.
pub(crate) fn described_session(id: Option<&str>) -> Value {
    let descriptor = Descriptor::Code(0x0000_0013_7000_000c);
    Value::Described(Box::new(Described { descriptor, value: plain_session(id) }))
}

/// The frame of a message, with the tag that .NET and Go count.
fn outgoing(id: u32, format: u32) -> Transfer {
    let mut transfer = Script::transfer_frame(SENDER, id, false);
    (transfer.message_format, transfer.delivery_tag) = (Some(format), tag(&id.to_le_bytes()));
    transfer
}

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

/// A connected SDK, over TCP unless told otherwise.
pub(crate) struct Sdk<'d, S = TcpStream> {
    pub(crate) client: Client<S>,
    pub(crate) dialect: &'d Dialect,
    /// The host of its open, for which its tokens are.
    host: String,
    next_channel: u16,
    /// By channel: the management node that its pair of links is attached to.
    nodes: BTreeMap<u16, String>,
}

impl<'d> Sdk<'d> {
    /// Connects and opens the `$cbs` links on a session of their own.
    pub(crate) fn connect(broker: &Broker, dialect: &'d Dialect) -> Self {
        Self::connect_over(Wire::connect(broker.address).unwrap(), dialect)
    }
}

impl<'d, S: Read + Write> Sdk<'d, S> {
    /// The same on a stream that is there.
    pub(crate) fn connect_over(wire: Wire<S>, dialect: &'d Dialect) -> Self {
        Self::open_over(wire, dialect, (dialect.open)())
    }

    /// The same with this open.
    pub(crate) fn open_over(wire: Wire<S>, dialect: &'d Dialect, open: Open) -> Self {
        let (mechanism, response) = dialect.sasl;
        let host = open.hostname.clone().unwrap_or_else(|| "localhost".to_owned());
        let client = Client::connect_over(wire, mechanism, response, open);
        let mut sdk = Self { client, dialect, host, next_channel: 0, nodes: BTreeMap::new() };
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
        let names_a_node = format!("{:?}", attach.source).contains('$');
        let is_bare = self.dialect.bare_receivers && attach.role == Role::Receiver && !names_a_node;
        attach.properties = if is_bare { None } else { (self.dialect.properties)(attach.role) };
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
        let audience = self.audience(entity);
        let token = sign_token(&audience, DEVELOPMENT_KEY_NAME, &Secret::new(key), expires_at);
        self.put("servicebus.windows.net:sastoken", entity, token)
    }

    /// Puts this token for an entity, and says the answer's status code.
    pub(crate) fn put(&mut self, kind: &str, entity: &str, token: String) -> i64 {
        self.put_for(kind, &self.audience(entity), token).0
    }

    /// The audience of tokens for an entity.
    pub(crate) fn audience(&self, entity: &str) -> String {
        format!("{}://{}/{entity}", self.dialect.audience, self.host)
    }

    /// Puts this token for an audience, and says status code and description of the answer.
    pub(crate) fn put_for(&mut self, kind: &str, audience: &str, token: String) -> (i64, String) {
        let request = MessageBuilder::new()
            .application_property("operation", AnnotationValue::Str("put-token"))
            .application_property("type", AnnotationValue::Str(kind))
            .application_property("name", AnnotationValue::Str(audience))
            .application_property("expiration", self.dialect.expiration)
            .body_value(&Value::String(token));
        let answer = self.request(0, CBS_OUT, "$cbs", request);
        (answer.status("status-code"), answer.property("status-description").unwrap_or_default())
    }

    /// Puts a good token.
    pub(crate) fn authorize(&mut self, entity: &str) {
        assert_eq!(self.put_token(entity, DEVELOPMENT_KEY, u64::from(u32::MAX)), 202);
    }

    /// A sender on a session of its own, with its credit.
    pub(crate) fn sender(&mut self, entity: &str) -> u16 {
        self.authorize(entity);
        let channel = self.session();
        let mut attach = Attach::new("sender", SENDER, Role::Sender);
        attach.source = Some(Source::new("identifier"));
        attach.target = Some(Target::new((self.dialect.address)(entity)));
        attach.initial_delivery_count = Some(0);
        let answer = self.attach(channel, self.dialect.sending, attach);
        assert!(answer.max_message_size.is_some_and(|size| size > 0), "the limit of a batch");
        assert!(self.client.wire.flowed().unwrap().link_credit.is_some_and(|credit| credit > 0));
        channel
    }

    /// Sends through [`Self::sender`], and waits for `accepted`.
    pub(crate) fn send(&mut self, channel: u16, format: u32, payload: &[u8]) {
        assert_eq!(self.offer(channel, format, payload), Some(DeliveryState::Accepted));
    }

    /// Sends through [`Self::sender`], and waits for the outcome.
    pub(crate) fn offer(&mut self, channel: u16, format: u32, payload: &[u8]) -> Option<DeliveryState> {
        let id = self.client.send_with(channel, |id| outgoing(id, format), payload);
        let answer = self.client.wire.disposed().unwrap();
        assert_eq!((answer.role, answer.settled, answer.first), (Role::Receiver, true, id));
        answer.state
    }

    /// Sends messages of these texts, all of them before the first answer is read, until all are accepted.
    pub(crate) fn send_all(&mut self, channel: u16, texts: &[String]) {
        for text in texts {
            self.client.send_with(channel, |id| outgoing(id, 0), &message(text));
        }
        let mut open = texts.len();
        while open > 0 {
            let answer = self.client.wire.disposed().unwrap();
            assert_eq!((answer.role, answer.settled), (Role::Receiver, true));
            assert_eq!(answer.state, Some(DeliveryState::Accepted));
            open -= (answer.last.unwrap_or(answer.first) - answer.first) as usize + 1;
        }
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
        self.management_of(QUEUE)
    }

    /// The links to an entity's management node, on a session of their own.
    pub(crate) fn management_of(&mut self, entity: &str) -> u16 {
        let node = format!("{entity}/$management");
        self.authorize(&node);
        let channel = self.session();
        self.pair(channel, &node, REQUESTS, REPLIES);
        self.nodes.insert(channel, node);
        channel
    }

    /// Asks the management node of a channel, in a transaction.
    pub(crate) fn manage_in(
        &mut self,
        channel: u16,
        operation: &str,
        body: &RawMap,
        state: &DeliveryState,
    ) -> Delivery {
        let (node, request) = (self.nodes[&channel].clone(), self.operation(operation, body));
        self.request_in(channel, REQUESTS, &node, request, Some(state))
    }

    /// Asks the management node of a channel.
    pub(crate) fn manage(&mut self, channel: u16, operation: &str, body: &RawMap) -> Delivery {
        let (node, request) = (self.nodes[&channel].clone(), self.operation(operation, body));
        self.request(channel, REQUESTS, &node, request)
    }

    fn operation(&self, operation: &str, body: &RawMap) -> MessageBuilder {
        let mut request = MessageBuilder::new()
            .application_property("operation", AnnotationValue::Str(operation))
            .application_property("com.microsoft:server-timeout", self.dialect.server_timeout);
        if let Some(link) = self.dialect.associated_link {
            request = request.application_property("associated-link-name", AnnotationValue::Str(link));
        }
        request.body_raw(RawValue::first(body.bytes()).unwrap())
    }
}
