use amqp_codec::performative::{Begin, Flow};
use proptest::prelude::*;

use super::*;

fn windows(next_outgoing_id: u32, incoming_window: u32, ours: u32) -> Windows {
    let begin = Begin {
        remote_channel: None,
        next_outgoing_id,
        incoming_window,
        outgoing_window: 0,
        handle_max: 0,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    };
    let config = Config { session_incoming_window: 10, initial_outgoing_id: ours, ..Config::default() };
    Windows::new(&begin, &config)
}

fn flow(next_incoming_id: Option<u32>, incoming_window: u32, next_outgoing_id: u32) -> Flow {
    Flow { next_incoming_id, incoming_window, next_outgoing_id, ..Flow::default() }
}

#[test]
fn the_outgoing_window_follows_from_the_peers_last_flow() {
    let cases = [
        // ours at first, sent, next-incoming-id, incoming-window, what is left
        (0, 0, Some(0), 5, Ok(5)),
        (0, 3, Some(3), 5, Ok(5)),
        (0, 3, Some(1), 5, Ok(3)),
        (0, 3, None, 5, Ok(2)),
        (7, 3, None, 5, Ok(2)),
        (0, 3, Some(1), 1, Ok(0)),
        (0, 3, Some(4), 5, Err(WindowError::IncomingIdAhead { said: 4, next: 3 })),
        (u32::MAX, 3, Some(0), 5, Ok(3)),
        (u32::MAX, 3, Some(2), u32::MAX, Ok(u32::MAX)),
    ];
    for case @ (ours, sent, seen, window, expected) in cases {
        let mut windows = windows(0, 100, ours);
        for _ in 0..sent {
            windows.take_outgoing();
        }
        let result = windows.on_flow(&flow(seen, window, 0), true);
        assert_eq!(result.map(|()| windows.outgoing_left()), expected, "{case:?}");
    }
}

#[test]
fn transfer_ids_of_the_peer_may_lag_by_its_continuations_only() {
    let cases = [
        // frames in, deliveries ended, next-outgoing-id, next expected
        (0, 0, 0, Ok(0)),
        (5, 5, 5, Ok(5)),
        (5, 5, 4, Err(WindowError::OutgoingIdRewound { said: 4, next: 5 })),
        (5, 2, 2, Ok(5)),
        (5, 2, 1, Err(WindowError::OutgoingIdRewound { said: 1, next: 5 })),
        (5, 5, 9, Ok(9)),
    ];
    for case @ (frames, ended, said, expected) in cases {
        let mut windows = windows(0, 100, 0);
        for _ in 0..frames {
            windows.on_transfer().unwrap();
        }
        for _ in 0..ended {
            windows.on_delivery_end();
        }
        let result = windows.on_flow(&flow(Some(0), 1, said), true);
        assert_eq!(result.map(|()| windows.next_incoming_id()), expected, "{case:?}");
    }
}

#[test]
fn ids_that_the_peer_skips_are_gone() {
    let mut windows = windows(0, 100, 0);
    windows.on_transfer().unwrap();
    // One frame of an unfinished delivery; then the peer goes on from 10.
    windows.on_flow(&flow(Some(0), 1, 10), true).unwrap();
    assert_eq!(windows.next_incoming_id(), 10);
    assert_eq!(windows.on_flow(&flow(Some(0), 1, 9), true), Ok(()), "it may still count deliveries");
    let rewound = Err(WindowError::OutgoingIdRewound { said: 8, next: 10 });
    assert_eq!(windows.on_flow(&flow(Some(0), 1, 8), true), rewound);
    assert_eq!(windows.on_flow(&flow(Some(0), 1, 8), false), Ok(()), "threads that share a client go back");
    assert_eq!(windows.next_incoming_id(), 10, "what was received counts");
}

#[test]
fn the_frame_beyond_the_window_is_refused() {
    let mut windows = windows(0, 100, 0);
    for n in 0..10 {
        assert_eq!(windows.incoming_is_low(), n >= 5, "after {n} frames");
        assert_eq!(windows.on_transfer(), Ok(()));
    }
    assert_eq!(windows.on_transfer(), Err(WindowError::Exhausted));
    windows.renew_incoming();
    assert_eq!(windows.on_transfer(), Ok(()));
}

proptest! {
    #[test]
    fn nothing_goes_out_beyond_the_window(
        start: u32,
        steps in proptest::collection::vec((any::<bool>(), 0u32..20, 0u32..20), 0..100),
    ) {
        let mut windows = windows(0, 0, start);
        let (mut sent, mut allowed) = (0u32, 0u32);
        for (is_flow, seen, window) in steps {
            if is_flow {
                let seen = seen.min(sent);
                windows.on_flow(&flow(Some(start.wrapping_add(seen)), window, 0), true).unwrap();
                allowed = seen + window;
            } else if windows.outgoing_left() > 0 {
                windows.take_outgoing();
                sent += 1;
                prop_assert!(sent <= allowed, "sent {} of {}", sent, allowed);
            }
        }
    }
}
