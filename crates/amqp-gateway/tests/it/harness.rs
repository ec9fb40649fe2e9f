//! A broker in memory (gateways, engines, core) and scripted clients, stepped until nothing moves.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Detach, Disposition, Error, Flow, Open, Performative, Transfer},
    raw::{AnnotationValue, RawMap, RawValue},
    sections::{PropertyField, Sections},
    types::ReceiverSettleMode,
};
use amqp_gateway::{Gateway, GatewayConfig, GatewayNamespace, Now, Peer, Placement, PlacementRequest};
use broker_auth::{Access, Anonymous, Authority, Credentials, Right, Rights, Secret, User};
use broker_core::{
    AuthorizationRule, Batch, ClientId, Command, Core, CoreConfig, Effect, EntityKind, EntitySettings,
    Outcome, Output, Position, StorageError, StoredRecord, Ticket, Timestamp, WorkBudget,
};
use bytes::{Bytes, BytesMut};
use testkit::{Incoming, Received, Script};

/// Log-in of the development key.
pub(crate) const KEY_NAME: &str = "RootManageSharedAccessKey";
/// A recorded token for the whole namespace on `localhost`, signed with the development key.
pub(crate) const TOKEN: &str = "SharedAccessSignature sig=VLVcsKnh%2BfS%2BtXhD%2FYQx4Xm2T4NMCaMmysuGvJ2oVpI%3D&se=1795200180\
                                &skn=RootManageSharedAccessKey&sr=amqp%3A%2F%2Flocalhost";
/// When that token ends, in seconds since 1970.
pub(crate) const TOKEN_ENDS: u64 = 1_795_200_180;
/// When tests begin, in milliseconds since 1970.
pub(crate) const START: u64 = 1_795_000_000_000;

#[derive(Default)]
struct Journal {
    records: BTreeMap<u64, Bytes>,
    end: u64,
    effects: Vec<(ClientId, Effect)>,
    full: bool,
}

impl Output for Journal {
    fn record(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        let mut bytes = index.to_vec();
        for part in rest {
            bytes.extend_from_slice(part);
        }
        let (at, length) = (self.end, u32::try_from(bytes.len()).unwrap());
        self.end += u64::from(length);
        self.records.insert(at, bytes.into());
        (Position(at), length)
    }

    fn release(&mut self, at: Position, _length: u32) {
        self.records.remove(&at.0);
    }

    fn effect(&mut self, client: ClientId, effect: Effect) {
        self.effects.push((client, effect));
    }

    fn read(&mut self, at: Position, _length: u32) -> Result<StoredRecord, StorageError> {
        Ok(self.records[&at.0].clone())
    }

    fn readable(&self) -> Position {
        Position(self.end)
    }

    fn check_storage(&self) -> Result<(), broker_core::QuotaError> {
        if self.full { Err(broker_core::QuotaError::Storage) } else { Ok(()) }
    }
}

/// One scripted client and its gateway.
pub(crate) struct Client {
    pub(crate) script: Script,
    pub(crate) gateway: Gateway,
    /// Everything the broker ever wrote to it.
    pub(crate) raw: BytesMut,
    id: ClientId,
    received: Vec<Incoming>,
    /// The delivery-id that the harness uses next.
    next: u32,
    /// Transfers it has sent, by channel.
    sent: BTreeMap<u16, u32>,
    /// Whether it takes what the broker writes.
    pub(crate) reads: bool,
}

/// The broker and its clients.
pub(crate) struct World {
    core: Core,
    journal: Journal,
    pub(crate) now: Now,
    pub(crate) clients: Vec<Client>,
    config: Arc<GatewayConfig>,
    pub(crate) authority: Arc<Authority>,
    /// Answers to placement requests; `None`: all connections mean one namespace. An answer that is `None` does not come.
    pub(crate) placements: Option<Answers>,
    /// Gives each turn of a gateway its budget; `None`: no turn is bounded.
    pub(crate) budgets: Option<Budgets>,
    /// Placement requests that were answered by `placements`, or wait.
    pub(crate) asked: Vec<PlacementRequest>,
    /// Most memory of the properties of all settlements that one turn gave to the core.
    pub(crate) most_settlement_bytes: usize,
}

