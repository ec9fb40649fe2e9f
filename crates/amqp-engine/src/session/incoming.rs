//! Incoming transfers of a session (transport 2.6.12 to 2.6.14, 2.7.5).
//!
//! Invariant: each delivery comes out once: whole, or as too large and without its bytes; or not at all.

use amqp_codec::performative::{DeliveryState, Disposition, Transfer};
use amqp_codec::types::{DeliveryTag, ReceiverSettleMode, Role, SenderSettleMode};

use super::{Session, unattached};
use crate::condition;
use crate::config::Config;
use crate::context::Context;
use crate::delivery::{Mismatch, Partial, PartialBytes, Payload, UnsettledError};
use crate::event::{Event, IncomingDelivery};
use crate::fault::Fault;
use crate::ids::DeliveryId;
use crate::link::{Link, LinkEnd, LinkState, Receiver};
use crate::output::Output;

/// State of the connection that its sessions use while they handle a transfer.
pub(crate) struct TransferContext<'a> {
    pub(crate) config: &'a Config,
    /// Bytes of unfinished deliveries of the whole connection.
    pub(crate) partial_bytes: &'a mut PartialBytes,
    /// Our handle of the link, where a session with many unsettled deliveries got one that is left to the peer to settle.
    pub(crate) left_to_peer: Option<u32>,
}

/// Unsettled deliveries that a session may have whatever its connection has.
const FREE_UNSETTLED: usize = 64;

impl Session {
    /// Takes in a transfer; tells of the delivery that it completes.
    #[inline]
    pub(crate) fn on_transfer(
        &mut self,
        context: &mut TransferContext<'_>,
        transfer: &mut Transfer,
        payload: Payload,
    ) -> Result<Option<Event>, Fault> {
        self.windows.on_transfer().map_err(|e| Fault::session(condition::WINDOW_VIOLATION, e.to_string()))?;
        let handle = self.links.local_handle(transfer.handle);
        let Some(link) = handle.and_then(|handle| self.links.get_mut(handle)) else {
            return Err(unattached("transfer", transfer.handle));
        };
        if matches!(link.state, LinkState::Detached { .. }) {
            return Ok(self.skip(transfer));
        }
        let ours = link.key.handle;
        let Some(receiver) = link.receiver_mut() else {
            return Err(Fault::link(
                ours,
                condition::NOT_ALLOWED,
                "transfer on a link whose receiver sent it",
            ));
        };
        match receiver.partial.take() {
            None => self.begin_delivery(context, ours, transfer, payload),
            Some(partial) => {
                context.partial_bytes.release(partial.len());
                let named = Event::work_lost(partial.state.as_ref().or(transfer.state.as_ref()));
                let done = self.continue_delivery(context, ours, partial, transfer, payload);
                if let (Err(_), Some(Event::WorkLost { txn_id })) = (&done, named) {
                    // The handler of the fault reports it.
                    transfer.state = Some(DeliveryState::Transactional { txn_id, outcome: None });
                }
                done
            }
        }
    }

    /// A transfer on a link that is no longer: it counts for the session, and for nothing else. Its transaction hears of
    /// it.
    fn skip(&mut self, transfer: &Transfer) -> Option<Event> {
        if !transfer.more || transfer.aborted {
            self.windows.on_delivery_end();
        }
        Event::work_lost(transfer.state.as_ref())
    }

