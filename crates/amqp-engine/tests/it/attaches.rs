//! Links that come and go for ever.

use allocation_counter::measure;
use amqp_codec::performative::Detach;
use amqp_codec::types::Role;
use amqp_engine::{AttachReply, Event};
use bytes::{Bytes, BytesMut};

use crate::pair::{Pair, amqp, attach, plain};

const ATTACHES: u32 = 1_000_000;
/// Links that one read attaches and detaches.
const READ: u32 = 250;
/// Most memory that links which come and go may hold at any time, in bytes: those of one read, and what is said of them.
const HELD_MAX: u64 = 4 << 20;

#[test]
fn a_million_attaches_and_detaches_leave_nothing_behind() {
    let mut pair = Pair::open(plain());
    pair.begin(0);
    let round: Vec<Vec<u8>> = (0..READ)
        .flat_map(|handle| {
            let name = format!("link-{handle}");
            let detach = Detach { handle, closed: true, error: None };
            [amqp(0, attach(&name, handle, Role::Sender)), amqp(0, detach)]
        })
        .collect();
    let input = Bytes::from(round.concat());
    let mut out = BytesMut::with_capacity(1 << 20);
    let now = pair.now;
    let mut attached = 0;
    let mut go = |rounds: u32| {
        measure(|| {
            for _ in 0..rounds {
                pair.engine.handle_input(now, input.clone());
                while let Some(event) = pair.engine.poll_event() {
                    match event {
                        Event::LinkAttached { link, attach } => {
                            pair.engine.accept_link(link, AttachReply::echo(&attach));
                            attached += 1;
                        }
                        Event::LinkDetached { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
                out.clear();
                pair.engine.poll_output(now, &mut out, usize::MAX);
            }
        })
    };
    go(4);
    let held = go(ATTACHES / READ);
    assert_eq!(held.bytes_current, 0, "{held:?}");
    assert!(held.bytes_max <= HELD_MAX, "{held:?}");
    assert_eq!(attached, ATTACHES + 4 * READ);
}
