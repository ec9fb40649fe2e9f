//! One connection between its AMQP engine and the node.
//!
//! Bytes, effects and the time come in through `handle_*`; commands and bytes go out through `take_commands`
//! and `poll_output`. After each `handle_*` the shell takes the commands and hands them to the node as one
//! batch, then writes the output.
//!
//! Invariant: what comes out depends on what went in and on the seed; nothing is sent that the core has not
//! answered for.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use amqp_codec::types::Symbol;
use amqp_engine::{Connection, Event, GatherBuffer, LinkKey, SessionId};
use broker_auth::{Authority, Grants, Identity, PeerFacts};
use broker_core::{ClientId, Command, Effect, Timestamp};
use bytes::BytesMut;

use crate::{
    cbs::Cbs,
    client_library::ClientLibrary,
    condition::Refusal,
    config::{GatewayConfig, Now},
    connection_record::ConnectionRecord,
    coordinator::Transactions,
    delivery_window::DeliveryWindow,
    fault_injection::InjectedFaults,
    handshake,
    key_index::Index,
    large_replies::LargeReplies,
    link::{Links, Session, Sessions},
    link_idle_timeout::IdleLinks,
    log_spans,
    otel_spans::Traces,
    prefetch::AHEAD,
    requests::Pending,
    settlement_rules::Dialect,
    tracking::Tracking,
};

/// Size of the new sections of a usual delivery, in bytes.
const SECTIONS_BYTES: usize = 256;
/// A delivery on its way counts as at least so many bytes: what is known of it takes as much, however short its message is.
pub(crate) const DELIVERY_BYTES: u32 = 256;
/// Below this much room new memory is taken before the next delivery is written, in bytes.
pub(crate) const SCRATCH_LOW: usize = 512;
/// Most memory that is taken at once for sections, in bytes: it is freed when its last delivery is sent.
const SCRATCH_MAX: usize = 16 << 10;

/// Most commands that room is made for before they come.
const COMMANDS_AHEAD_MAX: usize = 1_024;

/// Summary of a connection for operators: its client, and what it has open.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct About {
    /// Container id; empty before its open.
    pub container_id: Box<str>,
    /// The user, key or certificate subject that it logged in as; `anonymous` without one.
    pub user: Box<str>,
    /// Names of the keys and providers whose tokens it has put.
    pub keys: Vec<Box<str>>,
    /// It has shown that it is a client of Service Bus.
    pub is_service_bus: bool,
    /// Sessions that are open.
    pub sessions: usize,
    /// Links that are attached.
    pub links: usize,
    /// Deliveries that the client has not settled.
    pub unsettled: usize,
    /// When the oldest of them went out, to the second by the broker's time.
    pub oldest_unsettled: Option<Timestamp>,
}

/// One client's side of the broker.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) config: Arc<GatewayConfig>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) peer: PeerFacts,
    pub(crate) engine: Connection,
    pub(crate) tracking: Tracking,
    /// Container id of the peer.
    pub(crate) container: Box<str>,
    /// Client library of the peer.
    pub(crate) library: ClientLibrary,
    pub(crate) grants: Grants,
    /// Service Bus once the client has shown that it is one.
    pub(crate) dialect: Dialect,
    /// Whether SASL has authenticated the client.
    pub(crate) authenticated: bool,
    /// Metric label of the SASL mechanism.
    pub(crate) log_in: &'static str,
    /// The mechanism that was asked for its missing initial response.
    pub(crate) challenged: Option<Symbol>,
    pub(crate) sessions: Sessions,
    pub(crate) links: Links,
    /// From the engine's names of links and sessions to ours.
    pub(crate) by_key: Index<LinkKey>,
    pub(crate) by_session: Index<SessionId>,
    /// Requests that wait for the core, by number.
    pub(crate) pending: BTreeMap<u64, Pending>,
    pub(crate) next_request: u64,
    /// Those of them that bring messages.
    pub(crate) large_replies: LargeReplies,
    pub(crate) transactions: Transactions,
    pub(crate) delivery_window: DeliveryWindow,
    pub(crate) cbs: Cbs,
    pub(crate) injected_faults: InjectedFaults,
    /// Activity counters of the links at the last idle check.
    pub(crate) idle_links: IdleLinks,
    /// Spans of the messages that pass; `None`: none are wanted.
    pub(crate) traces: Option<Box<Traces>>,
    /// Facts that the log is to have.
    pub(crate) record: ConnectionRecord,
    /// When the first claim of a link ends, in seconds since 1970.
    pub(crate) claims_end: Option<u64>,
    pub(crate) commands: Vec<Command>,
    /// Number of commands that the last input became, as a capacity hint for the next.
    commands_before: usize,
    /// Whether the core knows the client.
    pub(crate) connected: bool,
    /// The connections that the broker takes, where this one is beyond them.
    pub(crate) over_limit: Option<usize>,
    /// Buffer for sections of deliveries before the engine takes them.
    pub(crate) scratch: BytesMut,
    /// Size of the next buffer, in bytes.
    pub(crate) scratch_chunk: usize,
    pub(crate) now: Now,
}