    /// The first transfer of a delivery.
    #[inline]
    fn begin_delivery(
        &mut self,
        context: &mut TransferContext<'_>,
        handle: u32,
        transfer: &mut Transfer,
        payload: Payload,
    ) -> Result<Option<Event>, Fault> {
        let (Some(id), Some(tag)) = (transfer.delivery_id, transfer.delivery_tag) else {
            return Err(unnamed(handle, transfer));
        };
        let wire = id;
        let id = self.unsettled.note_id(wire, context.config.strict_ids).map_err(|e| id_fault(wire, e))?;
        let Some(link) = self.links.get_mut(handle) else { return Ok(None) };
        let mode = effective_mode(link, transfer)?;
        let (key, snd_settle_mode) = (link.key, link.snd_settle_mode);
        let Some(receiver) = link.receiver_mut() else { return Ok(None) };
        check_admission(receiver, context.config, handle, transfer)?;
        if transfer.aborted {
            self.windows.on_delivery_end();
            return Ok(None);
        }
        let (settled, limit) = (transfer.settled == Some(true), receiver.max_message_size);
        let too_large = is_too_large(limit, handle, settled, payload.len() as u64)?;
        // Every client sends the format on the first transfer; one that leaves it out means 0.
        let message_format = transfer.message_format.unwrap_or(0);
        if !settled {
            receiver.unsettled += 1;
            let left_to_peer = receiver.settles_second && mode == ReceiverSettleMode::Second;
            self.unsettled
                .insert(context.config.hash_seed, handle, (id, wire), tag, context.config.strict_ids)
                .map_err(|e| tag_fault(handle, tag, e))?;
            if left_to_peer {
                self.unsettled.leave_to_peer(id);
                if self.unsettled.len() > FREE_UNSETTLED {
                    context.left_to_peer = Some(handle);
                }
            }
        }
        if transfer.more {
            let stays = context.partial_bytes.held() == 0;
            let mut partial = Partial::new((id, wire), tag, message_format, mode, transfer, payload, stays);
            if too_large {
                partial.drop_payload(limit);
            }
            reserve_partial(context, handle, partial.len())
                .inspect_err(|_| transfer.state = partial.state.take())?;
            receiver.partial = Some(Box::new(partial));
            return Ok(None);
        }
        self.windows.on_delivery_end();
        check_settled(handle, snd_settle_mode, settled)?;
        let delivery_id = DeliveryId(id);
        if too_large {
            let bytes = payload.len() as u64;
            let state = transfer.state.take();
            return Ok(Some(Event::TooLarge { link: key, delivery_id, tag, state, bytes, limit }));
        }
        Ok(Some(Event::Transfer(IncomingDelivery {
            link: key,
            delivery_id,
            tag,
            message_format,
            settled,
            state: transfer.state.take(),
            resume: transfer.resume,
            rcv_settle_mode: mode,
            payload: payload.into_bytes(),
        })))
    }

    /// A further transfer of a delivery.
    fn continue_delivery(
        &mut self,
        context: &mut TransferContext<'_>,
        handle: u32,
        mut partial: Box<Partial>,
        transfer: &mut Transfer,
        payload: Payload,
    ) -> Result<Option<Event>, Fault> {
        partial.check(transfer).map_err(|mismatch| mismatch_fault(handle, &partial, mismatch))?;
        if transfer.aborted {
            self.windows.on_delivery_end();
            self.settle_received(partial.id);
            return Ok(None);
        }
        let Some(link) = self.links.get_mut(handle) else { return Ok(None) };
        effective_mode(link, transfer)?;
        let (key, snd_settle_mode) = (link.key, link.snd_settle_mode);
        let Some(receiver) = link.receiver_mut() else { return Ok(None) };
        let settled = partial.settled || transfer.settled == Some(true);
        // A dropped payload stays dropped, even when the answered attach has raised the limit since.
        let limit = partial.exceeds().unwrap_or(receiver.max_message_size);
        if is_too_large(limit, handle, settled, partial.bytes() + payload.len() as u64)? {
            partial.drop_payload(limit);
        }
        partial.append(transfer, payload);
        if transfer.more {
            reserve_partial(context, handle, partial.len())?;
            receiver.partial = Some(partial);
            return Ok(None);
        }
        self.windows.on_delivery_end();
        if partial.settled && !partial.settled_at_first {
            self.settle_received(partial.id);
        }
        check_settled(handle, snd_settle_mode, partial.settled)?;
        Ok(Some(partial.into_event(key)))
    }

