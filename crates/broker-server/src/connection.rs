//! The loop of one connection: socket, gateway and node meet here and nowhere else.
//!
//! Invariant: output is built only when the socket has taken all earlier output, so a peer that stops reading stops
//! being served; its deliveries wait in the queue, not here.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use amqp_gateway::{CloseReason, Gateway, Now};
use broker_core::{ClientId, Work, WorkBudget};
use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    task,
};

use crate::{
    clock::{self, Clock},
    connection_turns::{ConnectionTurns, NamespaceTurn},
    connections::ConnectionListing,
    deadline_timer::DeadlineTimer,
    effect_queue::{ControlMessage, EffectQueue, Report},
    executor::ExecutorItem,
    fault_subscription::FaultSubscription,
    metrics::ConnectionGauge,
    namespaces::{ServedNamespace, directory::reason_to_leave},
    shutdown::{Shutdown, ordered},
    socket,
    submission::{bring_outcomes, submit},
    transport::{self, Outgoing},
    unfinished::UnfinishedShare,
};

mod log;
mod placer;
mod ready_events;
mod send_pause;
mod stalled_output;
mod turn;
mod watchers;

pub(crate) use log::ConnectionLog;
pub(crate) use placer::Placer;
pub(crate) use watchers::Watchers;

use log::Carried;
use ready_events::ReadyEvents;
use send_pause::SendPause;
use stalled_output::StalledOutput;
use turn::ConnectionTurn;

/// End of a connection without a failure.
enum End {
    /// The gateway has said and heard everything.
    Closed,
    /// The peer's stream has ended.
    OfStream,
}

/// One connection at work.
pub(crate) struct Driver<S> {
    stream: S,
    gateway: Gateway,
    placer: Placer,
    client: ClientId,
    connection_gauge: ConnectionGauge,
    clock: Arc<Clock>,
    effect_queue: Arc<EffectQueue>,
    turn: ConnectionTurn,
    /// Its turns among the connections of its thread.
    namespace_turn: NamespaceTurn,
    /// Bytes that it holds of messages of which more is to come.
    unfinished: UnfinishedShare,
    send_pause: SendPause,
    outgoing: Outgoing,
    deadline_timer: DeadlineTimer,
    stalled_output: StalledOutput,
    /// The node was told that the connection is over.
    disconnect_sent: bool,
    /// Resolves once, when the server ends.
    stop: Option<Pin<Box<dyn Future<Output = Shutdown> + Send>>>,
    /// News of ordered faults, of a broker that was started for testing.
    faults: Option<FaultSubscription>,
    /// Bytes that were read.
    received: u64,
    /// Something was handed over whose outcome the peer will be told, and nothing was heard of the node since.
    awaits_outcome: bool,
    /// Its line in the list of connections.
    listed: Option<ConnectionListing>,
    /// Observers of the connection.
    watchers: Option<Watchers>,
    /// The gateway was told that the shard has failed.
    was_abandoned: bool,
    /// The reason of an end that AMQP does not know.
    failure: Option<String>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    /// Ready to run. A peer that reads nothing for `patience` is cut off.
    pub(crate) fn new(
        stream: S,
        (gateway, placer): (Gateway, Placer),
        (client, connection_gauge): (ClientId, ConnectionGauge),
        clock: Arc<Clock>,
        mut stop: watch::Receiver<Shutdown>,
        patience: Option<Duration>,
    ) -> Self {
        let account = placer.first_account();
        let unfinished = UnfinishedShare::of(Arc::clone(&account));
        let effect_queue = Arc::new(EffectQueue::new(account));
        let stop: Pin<Box<dyn Future<Output = Shutdown> + Send>> =
            Box::pin(async move { ordered(&mut stop).await });
        let (outgoing, deadline_timer) = (Outgoing::default(), DeadlineTimer::new());
        Self {
            stream,
            gateway,
            placer,
            client,
            connection_gauge,
            clock,
            effect_queue,
            turn: ConnectionTurn::new(),
            namespace_turn: NamespaceTurn::new(ConnectionTurns::of_this_thread()),
            unfinished,
            send_pause: SendPause::default(),
            outgoing,
            deadline_timer,
            stalled_output: StalledOutput::new(patience),
            disconnect_sent: false,
            stop: Some(stop),
            faults: None,
            received: 0,
            awaits_outcome: false,
            listed: None,
            watchers: None,
            was_abandoned: false,
            failure: None,
        }
    }

    /// Queue of effects and control messages for this connection.
    pub(crate) const fn effect_queue(&self) -> &Arc<EffectQueue> {
        &self.effect_queue
    }

