//! What each client of plain AMQP goes through besides the first steps, in the words of each.

use std::{collections::BTreeSet, time::Duration};

use amqp_codec::{
    performative::{DeliveryState, Error, Performative, SaslCode},
    types::SenderSettleMode,
};
use broker_auth::DEVELOPMENT_KEY_NAME;
use broker_core::{EntitySettings, LockLifetime};
use testkit::Wire;

use crate::{
    broker::{Broker, QUEUE},
    dialect::modified,
    message::Delivery,
    plain_sdks::{IN, OUT, Peer, PlainSdk, bare, failures},
    testing::advance,
};

/// The handle of a second receiver.
const DEAD: u32 = 2;

fn numbered(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("message {number}")).collect()
}

/// A broker whose queue has these settings, and a client with sender and receiver.
fn connected<'d>(broker: &Broker, sdk: &'d PlainSdk) -> Peer<'d> {
    let mut peer = Peer::connect(broker, sdk);
    peer.sender(QUEUE);
    peer.receiver(QUEUE);
    peer
}

/// The one dead letter there is.
fn dead_letter(peer: &mut Peer<'_>, sdk: &PlainSdk) -> Delivery {
    peer.attach(DEAD, (sdk.receiver)("dead", &format!("{QUEUE}/$DeadLetterQueue")));
    let mut letters = peer.drain(DEAD, 2);
    assert_eq!(letters.len(), 1);
    let (transfer, payload) = letters.remove(0);
    Delivery { transfer, frames: 1, payload }
}

/// 1,000 sends are on their way before the first answer is read; all are accepted, and come in their order.
pub(crate) fn pipelines(sdk: &PlainSdk) {
    let broker = Broker::start();
    let mut peer = connected(&broker, sdk);
    let texts = numbered(1000);
    peer.send_all(&texts);
    peer.take_all(&texts);
    peer.close();
}

/// What is sent settled is stored, and nothing is said of it.
pub(crate) fn sends_settled(sdk: &PlainSdk) {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, sdk);
    let mut at_most_once = (sdk.sender)("at most once", QUEUE);
    at_most_once.snd_settle_mode = at_most_once.snd_settle_mode.map(|_| SenderSettleMode::Settled);
    peer.attach(OUT, at_most_once);
    let texts = numbered(20);
    for text in &texts {
        peer.send_on(OUT, true, &(sdk.message)(text));
    }
    let mut probe = (sdk.receiver)("probe", QUEUE);
    probe.handle = 9;
    peer.wire.script.attach(0, probe);
    loop {
        match peer.wire.next_frame().unwrap().performative {
            Performative::Attach(_) => break,
            Performative::Disposition(answer) => panic!("{answer:?}"),
            _ => {}
        }
    }
    peer.receiver(QUEUE);
    peer.take_all(&texts);
    peer.close();
}

/// A message that fails as often as it may is found among the dead letters, with the reason.
pub(crate) fn counts_to_the_dead_letters(sdk: &PlainSdk) {
    let broker = Broker::with_queue(EntitySettings { max_delivery_count: 3, ..EntitySettings::default() });
    let mut peer = connected(&broker, sdk);
    peer.send(&["poison"]);
    for count in 0..3 {
        peer.flow(IN, 1, false);
        let (transfer, payload) = peer.delivery();
        assert_eq!(failures(&payload), count);
        peer.settle(transfer.delivery_id.unwrap(), Some(modified(Some(true), Some(false))));
    }
    assert!(peer.drain(IN, 1).is_empty());
    let letter = dead_letter(&mut peer, sdk);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("MaxDeliveryCountExceeded"));
    assert!(letter.property("DeadLetterErrorDescription").is_some());
    peer.settle(letter.id(), Some(DeliveryState::Accepted));
    assert!(peer.drain(DEAD, 1).is_empty());
    peer.close();
}

/// The error of a rejection is the reason of the dead letter.
pub(crate) fn tells_why(sdk: &PlainSdk) {
    let broker = Broker::start();
    let mut peer = connected(&broker, sdk);
    peer.send(&["bad"]);
    peer.flow(IN, 1, false);
    let (transfer, _) = peer.delivery();
    let error = Error::new("app:broken", "cannot be read");
    peer.settle(transfer.delivery_id.unwrap(), Some(DeliveryState::Rejected(Some(Box::new(error)))));
    assert!(peer.drain(IN, 1).is_empty());
    let letter = dead_letter(&mut peer, sdk);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("app:broken"));
    assert_eq!(letter.property("DeadLetterErrorDescription").as_deref(), Some("cannot be read"));
    peer.close();
}

