//! One connection between its AMQP engine and the node.
//!
//! Bytes, effects and the time come in through `handle_*`; commands and bytes go out through `take_commands`
//! and `poll_output`. After each `handle_*` the shell takes the commands and hands them to the node as one
//! batch, then writes the output.
//!
//! Invariant: what comes out depends on what went in and on the seed; nothing is sent that the core has not
//! answered for.

mod about;
mod effects;

use std::{sync::Arc, time::Instant};

use amqp_codec::raw::RawMap;
use amqp_engine::{Connection, Event, GatherBuffer, IncomingDelivery, LinkKey};
use broker_auth::{Authority, PeerFacts};
use broker_core::{ClientId, Command, Effect, Work, WorkBudget};
use bytes::BytesMut;

use crate::{
    condition::Refusal,
    config::{GatewayConfig, Now},
    connection::{
        Client, CoreRegistration, handshake,
        opening::Opening,
        placement::{GatewayNamespace, Placement, PlacementRefusal, PlacementRequest, PlacementRequests},
        record::ConnectionRecord,
    },
    cx::Cx,
    dialect::Dialect,
    disposition::settle::Settlements,
    endpoints::Endpoints,
    fault_injection::InjectedFaults,
    link::{LinkKind, attach::Attacher, detach::Detacher},
    otel_spans::{MessageSpans, Span},
    request::nodes::Nodes,
    tracking::Tracking,
    transaction::coordinator::Coordinator,
    transfer::{
        SectionBuffer,
        incoming::Publisher,
        outgoing::Deliverer,
        prefetch::{self, AHEAD},
    },
    turn_work::{self, TurnWork},
};

pub use about::About;

/// The link state property by which a receiver takes messages inside a transaction (transactions 4.4.4.2).
const TXN_ID: &str = "txn-id";

/// Most commands that room is made for before they come.
const COMMANDS_AHEAD_MAX: usize = 1_024;

/// Reason for which the broker ends a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CloseReason {
    /// The broker stops.
    Shutdown,
    /// The broker has failed.
    Failure,
    /// An operator wants it.
    Operator,
    /// An operator holds the namespace for maintenance.
    NamespaceHeld,
    /// The shard of the namespace has failed, and recovers.
    ShardFailed,
    /// The namespace has been deleted.
    NamespaceDeleted,
}

/// One client's side of the broker.
#[derive(Debug)]
pub struct Gateway {
    cx: Cx,
    ends: Endpoints,
    registration: CoreRegistration,
    placement_requests: PlacementRequests,
    nodes: Nodes,
    faults: InjectedFaults,
    /// Number of commands that the last input became, as a capacity hint for the next.
    commands_before: usize,
    sections: SectionBuffer,
}