    /// The peer tells the state of deliveries. Late dispositions of a session that has just ended do no harm.
    #[inline]
    pub(crate) fn on_disposition(
        &mut self,
        context: &mut Context<'_>,
        disposition: &mut Disposition,
    ) -> Option<Event> {
        let Disposition { role, first, last, settled, .. } = *disposition;
        if self.ended {
            return Event::work_lost(disposition.state.as_ref().filter(|_| role == Role::Receiver));
        }
        let last = last.unwrap_or(first);
        let state = disposition.state.take();
        if role == Role::Sender {
            let runs = self.peer_settles(first, last, settled);
            let session = self.id;
            context.events.extend(runs.into_iter().map(|(first, last)| Event::SettledByPeer {
                session,
                first,
                last,
                settled,
                state: state.clone(),
            }));
            self.renew_window(context.config, context.output);
            return None;
        }
        let (first, last) = self.send_queue.sent_part(first, last)?;
        Some(Event::Disposition { session: self.id, first, last, settled, state })
    }

    /// Settles a delivery that was received and tells the peer its state; one that is left to the peer to settle is
    /// only told.
    #[inline]
    pub(crate) fn settle_incoming(
        &mut self,
        config: &Config,
        output: &mut Output,
        delivery: DeliveryId,
        state: DeliveryState,
    ) {
        if self.unsettled.is_left_to_peer(delivery.0) {
            return self.propose_incoming(output, delivery, state);
        }
        let Some(wire) = self.settle_received(delivery.0) else { return };
        self.push_disposition(output, Role::Receiver, (wire, wire), true, Some(state));
        self.renew_window(config, output);
    }

    /// Tells the peer the state of a delivery that was received, without settling it.
    pub(crate) fn propose_incoming(
        &mut self,
        output: &mut Output,
        delivery: DeliveryId,
        state: DeliveryState,
    ) {
        let Some(wire) = self.unsettled.wire_of(delivery.0) else { return };
        self.push_disposition(output, Role::Receiver, (wire, wire), false, Some(state));
    }

    /// Number of deliveries that were received and are unsettled.
    pub(crate) fn unsettled_incoming(&self) -> usize {
        self.unsettled.len()
    }

    /// Whether a delivery that was received is unsettled and came on the link of this handle.
    pub(crate) fn is_unsettled_on(&self, delivery: DeliveryId, handle: u32) -> bool {
        self.unsettled.link_of(delivery.0) == Some(handle)
    }

    /// Forgets what a receiving link holds. Gives the bytes of its unfinished delivery.
    pub(crate) fn release_link(&mut self, context: &mut Context<'_>, handle: u32) -> usize {
        let Some(link) = self.links.get_mut(handle) else { return 0 };
        link.flow_due = false;
        let LinkEnd::Receiver(receiver) = &mut link.end else { return 0 };
        let partial = receiver.partial.take().map_or(0, |partial| partial.len());
        if std::mem::take(&mut receiver.unsettled) > 0 {
            self.unsettled.forget_link(handle);
            self.renew_window(context.config, context.output);
        }
        partial
    }

    /// Settles a delivery that was received; gives its id for the peer, or nothing when it is unknown or already
    /// settled.
    #[inline]
    fn settle_received(&mut self, id: u32) -> Option<u32> {
        let (handle, wire) = self.unsettled.settle(id)?;
        if let Some(receiver) = self.links.get_mut(handle).and_then(Link::receiver_mut) {
            receiver.unsettled = receiver.unsettled.saturating_sub(1);
        }
        Some(wire)
    }

    /// The peer tells the state of what it sent itself. Gives the runs of deliveries that were
    /// unsettled; when it has settled they no longer are.
    fn peer_settles(&mut self, first: u32, last: u32, settled: bool) -> Vec<(DeliveryId, DeliveryId)> {
        let mut runs: Vec<(DeliveryId, DeliveryId)> = Vec::new();
        for id in self.unsettled.range(first, last).map(DeliveryId) {
            match runs.last_mut() {
                Some((_, end)) if end.next() == id => *end = id,
                _ => runs.push((id, id)),
            }
        }
        if settled {
            for &(first, last) in &runs {
                let mut id = first;
                while !last.precedes(id) {
                    self.settle_received(id.0);
                    id = id.next();
                }
            }
        }
        runs
    }
}

/// Checks a new delivery, and takes its credit.
#[inline]
fn check_admission(
    receiver: &mut Receiver,
    config: &Config,
    handle: u32,
    transfer: &Transfer,
) -> Result<(), Fault> {
    if !receiver.credit.take() && config.strict_credit {
        return Err(Fault::link(handle, condition::TRANSFER_LIMIT_EXCEEDED, "transfer without link-credit"));
    }
    if receiver.only_resumed && !transfer.resume {
        let text = "new delivery while the unsettled map is incomplete";
        return Err(Fault::link(handle, condition::ILLEGAL_STATE, text));
    }
    Ok(())
}

