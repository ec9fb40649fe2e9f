//! Effects leave only as far as the agreement says, whatever the disk has done.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::{Agreement, NamespaceCommand, NamespaceRequest};

/// Agrees up to a position that the test moves, and answers while the test says so.
#[derive(Clone, Debug, Default)]
struct Scripted {
    agreed: Arc<AtomicU64>,
    mute: Arc<AtomicBool>,
}

impl Agreement for Scripted {
    fn agreed(&self, durable: Position) -> Position {
        Position(self.agreed.load(Ordering::Relaxed)).min(durable)
    }

    fn may_answer(&self) -> bool {
        !self.mute.load(Ordering::Relaxed)
    }
}

fn bench() -> (Bench, Scripted) {
    let mut bench = Bench::new();
    let agreement = Scripted::default();
    agreement.agreed.store(bench.node.journal().durable().0, Ordering::Relaxed);
    let node = Bench::recover(&bench.disk).with_agreement(Box::new(agreement.clone()));
    bench.node = node;
    bench.handle(vec![Command::Connect]);
    bench.finish_io();
    (bench, agreement)
}

/// Everything that clients could be told of: answers, deliveries, refusals, peeked messages, namespaces.
fn ask_everything(bench: &mut Bench) {
    let open = Command::OpenConsumer {
        consumer: LinkId(1),
        path: orders(),
        mode: ReceiveMode::ReceiveAndDelete,
        unsettled: UnsettledPolicy::Release,
        session: None,
        auto_create: false,
    };
    bench.handle(vec![publish(Some(1)), publish(Some(2)), open]);
    bench.handle(vec![Command::Credit { consumer: LinkId(1), limit: 1, drain: false }]);
    bench.handle(vec![publish_bytes(3, 2 << 20)]);
    let request = NamespaceRequest { client: CLIENT, ticket: Ticket(9) };
    let settings = broker_core::NamespaceSettings::default();
    let put = NamespaceCommand::Put { name: "a".into(), settings, uid: 1, only_create: false };
    bench.node.change_namespace(NOW, request, put);
    bench.node.work(NOW);
    bench.finish_io();
}

#[test]
fn without_agreement_no_effect_leaves_though_all_is_synced() {
    let (mut bench, agreement) = bench();
    ask_everything(&mut bench);
    assert!(bench.node.journal().durable() >= bench.node.journal().committed(), "the disk has done its part");
    assert!(bench.node.poll_effects().is_none());
    assert!(bench.node.poll_namespace_change().is_none());
    // More rounds, which have nothing to record, change nothing.
    for _ in 0..3 {
        bench.node.work(NOW);
        bench.node.notice_idle();
        bench.finish_io();
        assert!(bench.node.poll_effects().is_none());
    }
    agreement.agreed.store(u64::MAX, Ordering::Relaxed);
    assert!(bench.node.poll_namespace_change().is_some());
    assert!(bench.effects().len() >= 4);
}

#[test]
fn a_node_that_may_not_answer_tells_nobody_anything_not_even_what_needs_no_record() {
    let (mut bench, agreement) = bench();
    agreement.agreed.store(u64::MAX, Ordering::Relaxed);
    agreement.mute.store(true, Ordering::Relaxed);
    ask_everything(&mut bench);
    let missing = EntityPath { entity: "missing".into(), sub_queue: SubQueue::Main };
    bench.handle(vec![Command::OpenProducer { producer: LinkId(4), path: missing, auto_create: false }]);
    bench.finish_io();
    assert!(bench.node.poll_effects().is_none() && bench.node.poll_namespace_change().is_none());
    agreement.mute.store(false, Ordering::Relaxed);
    assert!(bench.effects().len() >= 5);
}

#[test]
fn what_is_agreed_comes_in_order_and_the_rest_waits() {
    let (mut bench, agreement) = bench();
    bench.handle(vec![publish(Some(1))]);
    bench.finish_io();
    let first = bench.node.journal().durable().0;
    bench.handle(vec![publish(Some(2))]);
    bench.finish_io();
    agreement.agreed.store(first, Ordering::Relaxed);
    let effects = bench.effects();
    assert!(matches!(effects.as_slice(), [Effect::Published { first: Ticket(1), .. }]), "{effects:?}");
    agreement.agreed.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(bench.effects().len(), 1);
}

#[test]
fn a_node_that_loses_its_right_to_answer_keeps_what_was_released_and_not_yet_told() {
    let (mut bench, agreement) = bench();
    agreement.agreed.store(u64::MAX, Ordering::Relaxed);
    // Refusals need no record: they are released when their rounds end.
    let missing = || EntityPath { entity: "missing".into(), sub_queue: SubQueue::Main };
    let open =
        |producer| Command::OpenProducer { producer: LinkId(producer), path: missing(), auto_create: false };
    for producer in 4..7 {
        bench.handle(vec![open(producer)]);
    }
    agreement.mute.store(true, Ordering::Relaxed);
    assert!(bench.node.poll_effects().is_none(), "the rounds have ended, and nobody was told yet");
    agreement.mute.store(false, Ordering::Relaxed);
    assert!(bench.node.poll_effects().is_some());
    agreement.mute.store(true, Ordering::Relaxed);
    assert!(bench.node.poll_effects().is_none(), "the first of them was told before");
    agreement.mute.store(false, Ordering::Relaxed);
    assert_eq!(bench.effects().len(), 2);

    // The same for effects that waited for the disk.
    bench.handle(vec![publish(Some(1))]);
    bench.handle(vec![publish(Some(2))]);
    bench.finish_io();
    assert!(bench.node.poll_effects().is_some());
    agreement.mute.store(true, Ordering::Relaxed);
    assert!(bench.node.poll_effects().is_none());
    agreement.mute.store(false, Ordering::Relaxed);
    assert_eq!(bench.effects().len(), 1);
}
