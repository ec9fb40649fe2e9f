//! A broker of one core and a journal in memory, driven step by step.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use broker_filter::{Filter, Parameters, PropertySet, SqlAction, SqlFilter, Value};
use bytes::Bytes;

use crate::{
    Batch, BatchRest, ClientId, Command, Core, CoreConfig, Delivery, Effect, EntityError, EntityKind,
    EntityPath, EntitySettings, Fetched, LinkId, Message, Outcome, Output, Peeked, Position, Properties,
    PropertyValue, QueueId, QuotaError, Read, ReadId, ReceiveMode, Rule, SequenceNumber, SettleError,
    StorageError, StoredRecord, SubQueue, Ticket, Timestamp, UnsettledPolicy, Work, WorkBudget,
};

/// Records in memory. Reads are refused for what the current call appended, as the contract says.
#[derive(Default)]
pub(super) struct Journal {
    pub(super) records: BTreeMap<u64, (Bytes, usize)>,
    pub(super) released: BTreeMap<u64, u32>,
    /// Records that no effect waits for.
    pub(super) unawaited: Vec<u64>,
    end: u64,
    readable: u64,
    pub(super) effects: Vec<(ClientId, Effect)>,
    pub(super) full: bool,
    pub(super) memory_full: bool,
    pub(super) broken: Vec<u64>,
    /// Records are read by a thread: each has to be asked for again when it was read.
    pub(super) is_on_disk: bool,
    /// Reads that are not done.
    pub(super) pending: BTreeSet<u64>,
    /// Records that were read, and are forgotten when they were asked for.
    at_hand: BTreeSet<u64>,
    /// Records that this call has asked for and got.
    got: BTreeSet<u64>,
    /// Reads of the disk for which the core has waited.
    pub(super) waited: u64,
    /// Work that each call may do; `None`: any.
    pub(super) work_of_call: Option<u64>,
    /// Rest of it.
    left: Option<WorkBudget>,
    /// Work of all calls.
    pub(super) work: Work,
    /// Times that records were made readable: once before each call that delivers or does due work.
    pub(super) calls: u64,
}

impl Journal {
    /// Position of the next record.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Lets the core read all that was appended so far.
    pub(super) fn make_readable(&mut self) {
        self.calls += 1;
        self.left = self.work_of_call.map(|work| WorkBudget::new(Work(work)));
        self.readable = self.end;
        self.got.clear();
    }

    /// What was read from the disk is not in memory any more.
    pub(super) fn forget_all(&mut self) {
        self.at_hand.clear();
    }

    pub(super) fn live(&self) -> Vec<(u64, u32)> {
        let live = |at: &u64| !self.released.contains_key(at);
        self.records.iter().filter(|(at, _)| live(at)).map(|(at, (bytes, _))| (*at, size(bytes))).collect()
    }
}

impl Output for Journal {
    fn record(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        let mut bytes = index.to_vec();
        for part in rest {
            bytes.extend_from_slice(part);
        }
        let (at, length) = (self.end, size(&bytes));
        self.end += u64::from(length) + 8;
        self.records.insert(at, (bytes.into(), index.len()));
        (Position(at), length)
    }

    fn record_unawaited(&mut self, index: &[u8]) -> (Position, u32) {
        self.unawaited.push(self.end);
        self.record(index, &[])
    }

    fn release(&mut self, at: Position, length: u32) {
        assert_eq!(size(&self.records[&at.0].0), length, "released with the length it has");
        assert!(self.released.insert(at.0, length).is_none(), "released once: {at:?}");
    }

    fn effect(&mut self, client: ClientId, effect: Effect) {
        self.effects.push((client, effect));
    }

    fn read(&mut self, at: Position, length: u32) -> Result<StoredRecord, StorageError> {
        assert!(at.0 < self.readable, "a record of this same call is not readable yet");
        let record = self.records[&at.0].0.clone();
        assert_eq!(size(&record), length);
        self.waited += u64::from(self.is_on_disk && !self.got.contains(&at.0));
        if self.broken.contains(&at.0) {
            return Err(StorageError { at, reason: "broken on purpose".into() });
        }
        Ok(record)
    }