/// Whether a delivery is larger than its link's limit; 0 is none. Where it is settled there is no disposition to
/// say so, and it costs the link.
#[inline]
fn is_too_large(limit: u64, handle: u32, settled: bool, bytes: u64) -> Result<bool, Fault> {
    let too_large = limit != 0 && bytes > limit;
    if too_large && settled {
        let text = format!("message of at least {bytes} bytes, at most {limit} are allowed");
        return Err(Fault::link(handle, condition::MESSAGE_SIZE_EXCEEDED, text));
    }
    Ok(too_large)
}

/// The receiver settle mode that holds for a transfer.
#[inline]
fn effective_mode(link: &Link, transfer: &Transfer) -> Result<ReceiverSettleMode, Fault> {
    let mode = transfer.rcv_settle_mode.unwrap_or(link.rcv_settle_mode);
    if mode == ReceiverSettleMode::Second && link.rcv_settle_mode == ReceiverSettleMode::First {
        let text = "transfer with rcv-settle-mode second on a link with first";
        return Err(Fault::link(link.key.handle, condition::INVALID_FIELD, text));
    }
    Ok(mode)
}

/// Whether a finished delivery is settled as its link's mode demands.
#[inline]
fn check_settled(handle: u32, mode: SenderSettleMode, settled: bool) -> Result<(), Fault> {
    let text = match (mode, settled) {
        (SenderSettleMode::Settled, false) => "unsettled delivery on a link with snd-settle-mode settled",
        (SenderSettleMode::Unsettled, true) => "settled delivery on a link with snd-settle-mode unsettled",
        _ => return Ok(()),
    };
    Err(Fault::link(handle, condition::INVALID_FIELD, text))
}

fn reserve_partial(context: &mut TransferContext<'_>, handle: u32, len: usize) -> Result<(), Fault> {
    context.partial_bytes.take(len, context.config.max_partial_bytes).map_err(|limit| {
        let text = format!("unfinished deliveries exceed {limit} bytes");
        Fault::link(handle, condition::RESOURCE_LIMIT_EXCEEDED, text)
    })
}

/// A first transfer that does not say which delivery it begins.
#[cold]
fn unnamed(handle: u32, transfer: &Transfer) -> Fault {
    let field = if transfer.delivery_id.is_none() { "delivery-id" } else { "delivery-tag" };
    Fault::link(handle, condition::INVALID_FIELD, format!("first transfer of a delivery without {field}"))
}

#[cold]
fn id_fault(id: u32, why: UnsettledError) -> Fault {
    let text = match why {
        UnsettledError::IdNotNext { last } => format!("delivery-id {id} does not follow {last}"),
        UnsettledError::DuplicateTag => format!("delivery-id {id} names two deliveries"),
    };
    Fault::session(condition::INVALID_FIELD, text)
}

#[cold]
fn tag_fault(handle: u32, tag: DeliveryTag, why: UnsettledError) -> Fault {
    match why {
        UnsettledError::IdNotNext { last } => Fault::session(
            condition::INVALID_FIELD,
            format!("delivery-id is 2^31 or more ahead of {last}, which is unsettled"),
        ),
        UnsettledError::DuplicateTag => {
            let text = format!("{tag:?} is that of another unsettled delivery");
            Fault::link(handle, condition::NOT_ALLOWED, text)
        }
    }
}

#[cold]
fn mismatch_fault(handle: u32, partial: &Partial, mismatch: Mismatch) -> Fault {
    let (condition, what) = match mismatch {
        Mismatch::DeliveryId => (condition::NOT_ALLOWED, "another delivery-id"),
        Mismatch::DeliveryTag => (condition::NOT_ALLOWED, "another delivery-tag"),
        Mismatch::MessageFormat => (condition::INVALID_FIELD, "another message-format"),
    };
    let text = format!("transfer with {what} before the last transfer of delivery {}", partial.id);
    Fault::link(handle, condition, text)
}