impl Gateway {
    /// A connection that has just been accepted. `seed` makes tracking ids and message-ids; it need not be secret
    /// but should differ between connections and between runs.
    pub fn new(
        config: Arc<GatewayConfig>,
        authority: Arc<Authority>,
        client: ClientId,
        peer: PeerFacts,
        seed: u64,
        now: Now,
    ) -> Self {
        let mut tracking = Tracking::new(seed, client);
        let note = tracking.reference(&config.server_name);
        let engine_config = handshake::engine_config(&config, &authority, &peer, note);
        let engine = Connection::new(engine_config, now.instant);
        let delivery_window = DeliveryWindow::new(config.deliver_window_bytes);
        let traces = config.traces.then(Box::default);
        Self {
            config,
            authority,
            peer,
            engine,
            tracking,
            container: Box::default(),
            library: ClientLibrary::default(),
            grants: Grants::new(Identity::nobody()),
            dialect: Dialect::Plain,
            authenticated: false,
            log_in: "none",
            challenged: None,
            sessions: Sessions::new(),
            links: Links::new(),
            by_key: Index::new(),
            by_session: Index::new(),
            pending: BTreeMap::new(),
            next_request: 0,
            large_replies: LargeReplies::default(),
            transactions: Transactions::default(),
            delivery_window,
            cbs: Cbs::default(),
            injected_faults: InjectedFaults::default(),
            idle_links: IdleLinks::default(),
            traces,
            record: ConnectionRecord::default(),
            claims_end: None,
            commands: Vec::new(),
            commands_before: 0,
            connected: false,
            over_limit: None,
            scratch: BytesMut::new(),
            scratch_chunk: SCRATCH_LOW,
            now,
        }
    }

    /// A connection beyond the `limit` of them: the client is told when it opens, and may do nothing.
    #[must_use]
    pub fn refused_over_limit(mut self, limit: usize) -> Self {
        self.over_limit = Some(limit);
        self
    }

    /// Takes what was read from the socket.
    pub fn handle_input(&mut self, now: Now, input: impl Into<BytesMut>) {
        self.now = now;
        // Nothing is kept by a connection that is idle.
        if self.commands.capacity() == 0 {
            self.commands.reserve(self.commands_before);
        }
        self.engine.handle_input(now.instant, input);
        self.handle_events();
        self.commands_before = self.commands.len().min(COMMANDS_AHEAD_MAX);
    }

    /// The peer will send nothing more.
    pub fn handle_eof(&mut self, now: Now) {
        self.now = now;
        self.engine.handle_eof();
        self.handle_events();
    }

    /// Takes what the core says, in order.
    pub fn handle_effects(&mut self, now: Now, effects: Vec<Effect>) {
        self.now = now;
        // One piece of memory for the fresh sections of many deliveries, none kept by an idle connection.
        self.scratch_chunk = effects.len().saturating_mul(SECTIONS_BYTES).clamp(SCRATCH_LOW, SCRATCH_MAX);
        let mut effects = effects.into_iter();
        while !effects.as_slice().is_empty() {
            self.prefetch(effects.as_slice());
            let mut done = 0;
            for effect in effects.as_mut_slice().iter_mut().take(AHEAD) {
                // Those are large, and there are millions of them: they are not taken from where they lie.
                let Effect::Delivery(delivery) = effect else { break };
                self.on_delivery(delivery);
                done += 1;
            }
            if let Some(last) = usize::checked_sub(done, 1) {
                drop(effects.nth(last));
            } else if let Some(effect) = effects.next() {
                self.handle_effect(effect);
            }
        }
        self.scratch = BytesMut::new();
        self.request_next_large_reply();
        self.raise_delivery_window();
    }

    /// The announced deadline has come. Being called early does no harm.
    pub fn handle_deadline(&mut self, now: Now) {
        self.now = now;
        self.engine.handle_deadline(now.instant);
        self.handle_events();
        self.drop_expired_claims();
        self.look_at_tokens();
        self.settle_delayed();
        self.detach_idle_links();
    }

    /// Whether the socket should be read: not while the client does not take what it is told.
    pub fn wants_input(&self) -> bool {
        self.engine.wants_input()
    }

    /// When [`Gateway::handle_deadline`] wants to be called.
    pub fn deadline(&self) -> Option<Instant> {
        let claims = [self.claims_deadline(), self.tokens_deadline()];
        let own = [self.engine.deadline(), self.delayed_deadline(), self.idle_links.next_check()];
        let deadlines = claims.into_iter().chain(own);
        deadlines.flatten().min()
    }