impl Gateway {
    /// A connection that has just been accepted. `config` and `authority` are those of the namespace that the TLS server
    /// name or the host of HTTP leads to, or of the default one: they decide which mechanisms are offered, whether SASL can be left out,
    /// and the limits until the open is placed. `seed` makes tracking ids and message-ids; it need not be secret
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
        let cx = Cx {
            now,
            engine: Connection::new(engine_config, now.instant),
            commands: Vec::new(),
            client: Client::new(authority, peer),
            tracking,
            record: ConnectionRecord::default(),
            spans: MessageSpans::new(config.traces),
            work: TurnWork::unbounded(),
            config,
        };
        Self {
            registration: CoreRegistration::new(cx.config.deliver_window_bytes),
            cx,
            ends: Endpoints::new(),
            placement_requests: PlacementRequests::default(),
            nodes: Nodes::default(),
            faults: InjectedFaults::default(),
            commands_before: 0,
            sections: SectionBuffer::new(),
        }
    }

    /// A connection beyond the `limit` of them: the client is told when it opens, and may do nothing.
    #[must_use]
    pub fn refused_over_limit(mut self, limit: usize) -> Self {
        self.registration.refuse_over_limit(limit);
        self
    }

    /// Gives the turn that begins a budget, instead of what is left of the last one. Without a call there is no bound.
    ///
    /// Work is counted where it is done. When the budget is spent the gateway looks at no further frame:
    /// see [`Gateway::has_more_input`]. One frame is looked at with any budget that is not empty. Effects and deadlines are
    /// handled at once, and counted.
    pub fn give_work(&mut self, work: WorkBudget) {
        self.cx.work.begin(work);
    }

    /// Work that was done since the connection began.
    pub const fn work_done(&self) -> Work {
        self.cx.work.done()
    }

    /// Whether input was left when the budget was spent. The socket is not read until [`Gateway::handle_more_input`] has
    /// handled it.
    pub fn has_more_input(&self) -> bool {
        self.cx.engine.has_unread_input()
    }

    /// Goes on with the input that was left, with the budget that it was given since.
    pub fn handle_more_input(&mut self, now: Now) {
        self.cx.now = now;
        self.handle_events();
        self.commands_before = self.cx.commands.len().min(COMMANDS_AHEAD_MAX);
    }

    /// Takes what was read from the socket, and handles it as far as the budget goes.
    pub fn handle_input(&mut self, now: Now, input: impl Into<BytesMut>) {
        // Nothing is kept by a connection that is idle.
        if self.cx.commands.capacity() == 0 {
            self.cx.commands.reserve(self.commands_before);
        }
        self.cx.engine.handle_input(now.instant, input);
        self.handle_more_input(now);
    }

    /// The namespace that the gateway has to be told before it goes on: the client logs in, or opens. Answered by
    /// [`Gateway::handle_placement`], at once or later; the time-out of the open goes on. To be asked for after each `handle_*`.
    pub fn take_placement_request(&mut self) -> Option<PlacementRequest> {
        if self.cx.engine.is_closing() { None } else { self.placement_requests.take_request() }
    }

    /// Takes the answer. What the client has sent meanwhile is handled then, and may bring the next request.
    pub fn handle_placement(&mut self, now: Now, placement: Placement) {
        self.cx.now = now;
        self.opening().on_placement(placement);
        self.raise_delivery_window();
        self.handle_events();
    }

    /// Answers whatever the gateway asks with `only`, for a shell with one namespace.
    pub fn place_in(&mut self, now: Now, only: &GatewayNamespace) {
        while self.take_placement_request().is_some() {
            self.handle_placement(now, Placement::To(only.clone()));
        }
    }

    /// Bytes of messages of which more is to come.
    pub const fn unfinished_bytes(&self) -> usize {
        self.cx.engine.partial_bytes()
    }

    /// Messages of which more is to come may have so many bytes at most, until the next call. The link of one beyond it is
    /// detached with `amqp:resource-limit-exceeded`.
    pub fn limit_unfinished_bytes(&mut self, limit: usize) {
        self.cx.engine.limit_partial_bytes(limit);
    }

    /// The peer will send nothing more.
    pub fn handle_eof(&mut self, now: Now) {
        self.cx.now = now;
        self.cx.engine.handle_eof();
        self.handle_events();
    }

    /// Takes what the core says, in order.
    pub fn handle_effects(&mut self, now: Now, effects: Vec<Effect>) {
        self.cx.now = now;
        self.sections.expect(effects.len());
        self.cx.work.charge(Work::COMMAND.times(effects.len() as u64));
        let mut effects = effects;
        for next in effects.chunks_mut(AHEAD) {
            prefetch::links(next, &self.ends.links, &self.cx.engine);
            for effect in next {
                self.handle_effect(effect);
            }
        }
        self.sections.release();
        self.nodes.ask_next(&mut self.cx, &mut self.ends);
        self.raise_delivery_window();
    }

    /// The announced deadline has come. Being called early does no harm.
    pub fn handle_deadline(&mut self, now: Now) {
        self.cx.now = now;
        self.cx.engine.handle_deadline(now.instant);
        self.opening().on_deadline();
        self.handle_events();
        self.detacher().drop_expired_claims();
        self.nodes.cbs(&mut self.cx, &mut self.ends).look_at_tokens();
        self.settlements().settle_delayed();
        self.detacher().drop_idle();
    }

    /// Whether the socket should be read: not while the client does not take what it is told, nor while something that
    /// was read before is left.
    pub fn wants_input(&self) -> bool {
        !self.has_more_input() && self.cx.engine.wants_input()
    }

    /// The shell does not read the socket, for a reason of its own: the silence until `now` does not count against the client.
    pub fn input_withheld(&mut self, now: Instant) {
        self.cx.engine.input_withheld(now);
    }

    /// Whether the client has an open link by which it can send messages.
    pub fn has_senders(&self) -> bool {
        self.ends.links.open().any(|(_, link)| matches!(link.kind, LinkKind::Sender(_)))
    }

    /// When [`Gateway::handle_deadline`] wants to be called.
    pub fn deadline(&self) -> Option<Instant> {
        let links = &self.ends.links;
        let is_open = self.cx.record.has_opened() && !self.cx.engine.is_closing();
        let deadlines = [
            self.cx.engine.deadline(),
            links.claims.deadline(self.cx.now),
            self.cx.client.login_deadline(self.cx.now, is_open),
            links.idle.next_check(),
            self.nodes.deadline(),
            self.faults.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Keys of entities have changed: links that a key has let in which is gone, or permits less, are detached.
    pub fn handle_keys_changed(&mut self, now: Now) {
        self.cx.now = now;
        self.detacher().drop_lost_claims();
    }

    /// Faults may have been ordered: those strike that need not wait for the client.
    pub fn handle_faults(&mut self, now: Now) {
        self.cx.now = now;
        self.faults.on_ordered(&mut self.cx, &mut self.ends);
    }

    /// True if the connection is to end without a word.
    pub const fn is_dropped_by_fault(&self) -> bool {
        self.faults.drops_connection()
    }

    /// Commands of the client for the core, in order: one batch.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.cx.commands)
    }

    /// Appends output to `out`, with deliveries until it has grown past `soft_limit` bytes.
    pub fn poll_output(&mut self, now: Now, out: &mut BytesMut, soft_limit: usize) {
        self.cx.now = now;
        let before = out.len();
        self.cx.engine.poll_output(now.instant, out, soft_limit);
        self.registration.built(out.len() - before);
    }

    /// The same, with the payloads of large deliveries left where they lie.
    pub fn poll_gathered(&mut self, now: Now, out: &mut GatherBuffer, soft_limit: usize) {
        self.cx.now = now;
        let before = out.len();
        self.cx.engine.poll_gathered(now.instant, out, soft_limit);
        self.registration.built(out.len() - before);
    }

    /// Nothing can be written for now: deliveries that are left let go of memory that they share.
    pub fn compact_queued(&mut self) {
        self.cx.engine.compact_queued();
    }

    /// The transport has taken that many bytes of the output: as many more may be asked of the core.
    pub fn output_written(&mut self, bytes: usize) {
        self.registration.written(bytes);
        self.nodes.ask_next(&mut self.cx, &mut self.ends);
        self.raise_delivery_window();
    }

    /// Ends the connection: the client is told and may answer.
    pub fn close(&mut self, now: Now, reason: CloseReason) {
        self.cx.now = now;
        let namespace = || Arc::from(self.cx.record.namespace());
        let refusal = match reason {
            CloseReason::Shutdown => Refusal::ShuttingDown,
            CloseReason::Failure => Refusal::Failed,
            CloseReason::Operator => Refusal::Ended,
            CloseReason::NamespaceHeld => {
                Refusal::Placement(PlacementRefusal::OnHold { namespace: namespace() })
            }
            CloseReason::ShardFailed => {
                Refusal::Placement(PlacementRefusal::Recovering { namespace: namespace() })
            }
            CloseReason::NamespaceDeleted => {
                Refusal::Placement(PlacementRefusal::Deleted { namespace: namespace() })
            }
        };
        self.cx.close(&refusal);
        self.handle_events();
    }

    /// Summary of the connection, for operators.
    pub fn about(&self) -> About {
        About {
            namespace: self.cx.record.namespace().into(),
            container_id: self.cx.engine.peer().container_id.as_str().into(),
            user: self.cx.client.grants().identity().name().into(),
            keys: self.cx.client.grants().keys().into_iter().map(Box::from).collect(),
            is_service_bus: self.cx.client.dialect() == Dialect::ServiceBus,
            sessions: self.ends.sessions.len(),
            links: self.ends.links.open().count(),
            unsettled: self.ends.sessions.unsettled(),
            oldest_unsettled: self.ends.sessions.oldest_unsettled(),
        }
    }

    /// Authentication of the client so far: `none`, `anonymous`, `plain`, `external` or `token`.
    pub fn authentication(&self) -> &'static str {
        self.cx.client.authentication()
    }

    /// The spans that are over since the last call, and how many could not be made.
    pub fn take_spans(&mut self) -> (Vec<Span>, u64) {
        self.cx.spans.take()
    }

    /// Facts for the log, to look at and to take.
    pub const fn record(&mut self) -> &mut ConnectionRecord {
        &mut self.cx.record
    }

    /// True when there is nothing more to read or write.
    pub fn is_closed(&self) -> bool {
        self.cx.engine.is_closed()
    }

    /// The last commands, however the connection ended.
    pub fn disconnected(&mut self) -> Vec<Command> {
        let mut last = std::mem::take(&mut self.cx.commands);
        last.extend(self.registration.disconnect());
        last
    }

    /// Handles what the engine tells, frame by frame until the budget is spent. What a frame means is handled whole.
    fn handle_events(&mut self) {
        loop {
            let next = if self.cx.work.is_spent() {
                self.cx.engine.poll_queued_event()
            } else {
                self.cx.engine.poll_event()
            };
            let Some(mut event) = next else { return };
            self.cx.work.charge(Work::COMMAND);
            match event {
                // Left where it lies: it is large, and there are millions of them.
                Event::Transfer(ref mut delivery) => self.on_transfer(delivery),
                Event::Disposition { session, first, last, settled, state } => {
                    let before = self.cx.commands.len();
                    self.settlements().on_disposition(session, (first, last), settled, state.as_ref());
                    // The first is counted with the event.
                    let more = self.cx.commands.len().saturating_sub(before + 1);
                    self.cx.work.charge(Work::COMMAND.times(more as u64));
                }
                Event::TooLarge { link, delivery_id, tag, state, bytes, limit } => {
                    self.ends.transactions.on_work_lost(state.as_ref(), &mut self.cx);
                    if let Some(id) = self.ends.links.find(link) {
                        let (delivery, refusal) = ((delivery_id, tag), Refusal::TooLarge { bytes, limit });
                        self.publisher().on_too_large(id, delivery, state.as_ref(), &refusal);
                    }
                }
                Event::WorkLost { txn_id } => {
                    self.ends.transactions.mark_rollback_only(&txn_id, &mut self.cx);
                }
                Event::LinkFlow { link, limit, drain, properties, .. } => {
                    self.on_flow(link, limit, drain, properties.as_ref());
                }
                Event::LinkAttached { link, attach } => {
                    self.cx.work.charge(turn_work::LINK);
                    Attacher::new(&mut self.cx, &mut self.ends).on_attach(link, attach, &mut self.faults);
                }
                Event::LinkDetached { link, closed, error, by } => {
                    self.cx.log_engine_error(by, error.as_ref());
                    self.detacher().on_detached(link, closed, error.is_some(), by);
                }
                Event::DetachAnswered { link } => self.detacher().on_detach_answered(link),
                Event::SessionBegun { session } => {
                    self.cx.work.charge(turn_work::LINK);
                    self.ends.sessions.on_begun(session, &mut self.cx.engine);
                }
                Event::SessionEnded { session, error, by } => {
                    self.cx.log_engine_error(by, error.as_ref());
                    self.detacher().on_session_ended(session, by, error.is_some());
                }
                Event::SaslInit { mechanism, initial_response, hostname } => {
                    self.opening().on_sasl_init(mechanism, initial_response.as_ref(), hostname);
                }
                Event::SaslResponse(response) => self.opening().on_sasl_response(&response),
                Event::Opened(open) => self.opening().on_opened(&open),
                Event::Unsent { link, deliveries } => self.deliverer().on_unsent(link, &deliveries),
                // The peer's word on what it sent: it has settled, and needs no answer.
                Event::SettledByPeer { .. } => {}
                Event::Closed { error, by } => {
                    self.cx.on_closed(error.as_ref(), by);
                    self.detacher().on_closed(by, error.is_some());
                }
            }
        }
    }

    fn raise_delivery_window(&mut self) {
        let sessions = &mut self.ends.sessions;
        self.registration.raise_window(|cx| sessions.unsent_bytes(&cx.engine), &mut self.cx);
    }

    /// A whole delivery has come; its payload is taken.
    #[inline]
    fn on_transfer(&mut self, delivery: &mut IncomingDelivery) {
        let id = self.ends.links.find(delivery.link);
        let Some((id, link)) = id.and_then(|id| Some((id, self.ends.links.get(id)?))) else {
            // It was detached when this had come already.
            return self.ends.transactions.on_work_lost(delivery.state.as_ref(), &mut self.cx);
        };
        if delivery.tag.is_too_long() {
            self.cx.client.on_long_tag(&link.span);
        }
        match &link.kind {
            LinkKind::Sender(_) => self.publisher().on_transfer(id, delivery),
            LinkKind::Request(_) => self.nodes.on_transfer(id, delivery, &mut self.cx, &mut self.ends),
            LinkKind::Coordinator { .. } => self.coordinator().on_transfer(id, delivery),
            // The engine lets nobody send on a link that receives.
            LinkKind::Receiver(_) | LinkKind::Reply(_) | LinkKind::SubscriptionLookup(_) => {}
        }
    }

    /// The peer says how many deliveries it wants.
    fn on_flow(&mut self, key: LinkKey, limit: u64, drain: bool, properties: Option<&RawMap>) {
        let Some(id) = self.ends.links.find(key) else { return };
        if properties.is_some_and(|properties| properties.get(TXN_ID).is_some()) {
            return self.detacher().detach(id, &Refusal::TransactedReceive);
        }
        let Some(link) = self.ends.links.get_mut(id) else { return };
        match &mut link.kind {
            LinkKind::Receiver(receiver) => receiver.on_flow(id, limit, drain, &mut self.cx),
            LinkKind::Reply(replies) => {
                let session = self.ends.sessions.get_mut(link.session);
                replies.on_flow(key, limit, drain, session, &mut self.cx);
            }
            LinkKind::Sender(_)
            | LinkKind::Request(_)
            | LinkKind::SubscriptionLookup(_)
            | LinkKind::Coordinator { .. } => {}
        }
    }

    const fn opening(&mut self) -> Opening<'_> {
        Opening::new(&mut self.cx, &mut self.registration, &mut self.placement_requests)
    }

    const fn attacher(&mut self) -> Attacher<'_> {
        Attacher::new(&mut self.cx, &mut self.ends)
    }

    const fn detacher(&mut self) -> Detacher<'_> {
        Detacher::new(&mut self.cx, &mut self.ends)
    }

    const fn publisher(&mut self) -> Publisher<'_> {
        Publisher::new(&mut self.cx, &mut self.ends)
    }

    const fn deliverer(&mut self) -> Deliverer<'_> {
        Deliverer::new(&mut self.cx, &mut self.ends)
    }

    const fn settlements(&mut self) -> Settlements<'_> {
        Settlements::new(&mut self.cx, &mut self.ends, &mut self.faults)
    }

    const fn coordinator(&mut self) -> Coordinator<'_> {
        Coordinator::new(&mut self.cx, &mut self.ends, &mut self.faults)
    }
}