    fn read_soon(&mut self, at: Position, length: u32) -> Result<Read, StorageError> {
        if !self.is_on_disk || self.at_hand.remove(&at.0) || self.got.contains(&at.0) {
            self.got.insert(at.0);
            return self.read(at, length).map(Read::Record);
        }
        assert!(at.0 < self.readable, "a record of this same call is not readable yet");
        self.pending.insert(at.0);
        Ok(Read::Pending(ReadId(at.0)))
    }

    fn readable(&self) -> Position {
        Position(self.readable)
    }

    fn check_storage(&self) -> Result<(), QuotaError> {
        if self.full {
            return Err(QuotaError::Storage);
        }
        self.check_memory()
    }

    fn check_memory(&self) -> Result<(), QuotaError> {
        if self.memory_full { Err(QuotaError::Memory) } else { Ok(()) }
    }

    fn charge(&mut self, work: Work) {
        self.work += work;
        if let Some(left) = &mut self.left {
            left.spend(work);
        }
    }

    fn work_left(&self) -> Work {
        self.left.unwrap_or(WorkBudget::UNBOUNDED).left()
    }
}

/// Output of the core after recovery: released records, and stores that a repair left without a definition.
#[derive(Default)]
pub(super) struct Settling {
    released: Vec<u64>,
    records: u64,
}

impl Output for Settling {
    fn record(&mut self, _index: &[u8], _rest: &[&[u8]]) -> (Position, u32) {
        self.records += 1;
        (Position((1 << 60) + self.records), 1)
    }

    fn release(&mut self, at: Position, _length: u32) {
        self.released.push(at.0);
    }

    fn effect(&mut self, _client: ClientId, _effect: Effect) {
        panic!("nobody is there yet");
    }

    fn read(&mut self, _at: Position, _length: u32) -> Result<StoredRecord, StorageError> {
        panic!("recovery reads no payload");
    }

    fn readable(&self) -> Position {
        panic!("recovery reads no payload");
    }

    fn check_storage(&self) -> Result<(), QuotaError> {
        Ok(())
    }
}