    /// Stays in the list of connections to its end.
    pub(crate) fn with_listing(mut self, listed: ConnectionListing) -> Self {
        self.listed = Some(listed);
        self
    }

    /// Follows the news of ordered faults.
    pub(crate) fn with_faults(mut self, news: Option<watch::Receiver<()>>) -> Self {
        self.faults = news.map(FaultSubscription::new);
        self
    }

    /// Tells these of what happens.
    pub(crate) fn with_watchers(mut self, watchers: Watchers) -> Self {
        self.watchers = Some(watchers);
        self
    }

    /// Runs to the end of the connection. What is left to do then is done however it ends: see `drop`.
    pub(crate) async fn run(mut self) -> io::Result<()> {
        let result = self.serve().await;
        // To close takes its time, in which others are to have their turns.
        self.namespace_turn.leave(clock::instant);
        if result.is_err() && !self.gateway.is_dropped_by_fault() {
            self.finish_input().await;
        }
        if self.gateway.record().ending().is_none() {
            self.failure = result.as_ref().err().map(ToString::to_string);
        }
        self.leave();
        if matches!(result, Ok(End::Closed)) {
            transport::close(&mut self.stream).await;
        }
        result.map(drop)
    }

    async fn serve(&mut self) -> io::Result<End> {
        loop {
            self.exchange();
            poll_fn(|cx| Poll::Ready(self.write(cx))).await?;
            if !self.turn.has_output_left() {
                self.gateway.compact_queued();
            }
            if self.gateway.is_closed() && self.outgoing.is_empty() {
                return Ok(End::Closed);
            }
            let namespace = self.placer.placed().map(|namespace| &**namespace);
            self.send_pause.renew(namespace, &mut self.gateway, || self.clock.now().instant);
            let waiting = (!self.outgoing.is_empty()).then(|| self.outgoing.taken());
            let stalled = self.stalled_output.deadline(waiting, self.clock.now().instant)?;
            let deadlines = [self.gateway.deadline(), stalled, self.send_pause.check_at()];
            self.deadline_timer.set(deadlines.into_iter().flatten().min());
            if let Some(namespace) = self.placer.placed() {
                namespace.add_gateway_work(self.turn.take_uncounted(self.gateway.work_done()));
            }
            self.let_others_work().await;
            let ready = poll_fn(|cx| self.poll_ready(cx)).await;
            if let Some(end) = self.handle(ready)? {
                return Ok(end);
            }
        }
    }

    /// Ends a turn that has lasted long enough. The thread looks for what its other connections have received before it
    /// comes back here.
    async fn let_others_work(&mut self) {
        if self.turn.is_over() {
            self.namespace_turn.end(clock::instant);
            task::yield_now().await;
            self.turn.end();
        }
    }

    /// Handles what was read before the socket failed, for its sender may rely on it.
    async fn finish_input(&mut self) {
        while self.gateway.has_more_input() {
            let now = self.clock.now();
            self.turn.step(now.instant);
            self.handle_input(now, None);
            self.exchange();
            self.let_others_work().await;
        }
    }

    /// Does what a turn is for. A failure comes last: deliveries that came with it must reach the gateway, which gives
    /// them back.
    fn handle(&mut self, ready: ReadyEvents) -> io::Result<Option<End>> {
        let now = self.clock.now();
        self.turn.step(now.instant);
        if !ready.effects.is_empty() {
            self.awaits_outcome = false;
            self.gateway.handle_effects(now, ready.effects);
        }
        if ready.input.is_some() || ready.more_input {
            self.handle_input(now, ready.input);
            self.connection_gauge.note(self.gateway.authentication());
        }
        if ready.abandoned {
            self.was_abandoned = true;
            self.gateway.close(now, CloseReason::ShardFailed);
        }
        for control_message in ready.control_messages {
            self.handle_control_message(control_message);
        }
        if ready.deadline {
            if self.send_pause.check_at().is_some() {
                // The silence is not the peer's.
                self.gateway.input_withheld(now.instant);
            }
            self.gateway.handle_deadline(now);
        }
        if let Some(watchers) = &mut self.watchers {
            watchers.update(&mut self.gateway, self.connection_gauge.address);
        }
        if ready.faults {
            self.gateway.handle_faults(now);
        }
        if self.gateway.is_dropped_by_fault() {
            return Err(io::Error::other("cut off by an ordered fault"));
        }
        match ready.stop {
            Some(Shutdown::Failed) => self.gateway.close(now, CloseReason::Failure),
            Some(Shutdown::Asked | Shutdown::No) => self.gateway.close(now, CloseReason::Shutdown),
            None => {}
        }
        match ready.failure {
            Some(failure) => Err(failure),
            None => Ok(ready.end_of_stream.then_some(End::OfStream)),
        }
    }