/// Gives the budgets of turns.
pub(crate) type Budgets = Box<dyn FnMut() -> WorkBudget>;

/// Gives the answers to placement requests.
pub(crate) type Answers = Box<dyn FnMut(&PlacementRequest) -> Option<Placement>>;

impl World {
    /// A broker with the queue `q`, whose clients are logged in by key.
    pub(crate) fn new() -> Self {
        Self::with(GatewayConfig::default(), Anonymous::Deny)
    }

    pub(crate) fn with(config: GatewayConfig, anonymous: Anonymous) -> Self {
        let mut world = Self {
            core: Core::new(CoreConfig {
                token_key: [7; 16],
                describe: amqp_gateway::describe,
                max_message_bytes: config.max_message_bytes,
                tier_message_bytes: config.tier_message_bytes,
                ..CoreConfig::default()
            }),
            journal: Journal::default(),
            now: Now {
                instant: some_instant(),
                utc: Timestamp::from_millis(START),
                wall: Timestamp::from_millis(START),
            },
            clients: Vec::new(),
            config: Arc::new(config),
            authority: Arc::new(Authority::new(Credentials::development(anonymous))),
            placements: None,
            budgets: None,
            asked: Vec::new(),
            most_settlement_bytes: 0,
        };
        world.create("q", EntitySettings::default());
        world
    }

    /// A broker, and a client that has logged in by PLAIN and has one right only.
    pub(crate) fn limited(right: Right) -> (Self, usize) {
        let mut world = Self::new();
        let mut credentials = Credentials::development(Anonymous::Deny);
        credentials.users.push(User {
            name: "limited".into(),
            password: Secret::new("secret"),
            access: Access::namespace(Rights::NONE.with(right)),
        });
        world.authority = Arc::new(Authority::new(credentials));
        let client = world.accept();
        world.script(client).sasl_plain("limited", "secret").open("test").begin(0);
        world.run();
        world.received(client);
        (world, client)
    }

    /// Creates a queue as the configuration would.
    pub(crate) fn create(&mut self, name: &str, settings: EntitySettings) {
        self.create_kind(name, EntityKind::Queue, settings);
    }

    /// Creates a topic, or a queue.
    pub(crate) fn create_kind(&mut self, name: &str, kind: EntityKind, settings: EntitySettings) {
        let settings = Box::new(settings);
        self.ask(Command::CreateEntity { name: name.into(), kind, settings, ticket: Ticket(0) });
    }

    /// How many entities there are.
    pub(crate) fn entities(&self) -> usize {
        self.core.entities().count()
    }

    /// Bytes that an entity holds.
    pub(crate) fn bytes_of(&self, name: &str) -> u64 {
        self.core.entity(name).unwrap().bytes
    }

    /// Active messages of an entity.
    pub(crate) fn active(&self, name: &str) -> u64 {
        self.core.entity(name).unwrap().active
    }

    /// Gives an entity other properties.
    pub(crate) fn update(&mut self, name: &str, settings: EntitySettings) {
        let settings = Box::new(settings);
        self.ask(Command::UpdateEntity { name: name.into(), settings, expected: None, ticket: Ticket(0) });
        self.run();
    }

    /// Deletes a queue.
    pub(crate) fn delete(&mut self, name: &str) {
        self.ask(Command::DeleteEntity { name: name.into(), expected: None, ticket: Ticket(0) });
        self.run();
    }

    /// Gives an entity keys of its own instead of those it had, and tells all clients, as the server does.
    pub(crate) fn give_keys(&mut self, entity: &str, rules: &[AuthorizationRule]) {
        self.authority.set_entity_rules(entity, amqp_gateway::entity_rules(rules));
        for client in &mut self.clients {
            client.gateway.handle_keys_changed(self.now);
        }
        self.run();
    }

    fn ask(&mut self, command: Command) {
        let commands = vec![Command::Connect, command];
        self.core.handle_batch(self.now.utc, Batch { client: ClientId(0), commands }, &mut self.journal);
    }