/// Two receivers get different messages, and all of them.
pub(crate) fn competes(sdk: &PlainSdk) {
    let broker = Broker::start();
    let mut peers = [connected(&broker, sdk), connected(&broker, sdk)];
    let texts = numbered(10);
    peers[0].send_all(&texts);
    let mut seen = BTreeSet::new();
    for peer in &mut peers {
        peer.flow(IN, 5, false);
        for _ in 0..5 {
            let (transfer, payload) = peer.delivery();
            seen.insert(bare(&payload).to_vec());
            peer.settle(transfer.delivery_id.unwrap(), Some(DeliveryState::Accepted));
        }
    }
    let wanted: BTreeSet<Vec<u8>> = texts.iter().map(|text| bare(&(sdk.message)(text)).to_vec()).collect();
    assert_eq!(seen, wanted);
    for mut peer in peers {
        assert!(peer.drain(IN, 1).is_empty());
        peer.close();
    }
}

/// A settlement after the end of its lock completes nothing: the message comes again, counted.
pub(crate) fn comes_too_late(sdk: &PlainSdk) {
    let broker = Broker::with_queue(EntitySettings { hold: LockLifetime::Lock, ..EntitySettings::default() });
    let mut peer = connected(&broker, sdk);
    peer.send(&["slow"]);
    peer.flow(IN, 1, false);
    let (transfer, _) = peer.delivery();
    advance(broker.address, Duration::from_secs(61));
    peer.settle(transfer.delivery_id.unwrap(), Some(DeliveryState::Accepted));
    let again = peer.drain(IN, 1);
    assert_eq!(again.iter().map(|(_, payload)| failures(payload)).collect::<Vec<_>>(), [1]);
    peer.settle(again[0].0.delivery_id.unwrap(), Some(DeliveryState::Accepted));
    assert!(peer.drain(IN, 1).is_empty());
    peer.close();
}

/// A settlement counts however late it comes: the link holds the message.
pub(crate) fn settles_late(sdk: &PlainSdk) {
    let broker = Broker::start();
    let mut peer = connected(&broker, sdk);
    peer.send(&["slow"]);
    peer.flow(IN, 1, false);
    let (transfer, _) = peer.delivery();
    advance(broker.address, Duration::from_secs(3_600));
    assert!(peer.drain(IN, 1).is_empty());
    peer.settle(transfer.delivery_id.unwrap(), Some(DeliveryState::Accepted));
    peer.close_link(IN);
    peer.receiver(QUEUE);
    assert!(peer.drain(IN, 1).is_empty());
    peer.close();
}

/// A wrong key is an outcome of SASL, and nothing follows.
pub(crate) fn is_refused_with_a_wrong_key(sdk: &PlainSdk) {
    let broker = Broker::start();
    let mut wire = Wire::connect(broker.address).unwrap();
    wire.script.sasl_plain(DEVELOPMENT_KEY_NAME, "another key").open_with((sdk.open)());
    assert_eq!(wire.sasl_outcome().unwrap().code, SaslCode::Auth);
    assert_eq!(wire.rest().unwrap(), []);
}

/// A message that is too large is rejected with the error for it, and the link goes on.
pub(crate) fn is_told_of_a_size(sdk: &PlainSdk) {
    let broker = Broker::with(|config| config.core.max_message_bytes = 4096);
    let mut peer = Peer::connect(&broker, sdk);
    let answer = peer.attach(OUT, (sdk.sender)("out", QUEUE));
    assert_eq!(answer.max_message_size, Some(4096));
    let id = peer.send_on(OUT, false, &(sdk.message)(&"x".repeat(5000)));
    let DeliveryState::Rejected(Some(error)) = peer.outcome_of(id) else { panic!() };
    assert_eq!(error.condition, "amqp:link:message-size-exceeded");
    peer.send(&["small"]);
    peer.close();
}
