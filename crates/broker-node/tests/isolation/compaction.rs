//! Compaction is the shard's own work: a bounded number of bytes in each round, whichever namespace they are of, and no
//! namespace waits for it.

use broker_core::{Batch, Command, Delivery, Effect, Outcome, Ticket};
use broker_log::JournalConfig;
use broker_node::NamespaceId;

use crate::{
    broker::{Broker, SEGMENT},
    tenant::{client, create, own_link, path, publish, receive},
    world::create_two,
};

const NOW: u64 = 1_000_000;
const BODY: usize = 700;
/// The longest record of a message here, without its header in the journal.
const RECORD_MAX: u64 = BODY as u64 + 100;
/// Fills several segments.
const MESSAGES: usize = 300;
/// The first ones stay: the oldest segment is full of them.
const KEPT: usize = 45;

struct Shard {
    broker: Broker,
    /// The namespace with the old segment, and the one that sends.
    ids: [NamespaceId; 2],
    clean_bytes: u64,
}

impl Shard {
    /// A segment with messages of this size that is to be moved: the messages behind it are gone.
    fn new(cache_bytes: u64, body: usize) -> Self {
        let (kept, messages) = (KEPT * BODY / body, MESSAGES * BODY / body);
        let journal = JournalConfig {
            segment_bytes: SEGMENT,
            reserve_bytes: 0,
            cache_bytes,
            ..JournalConfig::default()
        };
        let mut broker = Broker::with_journal(4 << 20, journal);
        let ids = create_two(&mut broker, NOW);
        let mut shard = Self { broker, ids, clean_bytes: Broker::CLEAN_BYTES as u64 };
        let budget = Command::ByteBudget { limit: u64::MAX, min_bytes: 0 };
        for at in 0..2 {
            shard.ask(at, vec![Command::Connect, budget.clone(), create(0, Ticket(1))]);
        }
        shard.ask(
            0,
            (10..10 + messages as u64).map(|ticket| publish(0, 1, body, None, Ticket(ticket))).collect(),
        );
        shard.broker.run(NOW, &mut Vec::new()).unwrap();
        shard.ask(0, receive(own_link(0), path(0), None).into());
        let mut shown = Vec::new();
        shard.broker.run(NOW, &mut shown).unwrap();
        let told = Broker::shown_to(&shown, ids[0], client(0));
        let held = told.into_iter().filter_map(|effect| match effect {
            Effect::Delivery(delivery) => Some(delivery),
            _ => None,
        });
        let complete = |delivery: Delivery| Command::Settle {
            queue: delivery.queue,
            sequence: delivery.sequence,
            lock: delivery.lock.unwrap().id,
            outcome: Outcome::Complete,
            ticket: None,
        };
        let settled: Vec<Command> = held.skip(kept).map(complete).collect();
        assert_eq!(settled.len() + kept, messages);
        assert_eq!(shard.compacted(), 0, "there is nothing to be moved yet");
        shard.ask(0, settled);
        shard
    }

    fn ask(&mut self, at: usize, commands: Vec<Command>) {
        self.broker.ask(NOW, self.ids[at], Batch { client: client(0), commands });
    }

    /// Bytes of records that compaction has gone through.
    fn compacted(&self) -> u64 {
        self.broker.node.journal().stats().compacted_bytes
    }

    /// Bytes that each has appended, all of its work, and that of it which nobody has asked for.
    fn used(&self) -> [(u64, u64, u64); 2] {
        self.ids.map(|id| {
            let view = self.broker.node.namespace(id).unwrap();
            (view.appended_bytes, view.work.0, view.background_work.0)
        })
    }

    /// One round in which the second namespace sends one message, which is answered in it.
    fn round(&mut self, ticket: Ticket) {
        self.ask(1, vec![publish(0, 1, BODY, None, ticket)]);
        self.broker.round(NOW);
        let shown: Vec<_> = std::iter::from_fn(|| self.broker.node.poll_effects()).collect();
        let told = Broker::shown_to(&shown, self.ids[1], client(0));
        assert!(
            matches!(told.as_slice(), [Effect::Published { first, last }] if (*first, *last) == (ticket, ticket)),
            "{ticket:?}: {told:?}"
        );
    }
}

/// The segment is in memory, and on the disk alone.
const CACHES: [u64; 2] = [4 << 20, 8 << 10];

#[test]
fn an_old_segment_of_one_namespace_is_moved_in_bounded_pieces_while_another_one_is_answered_in_each_round() {
    for cache_bytes in CACHES {
        let mut shard = Shard::new(cache_bytes, BODY);
        // In the first round the messages behind the segment are completed.
        shard.round(Ticket(1_000));
        let freed = shard.broker.node.journal().stats().segments_freed;
        let (mut pieces, mut moved) = (0, 0);
        for number in 1_001.. {
            let (before, compacted) = (shard.used(), shard.compacted());
            shard.round(Ticket(number));
            let after = shard.used();
            let piece = shard.compacted() - compacted;
            assert!(piece < shard.clean_bytes + RECORD_MAX, "{piece} bytes in round {number}");
            // All that the first one appends is moved: it has asked for nothing.
            let own = after[0].0 - before[0].0;
            assert!(own <= shard.clean_bytes + RECORD_MAX, "{own} bytes in round {number}");
            assert_eq!(after[1].2, before[1].2, "nothing of the other one is moved in round {number}");
            (pieces, moved) = (pieces + u64::from(piece > 0), moved + own);
            if shard.broker.node.journal().stats().segments_freed > freed {
                break;
            }
            assert!(number < 1_200, "it does not end");
        }
        assert!(moved > 4 * shard.clean_bytes, "{moved} bytes were moved");
        assert!(pieces > 4, "{pieces} pieces");
        shard.broker.run(NOW, &mut Vec::new()).unwrap();
        shard.broker.check_accounts();
    }
}

#[test]
fn moved_records_are_background_work_of_the_namespace_that_they_are_of() {
    // Also records that are too short for their bytes to be a unit of work.
    for body in [BODY, 100] {
        let mut shard = Shard::new(CACHES[0], body);
        shard.round(Ticket(1_000));
        for number in 1_001..1_005 {
            let (before, compacted) = (shard.used(), shard.compacted());
            shard.round(Ticket(number));
            let after = shard.used();
            let [own, other] = [0, 1].map(|at| (after[at].1 - before[at].1, after[at].2 - before[at].2));
            let records = (shard.compacted() - compacted) / (body as u64 + 100);
            assert!(records > 0 && own.1 >= records, "{own:?} for {records} records");
            assert_eq!(own.0, own.1, "all of it was asked for by nobody");
            assert!(other.0 > 0 && other.1 == 0, "{other:?}: a send");
        }
    }
}