    /// From now on the disk's reserve is in use.
    pub(crate) fn fill_disk(&mut self) {
        self.journal.full = true;
    }

    /// A socket has been accepted; nothing is said yet.
    pub(crate) fn accept(&mut self) -> usize {
        let id = ClientId(self.clients.len() as u64 + 1);
        let peer = Peer { tls: false, certificate_subject: None, loopback: true };
        let gateway =
            Gateway::new(Arc::clone(&self.config), Arc::clone(&self.authority), id, peer, id.0, self.now);
        let (raw, received) = (BytesMut::new(), Vec::new());
        self.clients.push(Client {
            script: Script::new(),
            gateway,
            raw,
            id,
            received,
            next: 0,
            sent: BTreeMap::new(),
            reads: true,
        });
        self.clients.len() - 1
    }

    /// The namespace that every connection means.
    pub(crate) fn namespace(&self) -> GatewayNamespace {
        GatewayNamespace {
            name: "default".into(),
            authority: Arc::clone(&self.authority),
            config: Arc::clone(&self.config),
        }
    }

    /// A client of plain AMQP, logged in by PLAIN, with a session on channel 0.
    pub(crate) fn plain(&mut self) -> usize {
        let client = self.accept();
        self.script(client).sasl_plain(KEY_NAME, "SAS_KEY_VALUE").open("test").begin(0);
        self.run();
        self.received(client);
        client
    }

    /// A client of Service Bus with a session on channel 0, `$cbs` links 100 and 101, and a token for everything.
    pub(crate) fn service_bus(&mut self) -> usize {
        self.service_bus_with(Open::new("test"))
    }

    /// The same with an open of its own.
    pub(crate) fn service_bus_with(&mut self, open: Open) -> usize {
        let client = self.accept();
        self.script(client).sasl("ANONYMOUS", None).open_with(open).begin(0);
        self.cbs_links(client);
        self.put_token(client, "amqp://localhost", TOKEN);
        let reply = self.transfers(client).pop().unwrap();
        assert_eq!(status(&reply.1, "status-code"), 202);
        client
    }

    pub(crate) fn cbs_links(&mut self, client: usize) {
        self.script(client).attach_sender(0, 100, "cbs-out", Some("$cbs")).attach_receiver(
            0,
            101,
            "cbs-in",
            "$cbs",
            Some(ReceiverSettleMode::First),
        );
        self.credit(client, 0, 101, 0, 100, false);
        self.run();
        self.received(client);
    }

    /// Puts a token as Python does: without `reply-to`, of the wrong type.
    pub(crate) fn put_token(&mut self, client: usize, audience: &str, token: &str) {
        let request = MessageBuilder::new()
            .property(PropertyField::MessageId, AnnotationValue::Uuid([9; 16]))
            .application_property("operation", AnnotationValue::Str("put-token"))
            .application_property("name", AnnotationValue::Str(audience))
            .application_property("type", AnnotationValue::Str("jwt"))
            .body_value(&amqp_codec::value::Value::String(token.into()))
            .build();
        self.transfer(client, 100, false, &request);
        self.run();
    }

    /// Sends a message on channel 0 under the next delivery-id, which it returns.
    pub(crate) fn transfer(&mut self, client: usize, handle: u32, settled: bool, payload: &[u8]) -> u32 {
        let id = self.next_delivery(client);
        self.script(client).transfer(0, handle, id, settled, payload);
        id
    }

    /// The next delivery-id of channel 0.
    pub(crate) fn next_delivery(&mut self, client: usize) -> u32 {
        let next = &mut self.clients[client].next;
        *next += 1;
        *next - 1
    }

    /// Grants credit, with the numbers of the session right.
    pub(crate) fn credit(
        &mut self,
        client: usize,
        channel: u16,
        handle: u32,
        count: u32,
        credit: u32,
        drain: bool,
    ) {
        self.run();
        let sent = self.clients[client].sent.get(&channel).copied().unwrap_or(0);
        let flow = Flow {
            next_incoming_id: None,
            incoming_window: u32::MAX >> 1,
            next_outgoing_id: sent,
            outgoing_window: 65_536,
            handle: Some(handle),
            delivery_count: Some(count),
            link_credit: Some(credit),
            drain,
            ..Flow::default()
        };
        self.script(client).flow(channel, flow);
    }