    /// Commands of the client for the core, in order: one batch.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Appends output to `out`, with deliveries until it has grown past `soft_limit` bytes.
    pub fn poll_output(&mut self, now: Now, out: &mut BytesMut, soft_limit: usize) {
        self.now = now;
        let before = out.len();
        self.engine.poll_output(now.instant, out, soft_limit);
        self.delivery_window.built(out.len() - before);
    }

    /// The same, with the payloads of large deliveries left where they lie.
    pub fn poll_gathered(&mut self, now: Now, out: &mut GatherBuffer, soft_limit: usize) {
        self.now = now;
        let before = out.len();
        self.engine.poll_gathered(now.instant, out, soft_limit);
        self.delivery_window.built(out.len() - before);
    }

    /// Nothing can be written for now: deliveries that are left let go of memory that they share.
    pub fn compact_queued(&mut self) {
        self.engine.compact_queued();
    }

    /// The transport has taken that many bytes of the output: as many more may be asked of the core.
    pub fn output_written(&mut self, bytes: usize) {
        self.delivery_window.written(bytes);
        self.request_next_large_reply();
        self.raise_delivery_window();
    }

    /// Ends the connection because the broker stops: the client is told and may answer.
    pub fn shut_down(&mut self, now: Now) {
        self.close(now, &Refusal::ShuttingDown);
    }

    /// Ends the connection because an operator wants it: the client is told and may answer.
    pub fn end(&mut self, now: Now) {
        self.close(now, &Refusal::Ended);
    }

    fn close(&mut self, now: Now, why: &Refusal) {
        self.now = now;
        self.close_with(why);
        self.handle_events();
    }

    pub(crate) fn close_with(&mut self, why: &Refusal) {
        let error = self.error(why, "");
        self.record.set_closing(why, &error);
        self.engine.close(Some(error));
    }

    /// Ends the connection because the broker has failed: the client is told and may answer.
    pub fn fail(&mut self, now: Now) {
        self.close(now, &Refusal::Failed);
    }

    /// Summary of the connection, for operators.
    pub fn about(&self) -> About {
        About {
            container_id: self.engine.peer().container_id.as_str().into(),
            user: self.grants.identity().name().into(),
            keys: self.grants.keys().into_iter().map(Box::from).collect(),
            is_service_bus: self.dialect == Dialect::ServiceBus,
            sessions: self.sessions.iter().count(),
            links: self.links.iter().filter(|(_, link)| !link.detached_by_broker).count(),
            unsettled: self.sessions.iter().map(|(_, session)| session.unsettled.len()).sum(),
            oldest_unsettled: self.oldest_unsettled(),
        }
    }

    fn oldest_unsettled(&self) -> Option<Timestamp> {
        let seconds =
            self.sessions.iter().filter_map(|(_, session)| session.unsettled.oldest_since()).min()?;
        Some(Timestamp::from_millis(u64::from(seconds) * 1_000))
    }

    /// Facts for the log, to look at and to take.
    pub const fn record(&mut self) -> &mut ConnectionRecord {
        &mut self.record
    }

    /// True when there is nothing more to read or write.
    pub fn is_closed(&self) -> bool {
        self.engine.is_closed()
    }

    /// The last commands, however the connection ended.
    pub fn disconnected(&mut self) -> Vec<Command> {
        let mut last = std::mem::take(&mut self.commands);
        if std::mem::take(&mut self.connected) {
            last.push(Command::Disconnect);
        }
        last
    }

    /// Whether outcomes other than `accepted` wait before they go out.
    pub(crate) fn delays_outcomes(&self) -> bool {
        self.library.overwrites_early_outcomes() && self.dialect == Dialect::ServiceBus
    }

    fn handle_events(&mut self) {
        while let Some(mut event) = self.engine.poll_event() {
            // Those are large, and there are millions of them: they are not taken from where they lie.
            if let Event::Transfer(delivery) = &mut event {
                self.on_transfer(delivery);
            } else {
                self.handle_event(event);
            }
        }
    }

    /// The peer has begun a session.
    pub(crate) fn on_session(&mut self, id: SessionId) {
        match self.sessions.insert(Session::new(id)) {
            Some(number) => {
                self.by_session.insert(id, number);
                if let Some(session) = self.sessions.get_mut(number) {
                    session.span = log_spans::session(number);
                }
            }
            // The engine's own limit is lower, so this is not reached.
            None => self.engine.end_session(id, None),
        }
    }

    /// Bytes of deliveries that the engine has been given and has not sent.
    fn waiting_bytes(&mut self) -> u64 {
        self.sessions
            .iter_mut()
            .map(|session| session.waiting(self.engine.unsent_deliveries(session.id)))
            .sum()
    }

    pub(crate) fn raise_delivery_window(&mut self) {
        if !self.connected {
            return;
        }
        let waiting = self.waiting_bytes();
        if let Some(limit) = self.delivery_window.raise(waiting) {
            self.commands.push(Command::ByteBudget { limit, min_bytes: DELIVERY_BYTES });
        }
    }
}
