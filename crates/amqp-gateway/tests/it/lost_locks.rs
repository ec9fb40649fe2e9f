//! A settlement in a transaction whose lock was lost: its client is told, and the transaction commits nothing.

use std::time::Duration;

use amqp_codec::{
    message::MessageBuilder,
    performative::{DeliveryState, Performative, TxnId},
    raw::{AnnotationValue, RawMap, RawValue},
};
use broker_core::{EntitySettings, LockLifetime};
use testkit::Script;

use crate::{
    harness::{World, property, status, texts},
    sessions::lock_token,
    stale_locks::{SINCE, Since, held, lapsed},
    transactions::*,
};

const ROLLBACK: &str = "amqp:transaction:rollback";
const MESSAGE_LOST: &str = "com.microsoft:message-lock-lost";
const SESSION_LOST: &str = "com.microsoft:session-lock-lost";
const LOCK: Duration = Duration::from_secs(60);
/// The link of [`World::receive`].
const RECEIVER: u32 = 2;

/// The settlement of a delivery.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum By {
    /// A disposition that waits for an answer.
    Unsettled,
    /// A disposition that does not.
    Settled,
    /// The lock token, in a request.
    Token,
}

const BY: [By; 3] = [By::Unsettled, By::Settled, By::Token];

/// How the lock of a message is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Loss {
    /// Its time is over, and nothing has looked at it.
    Unnoticed,
    /// Its time is over, and the message is back in its queue.
    Returned,
    /// Another client has the message.
    TakenByAnother,
    /// The same client has the message again, on the same link.
    TakenAgain,
    /// Another client has completed the message.
    Completed,
}

const LOSSES: [Loss; 5] =
    [Loss::Unnoticed, Loss::Returned, Loss::TakenByAnother, Loss::TakenAgain, Loss::Completed];

impl Loss {
    fn happen(self, world: &mut World, client: usize) {
        if self == Self::Unnoticed {
            world.now.instant += LOCK;
            world.now.utc = world.now.utc.after(LOCK);
            return;
        }
        world.pass(LOCK);
        match self {
            Self::Unnoticed | Self::Returned => {}
            Self::TakenByAnother | Self::Completed => {
                let other = world.service_bus();
                let got = world.receive(other, "q", 1);
                assert_eq!(texts(&got), ["m"]);
                if self == Self::Completed {
                    let id = got[0].0.delivery_id.unwrap();
                    world.script(other).disposition(0, id, id, true, Some(DeliveryState::Accepted));
                    world.run();
                }
            }
            Self::TakenAgain => {
                world.credit(client, 0, RECEIVER, 1, 1, false);
                world.run();
                assert_eq!(texts(&world.transfers(client)), ["m"]);
            }
        }
        world.received(client);
    }
}

/// A client that holds a message under a lock with a timer.
struct Holder {
    world: World,
    peer: Peer,
    delivery: u32,
    /// Lock token, in an array.
    tokens: Vec<u8>,
}

impl Holder {
    fn of_message(service_bus: bool) -> Self {
        let (mut world, peer) = world(service_bus, &["m"]);
        let settings = EntitySettings {
            hold: LockLifetime::Lock,
            lock_duration: LOCK,
            max_delivery_count: 10,
            ..EntitySettings::default()
        };
        world.update("q", settings);
        if service_bus {
            world.management(peer.client, "q");
        }
        let (transfer, payload) = world.receive(peer.client, "q", 1).remove(0);
        // Plain clients are told no token.
        let tokens = if service_bus { lock_token(&payload) } else { Vec::new() };
        Self { world, peer, delivery: transfer.delivery_id.unwrap(), tokens }
    }

    /// A message of a session whose lock has ended.
    fn of_session(since: Since) -> Self {
        Self::of(lapsed(since))
    }

    /// One of a session whose lock runs.
    fn in_session() -> Self {
        Self::of(held())
    }

    fn of((mut world, client, delivery, tokens): (World, usize, u32, Vec<u8>)) -> Self {
        let mut peer = Peer::new(client);
        peer.coordinate(&mut world, 0);
        world.script(client).attach_sender(0, SENDER, "sender", Some("s"));
        world.run();
        world.received(client);
        Self { world, peer, delivery, tokens }
    }

    /// Completes the message, in a transaction or in none. Says the condition of the refusal, if there is an answer that refuses it.
    fn complete(&mut self, by: By, txn: Option<&TxnId>) -> Option<String> {
        let Self { world, peer, delivery, tokens } = self;
        let client = peer.client;
        if by == By::Token {
            let body = RawMap::with_string_keys(&[
                ("lock-tokens", AnnotationValue::Raw(RawValue::first(tokens).unwrap())),
                ("disposition-status", AnnotationValue::Str("completed")),
            ]);
            let request = MessageBuilder::new()
                .message_id("request")
                .application_property("operation", AnnotationValue::Str("com.microsoft:update-disposition"))
                .body_raw(RawValue::first(body.bytes()).unwrap())
                .build();
            peer.next += 1;
            let mut frame = Script::transfer_frame(3, peer.next, false);
            frame.state = txn.map(posting);
            world.script(client).transfer_with(0, frame, &request);
            world.run();
            let reply = world.transfers(client).pop().expect("a reply").1;
            return (status(&reply, "statusCode") != 200)
                .then(|| property(&reply, "errorCondition").expect("the reason"));
        }
        let accepted = DeliveryState::Accepted;
        let state = txn.map_or(accepted.clone(), |txn| within(txn, accepted));
        let settled = by == By::Settled;
        world.script(client).disposition(0, *delivery, *delivery, settled, Some(state));
        world.run();
        let mut told = None;
        for frame in world.frames(client) {
            if let Performative::Disposition(answer) = frame.performative
                && let Some(DeliveryState::Rejected(Some(error))) = answer.state
            {
                assert_eq!(told.replace(error.condition.to_string()), None, "answered once");
            }
        }
        told
    }