    pub(crate) fn script(&mut self, client: usize) -> &mut Script {
        &mut self.clients[client].script
    }

    /// Lets time pass, with every deadline on the way kept.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now.instant + time;
        loop {
            let next = self.clients.iter().filter_map(|client| client.gateway.deadline()).min();
            let core = self.core.deadline().map(|at| {
                let left = at.as_millis().saturating_sub(self.now.utc.as_millis());
                self.now.instant + Duration::from_millis(left)
            });
            let next = next.into_iter().chain(core).min().filter(|next| *next < end);
            let to = next.unwrap_or(end).max(self.now.instant);
            let step = (to - self.now.instant).max(Duration::from_millis(1));
            self.now.instant += step;
            self.now.utc = self.now.utc.after(step);
            self.now.wall = self.now.wall.after(step);
            for client in &mut self.clients {
                client.gateway.handle_deadline(self.now);
            }
            while self.core.handle_deadline(self.now.utc, &mut self.journal) {}
            self.run();
            if self.now.instant >= end {
                return;
            }
        }
    }

    /// Steps everything until nothing moves.
    pub(crate) fn run(&mut self) {
        while self.step() {}
    }

    /// One turn of everybody. Says whether something moved.
    pub(crate) fn step(&mut self) -> bool {
        let mut moved = false;
        let namespace = self.namespace();
        for client in &mut self.clients {
            let input = client.script.take_output();
            if let Some(budgets) = &mut self.budgets {
                client.gateway.give_work(budgets());
            }
            if !input.is_empty() {
                count_transfers(&input, &mut client.sent);
                client.gateway.handle_input(self.now, input);
                moved = true;
            } else if client.gateway.has_more_input() {
                client.gateway.handle_more_input(self.now);
                moved = true;
            }
            match &mut self.placements {
                None => client.gateway.place_in(self.now, &namespace),
                Some(answers) => {
                    while let Some(request) = client.gateway.take_placement_request() {
                        if let Some(placement) = answers(&request) {
                            client.gateway.handle_placement(self.now, placement);
                        }
                        self.asked.push(request);
                    }
                }
            }
            let commands = client.gateway.take_commands();
            if !commands.is_empty() {
                let properties: usize = commands.iter().map(settlement_bytes).sum();
                self.most_settlement_bytes = self.most_settlement_bytes.max(properties);
                let batch = Batch { client: client.id, commands };
                self.core.handle_batch(self.now.utc, batch, &mut self.journal);
                moved = true;
            }
        }
        while self.core.deliver(self.now.utc, &mut self.journal) {}
        moved |= self.hand_out_effects();
        for client in self.clients.iter_mut().filter(|client| client.reads) {
            let mut out = BytesMut::new();
            client.gateway.poll_output(self.now, &mut out, 16 << 10);
            client.gateway.compact_queued();
            client.gateway.output_written(out.len());
            moved |= !out.is_empty();
            client.raw.extend_from_slice(&out);
            client.script.handle_input(&out);
            assert_eq!(client.script.broken(), None);
            let told = std::iter::from_fn(|| client.script.poll()).inspect(is_tracked);
            client.received.extend(told);
        }
        moved
    }

    fn hand_out_effects(&mut self) -> bool {
        let mut by_client: BTreeMap<ClientId, Vec<Effect>> = BTreeMap::new();
        for (client, effect) in self.journal.effects.drain(..) {
            by_client.entry(client).or_default().push(effect);
        }
        let moved = !by_client.is_empty();
        for client in &mut self.clients {
            if let Some(effects) = by_client.remove(&client.id) {
                client.gateway.handle_effects(self.now, effects);
            }
        }
        moved
    }

    /// The socket of a client is gone.
    pub(crate) fn lose(&mut self, client: usize) {
        let commands = self.clients[client].gateway.disconnected();
        let batch = Batch { client: self.clients[client].id, commands };
        self.core.handle_batch(self.now.utc, batch, &mut self.journal);
        self.run();
    }

    /// What has come since the last call.
    pub(crate) fn received(&mut self, client: usize) -> Vec<Incoming> {
        std::mem::take(&mut self.clients[client].received)
    }

    /// The performatives that have come since the last call.
    pub(crate) fn frames(&mut self, client: usize) -> Vec<Received> {
        let frames = self.received(client).into_iter().filter_map(|incoming| match incoming {
            Incoming::Frame(frame) => Some(frame),
            _ => None,
        });
        frames.collect()
    }

    /// The dispositions among them.
    pub(crate) fn dispositions(&mut self, client: usize) -> Vec<Disposition> {
        let frames = self.frames(client).into_iter().filter_map(|frame| match frame.performative {
            Performative::Disposition(disposition) => Some(disposition),
            _ => None,
        });
        frames.collect()
    }

    /// The transfers among them.
    pub(crate) fn transfers(&mut self, client: usize) -> Vec<(Transfer, Bytes)> {
        let frames = self.frames(client).into_iter().filter_map(|frame| match frame.performative {
            Performative::Transfer(transfer) => Some((transfer, frame.payload)),
            _ => None,
        });
        frames.collect()
    }

    /// The flows among them.
    pub(crate) fn flows(&mut self, client: usize) -> Vec<Flow> {
        let frames = self.frames(client).into_iter().filter_map(|frame| match frame.performative {
            Performative::Flow(flow) => Some(flow),
            _ => None,
        });
        frames.collect()
    }

    /// The attaches and detaches among them, in order.
    pub(crate) fn link_frames(&mut self, client: usize) -> (Vec<Attach>, Vec<Detach>) {
        let (mut attaches, mut detaches) = (Vec::new(), Vec::new());
        for frame in self.frames(client) {
            match frame.performative {
                Performative::Attach(attach) => attaches.push(*attach),
                Performative::Detach(detach) => detaches.push(*detach),
                _ => {}
            }
        }
        (attaches, detaches)
    }

    /// Attaches a sender on handle 1 and sends messages of these texts.
    pub(crate) fn send(&mut self, client: usize, target: &str, texts: &[&str]) {
        self.script(client).attach_sender(0, 1, "s", Some(target));
        self.run();
        for text in texts {
            let message = MessageBuilder::new().message_id(text).data(text.as_bytes()).build();
            self.transfer(client, 1, true, &message);
        }
        self.script(client).detach(0, 1, true);
        self.run();
        self.received(client);
    }

    /// Attaches a receiver in peek-lock mode on handle 2 with credit, and says what came.
    pub(crate) fn receive(&mut self, client: usize, source: &str, credit: u32) -> Vec<(Transfer, Bytes)> {
        self.script(client).attach_receiver(0, 2, "r", source, Some(ReceiverSettleMode::Second));
        self.run();
        self.received(client);
        self.credit(client, 0, 2, 0, credit, false);
        self.run();
        self.transfers(client)
    }

    /// Attaches a pair of links to a management node, and gives credit.
    pub(crate) fn management(&mut self, client: usize, entity: &str) {
        let node = format!("{entity}/$management");
        self.script(client).attach_sender(0, 3, "m-out", Some(&node)).attach_receiver(
            0,
            4,
            "m-in",
            &node,
            Some(ReceiverSettleMode::First),
        );
        self.credit(client, 0, 4, 0, 100, false);
        self.run();
        self.received(client);
    }

    /// Asks a management node, and says what it answers.
    pub(crate) fn request(&mut self, client: usize, operation: &str, body: &RawMap) -> Bytes {
        self.request_of_link(client, operation, None, body)
    }

    /// The same, and the request names the link that it is about.
    pub(crate) fn request_of_link(
        &mut self,
        client: usize,
        operation: &str,
        link: Option<&str>,
        body: &RawMap,
    ) -> Bytes {
        let mut request = MessageBuilder::new()
            .message_id("request")
            .application_property("operation", AnnotationValue::Str(operation));
        if let Some(link) = link {
            request = request.application_property("associated-link-name", AnnotationValue::Str(link));
        }
        let request = request.body_raw(RawValue::first(body.bytes()).unwrap()).build();
        self.transfer(client, 3, false, &request);
        self.run();
        self.transfers(client).pop().expect("an answer").1
    }
}