    /// Has the gateway handle what was read now, or before, until nothing of it is left or the turn is over. The rest then
    /// stays with the gateway for the next turn.
    fn handle_input(&mut self, now: Now, input: Option<BytesMut>) {
        let mut done = self.gateway.work_done();
        self.gateway.give_work(self.turn.budget());
        self.gateway.limit_unfinished_bytes(self.unfinished.limit());
        if let Some(reason) = self.placer.take_reason_to_leave() {
            self.gateway.close(now, reason);
        }
        match input {
            Some(input) => {
                self.received += input.len() as u64;
                self.gateway.handle_input(now, input);
            }
            None => self.gateway.handle_more_input(now),
        }
        self.place(now);
        let mut from = now.instant;
        while self.gateway.has_more_input() && self.effect_queue.may_read() {
            let now = self.clock.now();
            let before = std::mem::replace(&mut done, self.gateway.work_done());
            if !self.turn.goes_on(Work(done.0 - before.0), (from, now.instant)) {
                break;
            }
            from = now.instant;
            self.gateway.give_work(self.turn.budget());
            self.gateway.handle_more_input(now);
            self.place(now);
        }
        self.unfinished.count(self.gateway.unfinished_bytes());
    }

    fn handle_control_message(&mut self, control_message: ControlMessage) {
        match control_message {
            ControlMessage::Report(tell) => {
                let about = self.gateway.about();
                let report = Report { about, bytes_in: self.received, bytes_out: self.outgoing.taken() };
                // The receiver may be gone.
                drop(tell.send(report));
            }
            ControlMessage::LookAtKeys => self.gateway.handle_keys_changed(self.clock.now()),
            ControlMessage::LeaveNamespace(reason) if self.placer.leave() => {
                self.gateway.close(self.clock.now(), reason);
            }
            ControlMessage::LeaveNamespace(_) => {}
            ControlMessage::End => self.gateway.close(self.clock.now(), CloseReason::Operator),
        }
    }

    /// Answers the gateway which namespace the client means. From then on the connection is known to the shard of that.
    fn place(&mut self, now: Now) {
        while let Some(request) = self.gateway.take_placement_request() {
            let was_placed = self.placer.placed().is_some();
            let placement = self.placer.place(&request);
            let entered = self.placer.placed().filter(|_| !was_placed).map(Arc::clone);
            if let Some(namespace) = &entered {
                self.enter(namespace);
                // The rest of what was read waits, as if it had not been read yet.
                if !self.effect_queue.may_read() {
                    self.gateway.give_work(WorkBudget::new(Work(0)));
                }
            }
            self.gateway.handle_placement(now, placement);
            // It may have been closed to connections before this one was listed.
            if let Some(reason) = entered.and_then(|namespace| reason_to_leave(&namespace))
                && self.placer.leave()
            {
                self.gateway.close(now, reason);
            }
        }
    }

    /// The connection is one of this namespace, and of its shard.
    fn enter(&mut self, namespace: &Arc<ServedNamespace>) {
        self.effect_queue.count_in(Arc::clone(&namespace.ingress_credit));
        self.unfinished.count_in(Arc::clone(&namespace.ingress_credit));
        let effect_queue = Arc::clone(&self.effect_queue);
        namespace.executor.push(ExecutorItem::Register(self.client, namespace.id, effect_queue));
        if let Some(listed) = &self.listed {
            listed.enter_namespace(namespace);
        }
    }

    /// Hands over what the gateway asks for, and takes what the node says to it at once.
    fn exchange(&mut self) {
        for _ in 0..EXCHANGES_MAX {
            if !self.submit() {
                return;
            }
            let effects = self.effect_queue.take();
            if effects.is_empty() {
                return;
            }
            self.awaits_outcome = false;
            self.gateway.handle_effects(self.clock.now(), effects);
        }
        self.submit();
    }

    /// Hands over what the gateway asks for; false: nothing.
    fn submit(&mut self) -> bool {
        let commands = self.gateway.take_commands();
        if commands.is_empty() {
            return false;
        }
        let Some(namespace) = self.placer.placed() else { return false };
        self.awaits_outcome |= bring_outcomes(&commands);
        self.effect_queue.attend();
        namespace.executor.note_traffic();
        self.send_pause.count(namespace, &commands, || self.clock.now().instant);
        submit(&self.effect_queue, &namespace.executor, self.client, commands);
        true
    }