    /// Begins a transaction with a message of its own.
    fn declare(&mut self) -> TxnId {
        let txn = self.peer.declare(&mut self.world);
        let sent = self.peer.send(&mut self.world, SENDER, &txn, "never");
        assert_eq!(sent, accepted_within(&txn));
        txn
    }

    /// The commit is refused, and nothing of the transaction was done.
    fn assert_rolls_back(mut self, txn: &TxnId, case: &str) {
        let end = self.peer.discharge(&mut self.world, txn, false);
        assert!(!matches!(end, Answer::State(DeliveryState::Accepted)), "{case}: it commits");
        assert_eq!(end.condition(), ROLLBACK, "{case}");
        self.world.pass(10 * LOCK);
        assert!(!left(&mut self.world, "q").contains(&"never".to_owned()), "{case}");
    }
}

#[test]
fn a_settlement_after_the_loss_of_its_lock_is_refused_and_so_is_the_commit() {
    for service_bus in [false, true] {
        for loss in LOSSES {
            for by in BY {
                if by == By::Token && !service_bus {
                    continue;
                }
                for declared_before in [false, true] {
                    let case = format!("service bus: {service_bus}, {loss:?}, {by:?}, {declared_before}");
                    let mut holder = Holder::of_message(service_bus);
                    let mut txn = declared_before.then(|| holder.declare());
                    loss.happen(&mut holder.world, holder.peer.client);
                    let txn = txn.take().unwrap_or_else(|| holder.declare());
                    let told = holder.complete(by, Some(&txn));
                    let wanted = (by != By::Settled).then_some(MESSAGE_LOST);
                    assert_eq!(told.as_deref(), wanted, "{case}");
                    holder.assert_rolls_back(&txn, &case);
                }
            }
        }
    }
}

#[test]
fn a_lock_that_is_lost_between_the_settlement_and_the_commit_refuses_the_commit() {
    for service_bus in [false, true] {
        for loss in LOSSES {
            for by in BY {
                if by == By::Token && !service_bus {
                    continue;
                }
                let case = format!("service bus: {service_bus}, {loss:?}, {by:?}");
                let mut holder = Holder::of_message(service_bus);
                let txn = holder.declare();
                assert_eq!(holder.complete(by, Some(&txn)), None, "{case}");
                loss.happen(&mut holder.world, holder.peer.client);
                holder.assert_rolls_back(&txn, &case);
            }
        }
    }
}

#[test]
fn a_settlement_after_the_loss_of_its_session_is_refused_and_so_is_the_commit() {
    for since in SINCE {
        for by in BY {
            let case = format!("{since:?}, {by:?}");
            let mut holder = Holder::of_session(since);
            let txn = holder.peer.declare(&mut holder.world);
            let told = holder.complete(by, Some(&txn));
            assert!(told.is_none_or(|told| told == SESSION_LOST), "{case}");
            holder.assert_rolls_back(&txn, &case);
        }
    }
}

#[test]
fn a_settlement_that_was_refused_for_its_lock_before_is_in_no_later_transaction() {
    for service_bus in [false, true] {
        for loss in LOSSES {
            for first_in_transaction in [false, true] {
                let case = format!("service bus: {service_bus}, {loss:?}, {first_in_transaction}");
                let mut holder = Holder::of_message(service_bus);
                loss.happen(&mut holder.world, holder.peer.client);
                let first = first_in_transaction.then(|| holder.declare());
                assert_eq!(
                    holder.complete(By::Unsettled, first.as_ref()).as_deref(),
                    Some(MESSAGE_LOST),
                    "{case}"
                );
                if let Some(first) = first {
                    assert_eq!(holder.peer.discharge(&mut holder.world, &first, true), done());
                }
                // The client tries once more, in another transaction.
                let txn = holder.declare();
                assert_eq!(
                    holder.complete(By::Unsettled, Some(&txn)),
                    None,
                    "{case}: the delivery is closed"
                );
                holder.assert_rolls_back(&txn, &case);
            }
        }
    }
}

#[test]
fn a_session_that_is_lost_between_the_settlement_and_the_commit_refuses_the_commit() {
    for by in BY {
        for noticed in [false, true] {
            let mut holder = Holder::in_session();
            let txn = holder.peer.declare(&mut holder.world);
            assert_eq!(holder.complete(by, Some(&txn)), None, "{by:?}");
            if noticed {
                holder.world.pass(LOCK);
            } else {
                holder.world.now.instant += LOCK;
                holder.world.now.utc = holder.world.now.utc.after(LOCK);
            }
            holder.world.received(holder.peer.client);
            assert_eq!(holder.world.active("s"), 1, "{by:?}");
            holder.assert_rolls_back(&txn, &format!("{by:?}, noticed: {noticed}"));
        }
    }
}