/// Whatever is refused, whoever is told of it can say which refusal it was.
fn is_tracked(told: &Incoming) {
    let Incoming::Frame(frame) = told else { return };
    let error = match &frame.performative {
        Performative::Disposition(disposition) => rejection(disposition.state.as_ref()),
        Performative::Detach(detach) => detach.error.as_ref(),
        Performative::End(end) => end.error.as_ref(),
        Performative::Close(close) => close.error.as_ref(),
        _ => None,
    };
    let Some(error) = error else { return };
    let description = error.description.as_deref().unwrap_or_default();
    let id = description.split_once(", TrackingId:").map(|(_, rest)| rest.len());
    assert!(id.is_some_and(|left| left > 36), "no tracking id: {error:?}");
}

/// The error in a state, inside of a transaction as well.
fn rejection(state: Option<&DeliveryState>) -> Option<&Error> {
    match state? {
        DeliveryState::Rejected(error) => error.as_deref(),
        DeliveryState::Transactional { outcome, .. } => rejection(outcome.as_deref()),
        _ => None,
    }
}

/// Where the monotonic clock begins; it has no other source of instants.
#[expect(clippy::disallowed_methods, reason = "only differences to it are used")]
fn some_instant() -> Instant {
    Instant::now()
}

/// Counts the transfer frames in what a client sends.
fn count_transfers(mut input: &[u8], sent: &mut BTreeMap<u16, u32>) {
    while let Some(first) = input.first_chunk::<8>() {
        let (&size, rest) = first.split_first_chunk::<4>().unwrap();
        let (kind, channel) = (rest[1], u16::from_be_bytes([rest[2], rest[3]]));
        let size = if first.starts_with(b"AMQP") { 8 } else { u32::from_be_bytes(size) as usize };
        if kind == 0 && input.get(8..11) == Some(&[0x00, 0x53, 0x14]) {
            *sent.entry(channel).or_default() += 1;
        }
        let Some(rest) = input.get(size.max(8)..) else { return };
        input = rest;
    }
}