    /// Builds and writes output for as long as the socket takes it and the turn lasts.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let limit = self.turn.begin_output();
        loop {
            if !self.outgoing.is_empty() {
                match self.outgoing.poll_flush(&mut self.stream, cx) {
                    Poll::Ready(result) => result?,
                    Poll::Pending => return Ok(()),
                }
            }
            let (gateway, clock) = (&mut self.gateway, &self.clock);
            let mut built = 0;
            self.outgoing.fill_and_write(&mut self.stream, cx, |out| {
                gateway.poll_gathered(clock.now(), out, limit);
                built = out.len();
            })?;
            if built == 0 {
                return Ok(());
            }
            self.gateway.output_written(built);
            self.submit();
            if built >= limit && !self.turn.goes_on_with_output(self.clock.now().instant) {
                return Ok(());
            }
        }
    }

    /// Whether it is the turn of this connection among those of its thread. Before it has a namespace it waits for none.
    fn poll_turn(&mut self, cx: &Context<'_>) -> bool {
        let Some(namespace) = self.placer.placed() else { return true };
        let weight = || namespace.definition().settings.weight;
        let has_turn = self.namespace_turn.poll_begin(namespace.residence(), weight, cx, clock::instant);
        self.turn.share(!namespace.ingress_credit.is_of_only_namespace());
        has_turn
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<ReadyEvents> {
        let mut ready = ReadyEvents::default();
        let has_turn = self.poll_turn(cx);
        if has_turn && let Poll::Ready(effects) = self.effect_queue.poll_take(cx) {
            ready.effects = effects;
        }
        ready.more_output = has_turn && self.turn.has_output_left();
        ready.control_messages = self.effect_queue.control_messages();
        ready.abandoned = self.effect_queue.is_abandoned() && !self.was_abandoned;
        if !self.outgoing.is_empty()
            && let Poll::Ready(result) = self.outgoing.poll_flush(&mut self.stream, cx)
        {
            ready.flushed = true;
            ready.failure = result.err();
        }
        if self.send_pause.check_at().is_some() {
            self.effect_queue.pass_call_on();
        } else if has_turn && ready.failure.is_none() && self.effect_queue.may_read() {
            self.poll_input(cx, &mut ready);
        }
        ready.deadline = self.deadline_timer.poll(cx).is_ready();
        if let Some(stop) = &mut self.stop
            && let Poll::Ready(stop) = stop.as_mut().poll(cx)
        {
            self.stop = None;
            ready.stop = Some(stop);
        }
        ready.faults = self.faults.as_mut().is_some_and(|faults| faults.poll(cx));
        if ready.is_empty() {
            self.turn.end();
            self.namespace_turn.end(clock::instant);
            return Poll::Pending;
        }
        Poll::Ready(ready)
    }

    /// Looks for input: what was read before, and reads the socket once nothing of that is left.
    fn poll_input(&mut self, cx: &mut Context<'_>, ready: &mut ReadyEvents) {
        ready.more_input = self.gateway.has_more_input();
        if self.gateway.wants_input()
            && let Poll::Ready(read) = socket::while_answer_is_due(self.awaits_outcome, || {
                transport::poll_read(&mut self.stream, cx)
            })
        {
            match read {
                Ok(input) => {
                    ready.end_of_stream = input.is_none();
                    ready.input = input;
                }
                Err(failure) => ready.failure = Some(failure),
            }
        }
    }
}

impl<S> Driver<S> {
    /// Takes leave of the node, once. What did not go out is given back at once, and does not wait for its locks to
    /// run out.
    fn leave(&mut self) {
        if std::mem::replace(&mut self.disconnect_sent, true) {
            return;
        }
        // After a panic the gateway's state may be anything.
        if !std::thread::panicking() {
            let (now, from) = (self.clock.now(), self.connection_gauge.address);
            self.gateway.handle_eof(now);
            if let Some(watchers) = &mut self.watchers {
                let carried = Carried { bytes_in: self.received, bytes_out: self.outgoing.taken() };
                let failure = self.failure.as_deref();
                watchers.end(&mut self.gateway, from, now.instant, carried, failure);
            }
        }
        let last = self.gateway.disconnected();
        if let Some(namespace) = self.placer.placed() {
            submit(&self.effect_queue, &namespace.executor, self.client, last);
            namespace.executor.push(ExecutorItem::Forget(self.client));
        }
        self.effect_queue.leave();
        self.listed = None;
    }
}

/// A task that is cancelled, or panics, leaves no lock behind either.
impl<S> Drop for Driver<S> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Answers taken from the node before the socket has its turn.
const EXCHANGES_MAX: u32 = 4;

#[cfg(test)]
mod tests;
