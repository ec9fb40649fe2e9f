use std::collections::VecDeque;

use amqp_codec::types::SenderSettleMode;
use broker_core::{EntityPath, SubQueue};

use super::{Consumer, DRAINS_MAX};
use crate::settlement::Said;

#[test]
fn drains_that_nobody_waits_for_are_answered_with_the_last() {
    let mut consumer = Consumer {
        path: EntityPath { entity: "q".into(), sub_queue: SubQueue::Main },
        attach: None,
        mode: SenderSettleMode::Unsettled,
        default_outcome: Said::Nothing,
        id_base: 0,
        max_message_bytes: None,
        delivered: 0,
        offset: 0,
        limit: 0,
        told: 0,
        unsettled: 0,
        drains: VecDeque::new(),
        in_session: false,
    };
    for limit in 1..=1_000 {
        consumer.limit = limit;
        consumer.await_drained(limit);
    }
    assert_eq!(consumer.drains.len(), DRAINS_MAX);
    assert_eq!(consumer.drained_to(0), None);
    assert_eq!(consumer.drained_to(1), Some(1));
    assert_eq!(consumer.drained_to(999), Some(63), "the last is not done");
    assert_eq!(consumer.drained_to(1_000), Some(1_000));
    assert_eq!(consumer.drained_to(1_000), None);
}