/// An integer among the application properties.
/// Memory of the properties that a settlement outside of a transaction brings.
fn settlement_bytes(command: &Command) -> usize {
    match command {
        Command::Settle {
            outcome:
                Outcome::Abandon(more) | Outcome::Release(more) | Outcome::Defer(more) | Outcome::DeadLetter(more),
            ..
        } => more.0.memory_bytes(),
        _ => 0,
    }
}

pub(crate) fn status(message: &Bytes, key: &str) -> i64 {
    let sections = Sections::scan(message).unwrap();
    sections.application_properties_view(message).get(key).unwrap().as_i64().unwrap()
}

/// A text among the application properties.
pub(crate) fn property(message: &Bytes, key: &str) -> Option<String> {
    let sections = Sections::scan(message).unwrap();
    let value = sections.application_properties_view(message).get(key)?;
    value.as_str().map(str::to_owned)
}

/// The map in the body.
pub(crate) fn body_map(message: &Bytes) -> RawMap {
    let sections = Sections::scan(message).unwrap();
    RawMap::copy_from_slice(sections.body_value(message).unwrap().bytes()).unwrap()
}

/// The text of the body's data section.
pub(crate) fn text(message: &Bytes) -> String {
    let sections = Sections::scan(message).unwrap();
    let data = RawValue::first(sections.body.of(message)).unwrap().described().unwrap().1;
    String::from_utf8(data.as_binary().unwrap().to_vec()).unwrap()
}

/// The texts of what came.
pub(crate) fn texts(transfers: &[(Transfer, Bytes)]) -> Vec<String> {
    transfers.iter().map(|(_, payload)| text(payload)).collect()
}