/// The length of a record.
pub(super) fn size(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

/// Calls of the core after which one that still wants another will never be content.
const CALLS_MAX: u32 = 100_000;

/// The client that most tests use.
pub(super) const ME: ClientId = ClientId(1);
pub(super) const OTHER: ClientId = ClientId(2);

pub(super) struct Broker {
    pub(super) core: Core,
    pub(super) journal: Journal,
    pub(super) now: Timestamp,
    ticket: u64,
}

pub(super) fn main_path(name: &str) -> EntityPath {
    EntityPath { entity: name.into(), sub_queue: SubQueue::Main }
}

pub(super) fn dead_letters(name: &str) -> EntityPath {
    EntityPath { entity: name.into(), sub_queue: SubQueue::DeadLetter }
}

pub(super) fn message(text: &str) -> Message {
    Message { payload: Bytes::copy_from_slice(text.as_bytes()), ..Message::default() }
}

pub(super) fn message_for(text: &str, ttl_ms: u64) -> Message {
    Message { time_to_live: Some(Duration::from_millis(ttl_ms)), ..message(text) }
}

pub(super) fn property(properties: &Properties, key: &str) -> Option<String> {
    properties.0.iter().find(|(name, _)| &**name == key).map(|(_, value)| match value {
        PropertyValue::Text(text) => text.to_string(),
        PropertyValue::Encoded(bytes) => format!("{bytes:?}"),
        PropertyValue::Value(value) => format!("{value:?}"),
        PropertyValue::Removed => "removed".to_owned(),
    })
}

pub(super) fn properties(pairs: &[(&str, &str)]) -> Properties {
    Properties(pairs.iter().map(|(key, text)| ((*key).into(), PropertyValue::Text((*text).into()))).collect())
}

pub(super) fn text(delivery: &Delivery) -> String {
    String::from_utf8(delivery.stored.payload.to_vec()).unwrap()
}

impl Broker {
    pub(super) fn new() -> Self {
        Self::with(CoreConfig { token_key: [7; 16], ..CoreConfig::default() })
    }

    /// With a queue `q` and two clients that have all the byte budget there is.
    pub(super) fn with_queue(settings: EntitySettings) -> Self {
        let mut broker = Self::new();
        broker.create("q", settings);
        broker
    }

    pub(super) fn with(config: CoreConfig) -> Self {
        let mut broker = Self {
            core: Core::new(config),
            journal: Journal::default(),
            now: Timestamp::from_millis(1_000_000),
            ticket: 100,
        };
        for client in [ME, OTHER] {
            broker.tell(client, Command::Connect);
            broker.tell(client, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 });
        }
        broker
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        // Far apart, so that answers are merged only where a test wants it.
        self.ticket += 10;
        Ticket(self.ticket)
    }

    /// Gives one command and says what the client was told, by this or by what followed from it.
    pub(super) fn tell(&mut self, client: ClientId, command: Command) -> Vec<Effect> {
        self.journal.make_readable();
        self.handle_all(Batch { client, commands: vec![command] });
        self.settle_down(client)
    }

    pub(super) fn tell_all(&mut self, client: ClientId, commands: Vec<Command>) -> Vec<Effect> {
        self.journal.make_readable();
        self.handle_all(Batch { client, commands });
        self.settle_down(client)
    }

    /// Handles a batch, and lets the disk read what its commands need.
    fn handle_all(&mut self, batch: Batch) {
        let mut rest = self.core.handle_batch(self.now, batch, &mut self.journal);
        while let Some(BatchRest { batch, reads }) = rest {
            while reads.iter().any(|read| self.journal.pending.contains(&read.0)) {
                self.finish_read();
            }
            self.journal.make_readable();
            rest = self.core.handle_batch(self.now, batch, &mut self.journal);
        }
    }

    /// Delivers, and lets the disk read, until nothing is left to do.
    pub(super) fn deliver_all(&mut self) {
        self.deliver_at_hand();
        while self.finish_read() {
            self.deliver_at_hand();
        }
    }

    /// Delivers what need not be read from the disk.
    pub(super) fn deliver_at_hand(&mut self) {
        for _ in 0..CALLS_MAX {
            self.journal.make_readable();
            if !self.core.deliver(self.now, &mut self.journal) {
                return;
            }
        }
        panic!("there is always more to hand out");
    }

    /// The disk has read one of the records that are asked for, if there is one.
    pub(super) fn finish_read(&mut self) -> bool {
        let Some(at) = self.journal.pending.pop_last() else { return false };
        self.journal.at_hand.insert(at);
        self.core.handle_read_done(ReadId(at));
        true
    }

    fn settle_down(&mut self, client: ClientId) -> Vec<Effect> {
        self.deliver_all();
        self.take(client)
    }

    /// Effects for a client since the last call.
    pub(super) fn take(&mut self, client: ClientId) -> Vec<Effect> {
        let (mine, others) =
            std::mem::take(&mut self.journal.effects).into_iter().partition(|(to, _)| *to == client);
        self.journal.effects = others;
        mine.into_iter().map(|(_, effect): (ClientId, Effect)| effect).collect()
    }

    /// Lets time pass, deadline by deadline as the node does.
    pub(super) fn wait(&mut self, millis: u64) {
        let end = self.now.after(Duration::from_millis(millis));
        while let Some(at) = self.core.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.run_deadlines();
        }
        self.now = end;
        self.run_deadlines();
    }

    pub(super) fn run_deadlines(&mut self) {
        for _ in 0..CALLS_MAX {
            self.journal.make_readable();
            let more = self.core.handle_deadline(self.now, &mut self.journal);
            self.deliver_all();
            // The end of a read makes due work due again.
            if !more && self.core.deadline().is_none_or(|at| at > self.now) {
                return;
            }
        }
        panic!("there is always more to do: {:?}", self.core.deadline());
    }

    pub(super) fn create(&mut self, name: &str, settings: EntitySettings) {
        let ticket = self.ticket();
        let told = self.tell(
            ME,
            Command::CreateEntity {
                name: name.into(),
                kind: EntityKind::Queue,
                settings: Box::new(settings),
                ticket,
            },
        );
        assert!(matches!(told.as_slice(), [Effect::EntityDone { .. }]), "{told:?}");
    }

    /// Gives an entity other properties.
    pub(super) fn update(&mut self, name: &str, settings: EntitySettings) -> Vec<Effect> {
        let (ticket, settings) = (self.ticket(), Box::new(settings));
        self.tell(ME, Command::UpdateEntity { name: name.into(), settings, expected: None, ticket })
    }

    pub(super) fn queue(&self, name: &str) -> QueueId {
        self.core.entity(name).unwrap().queue
    }

    /// Publishes and demands acceptance.
    pub(super) fn publish(&mut self, message: Message) {
        let ticket = self.ticket();
        let queue = self.queue("q");
        let told = self.tell(ME, Command::Publish { queue, message, ticket: Some(ticket) });
        let accepted =
            told.iter().any(|effect| matches!(effect, Effect::Published { first, .. } if *first == ticket));
        assert!(accepted, "{told:?}");
        for effect in told {
            if !matches!(effect, Effect::Published { .. }) {
                self.journal.effects.push((ME, effect));
            }
        }
    }

    pub(super) fn publish_all(&mut self, texts: &[&str]) {
        for text in texts {
            self.publish(message(text));
        }
    }

    pub(super) fn open(&mut self, client: ClientId, link: u32, path: EntityPath, mode: ReceiveMode) {
        self.open_with(client, link, path, mode, UnsettledPolicy::KeepLocks);
    }

    pub(super) fn open_with(
        &mut self,
        client: ClientId,
        link: u32,
        path: EntityPath,
        mode: ReceiveMode,
        unsettled: UnsettledPolicy,
    ) {
        let command = Command::OpenConsumer {
            consumer: LinkId(link),
            path,
            mode,
            unsettled,
            session: None,
            auto_create: false,
        };
        let told = self.tell(client, command);
        assert!(matches!(told.as_slice(), [Effect::ConsumerOpened { .. }]), "{told:?}");
    }

    pub(super) fn credit(&mut self, client: ClientId, link: u32, limit: u64) -> Vec<Delivery> {
        let told = self.tell(client, Command::Credit { consumer: LinkId(link), limit, drain: false });
        deliveries(told)
    }

    /// Deliveries to a client since the last call.
    pub(super) fn received(&mut self, client: ClientId) -> Vec<Delivery> {
        deliveries(self.take(client))
    }

    /// Receives up to `count` messages over a link made for this.
    pub(super) fn receive(&mut self, path: EntityPath, mode: ReceiveMode, count: u64) -> Vec<Delivery> {
        self.open(ME, 999, path, mode);
        let got = self.credit(ME, 999, count);
        self.tell(ME, Command::CloseConsumer { consumer: LinkId(999) });
        got
    }

    /// Locks up to `count` messages of `q`.
    pub(super) fn lock(&mut self, count: u64) -> Vec<Delivery> {
        self.receive(main_path("q"), ReceiveMode::PeekLock, count)
    }

    pub(super) fn lock_one(&mut self) -> Delivery {
        self.lock(1).pop().expect("there is a message")
    }

    pub(super) fn settle(&mut self, delivery: &Delivery, outcome: Outcome) -> Result<(), SettleError> {
        let ticket = self.ticket();
        let command = Command::Settle {
            queue: delivery.queue,
            sequence: delivery.sequence,
            lock: delivery.lock.unwrap().id,
            outcome,
            ticket: Some(ticket),
        };
        let told = self.tell(ME, command);
        let mut answer = None;
        for effect in told {
            match effect {
                Effect::Settled { first, last } if (first, last) == (ticket, ticket) => answer = Some(Ok(())),
                Effect::SettleRefused { ticket: refused, error } if refused == ticket => {
                    answer = Some(Err(error));
                }
                other => self.journal.effects.push((ME, other)),
            }
        }
        answer.expect("a settlement with a ticket is answered")
    }

    pub(super) fn peek(&mut self, path: EntityPath, from: u64, count: u32) -> Vec<Peeked> {
        let ticket = self.ticket();
        let from = SequenceNumber(from);
        let told = self.tell(ME, Command::Peek { path, session: None, from, count, bytes: u64::MAX, ticket });
        match told.into_iter().next() {
            Some(Effect::Peeked { messages, .. }) => messages,
            other => panic!("{other:?}"),
        }
    }

    /// Asks for deferred messages by number.
    pub(super) fn fetch(
        &mut self,
        path: EntityPath,
        numbers: &[u64],
        delete: bool,
    ) -> Result<Vec<Fetched>, EntityError> {
        let ticket = self.ticket();
        let sequences = numbers.iter().copied().map(SequenceNumber).collect();
        let told = self.tell(
            ME,
            Command::ReceiveDeferred { path, session: None, sequences, delete, bytes: 1 << 20, ticket },
        );
        match told.into_iter().next() {
            Some(Effect::Fetched { messages, .. }) => Ok(messages),
            Some(Effect::RequestRefused { error, .. }) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    /// Schedules messages `delay` from now and says their numbers.
    pub(super) fn schedule(&mut self, texts: &[&str], delay: u64) -> Vec<u64> {
        let ticket = self.ticket();
        let due = Some(self.now.after(Duration::from_millis(delay)));
        let messages = texts.iter().map(|text| Message { scheduled_enqueue_time: due, ..message(text) });
        let schedule = Command::Schedule { path: main_path("q"), messages: messages.collect(), ticket };
        match self.tell(ME, schedule).into_iter().next() {
            Some(Effect::Scheduled { ticket: answered, sequences }) if answered == ticket => {
                sequences.into_iter().map(|sequence| sequence.0).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn cancel(&mut self, numbers: &[u64]) -> Result<(), EntityError> {
        let ticket = self.ticket();
        let sequences = numbers.iter().copied().map(SequenceNumber).collect();
        let told = self.tell(ME, Command::CancelScheduled { path: main_path("q"), sequences, ticket });
        match told.into_iter().next() {
            Some(Effect::Settled { first, last }) if (first, last) == (ticket, ticket) => Ok(()),
            Some(Effect::RequestRefused { error, .. }) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    /// Texts of all messages of the dead-letter store of `q`, in order, with their reasons.
    pub(super) fn dead(&mut self) -> Vec<(String, Option<String>)> {
        let peeked = self.peek(dead_letters("q"), 0, 1000);
        let show = |peeked: &Peeked| {
            let text = String::from_utf8(peeked.stored.payload.to_vec()).unwrap();
            (text, property(&peeked.stored.properties, "DeadLetterReason"))
        };
        peeked.iter().map(show).collect()
    }

    pub(super) fn active(&self) -> u64 {
        self.core.entity("q").unwrap().active
    }

    /// A core that has read back the journal, as after a crash.
    pub(super) fn replayed(&self) -> Core {
        let mut core = Core::new(self.core.state.messages.config.clone());
        for (at, (bytes, index)) in &self.journal.records {
            core.replay(Position(*at), &bytes[..*index], size(bytes)).unwrap();
        }
        // The journal asks for the live records before recovery ends; from then on the core reports each release.
        let mut live: BTreeMap<u64, u32> = core.live_records().map(|(at, length)| (at.0, length)).collect();
        let mut scratch = Settling::default();
        core.recovered(&mut scratch);
        assert_eq!(scratch.records, 0, "recovery has nothing to write");
        for at in scratch.released {
            live.remove(&at);
        }
        assert!(core.live_records().map(|(at, length)| (at.0, length)).collect::<BTreeMap<_, _>>() == live);
        core
    }

    /// Crash and restart. Links and clients are gone, but for a new connection of each.
    pub(super) fn restart(&mut self) {
        self.core = self.replayed();
        for client in [ME, OTHER] {
            self.tell(client, Command::Connect);
            self.tell(client, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 });
        }
        self.journal.effects.clear();
    }

    /// Demands that the journal's idea of what is alive is the core's.
    pub(super) fn check_liveness(&self) {
        let mut live: Vec<(u64, u32)> = self.core.live_records().map(|(at, length)| (at.0, length)).collect();
        live.sort_unstable();
        assert_eq!(live, self.journal.live());
    }
}

pub(super) fn deliveries(effects: Vec<Effect>) -> Vec<Delivery> {
    effects
        .into_iter()
        .filter_map(|effect| if let Effect::Delivery(d) = effect { Some(d) } else { None })
        .collect()
}

pub(super) fn texts(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(text).collect()
}

/// A subscription of the topic `t`.
pub(super) fn subscription(name: &str) -> EntityPath {
    main_path(&format!("t/Subscriptions/{name}"))
}

/// The dead letters of a subscription of the topic `t`.
pub(super) fn dead_letters_of(name: &str) -> EntityPath {
    dead_letters(&format!("t/Subscriptions/{name}"))
}

/// A message with user properties.
pub(super) fn message_with(text: &str, users: &[(&str, Value)]) -> Message {
    let mut properties = PropertySet::new();
    properties.extend_user(users.iter().map(|(name, value)| ((*name).into(), value.clone())));
    Message { properties: Some(Box::new(properties)), ..message(text) }
}

/// A rule of the SQL language; an empty filter lets everything in.
pub(super) fn rule(name: &str, filter: &str, action: Option<&str>) -> Rule {
    let filter = match filter {
        "" => Filter::True,
        text => Filter::Sql(SqlFilter::parse(text, Parameters::new()).unwrap()),
    };
    let action = action.map(|text| SqlAction::parse(text, Parameters::new()).unwrap());
    Rule { name: name.into(), filter, action }
}

impl Broker {
    /// With a topic `t` that has no subscriptions.
    pub(super) fn with_topic(settings: EntitySettings) -> Self {
        let mut broker = Self::new();
        broker.create_kind("t", EntityKind::Topic, settings);
        broker
    }

    pub(super) fn create_kind(&mut self, name: &str, kind: EntityKind, settings: EntitySettings) {
        let ticket = self.ticket();
        let settings = Box::new(settings);
        let command = Command::CreateEntity { name: name.into(), kind, settings, ticket };
        assert_eq!(self.ask(command), Ok(()));
    }

    /// Gives a command that is answered by `EntityDone` or refused.
    pub(super) fn ask(&mut self, command: Command) -> Result<(), EntityError> {
        let mut answer = None;
        for effect in self.tell(ME, command) {
            match effect {
                Effect::EntityDone { .. } => answer = Some(Ok(())),
                Effect::RequestRefused { error, .. } => answer = Some(Err(error)),
                other => self.journal.effects.push((ME, other)),
            }
        }
        answer.expect("the request is answered")
    }

    /// Creates a subscription of `t`.
    pub(super) fn subscribe(&mut self, name: &str, settings: EntitySettings, rules: Vec<Rule>) {
        let ticket = self.ticket();
        let name = subscription(name).entity;
        let settings = Box::new(settings);
        assert_eq!(self.ask(Command::CreateSubscription { name, settings, rules, ticket }), Ok(()));
    }

    /// Publishes to `t` and demands acceptance.
    pub(super) fn send(&mut self, messages: Vec<Message>) {
        let ticket = self.ticket();
        let queue = self.queue("t");
        let told = self.tell(ME, Command::PublishBatch { queue, messages, ticket: Some(ticket) });
        let accepted =
            told.iter().any(|effect| matches!(effect, Effect::Published { first, .. } if *first == ticket));
        assert!(accepted, "{told:?}");
        let others = told.into_iter().filter(|effect| matches!(effect, Effect::Delivery(_)));
        self.journal.effects.extend(others.map(|effect| (ME, effect)));
    }

    /// Texts of all messages of a store, in order, with one of their properties.
    pub(super) fn shown_with(&mut self, path: EntityPath, key: &str) -> Vec<(String, Option<String>)> {
        let show = |peeked: &Peeked| {
            let text = String::from_utf8(peeked.stored.payload.to_vec()).unwrap();
            (text, property(&peeked.stored.properties, key))
        };
        self.peek(path, 0, 1000).iter().map(show).collect()
    }

    /// Texts of all messages of a store, in order.
    pub(super) fn shown_texts(&mut self, path: EntityPath) -> Vec<String> {
        self.shown_with(path, "").into_iter().map(|(text, _)| text).collect()
    }
}
