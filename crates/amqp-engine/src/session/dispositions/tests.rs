use amqp_codec::performative::{Performative, decode};
use bytes::{Buf, Bytes};
use proptest::prelude::*;

use super::*;

fn written(dispositions: &mut Dispositions, max_frame: u32) -> Vec<Disposition> {
    let mut out = BytesMut::new();
    dispositions.write(3, max_frame, &mut out);
    let mut wire = out.freeze();
    let mut all = Vec::new();
    while wire.has_remaining() {
        let size = wire.clone().get_u32() as usize;
        assert!(size <= max_frame as usize, "frame of {size} bytes");
        let frame = wire.split_to(size);
        match decode(&frame.slice(8..)).unwrap() {
            (Performative::Disposition(disposition), _) => all.push(disposition),
            other => panic!("{other:?}"),
        }
    }
    all
}

#[test]
fn only_equal_and_consecutive_ones_are_merged() {
    let accepted = Some(DeliveryState::Accepted);
    let pushes = [
        // role, id, settled, state, starts a new frame
        (Role::Receiver, u32::MAX, true, accepted.clone(), true),
        (Role::Receiver, 0, true, accepted.clone(), false),
        (Role::Receiver, 2, true, accepted.clone(), true),
        (Role::Receiver, 3, true, Some(DeliveryState::Released), true),
        (Role::Receiver, 4, false, Some(DeliveryState::Released), true),
        (Role::Sender, 5, false, Some(DeliveryState::Released), true),
        (Role::Sender, 6, false, None, true),
        (Role::Sender, 7, false, None, false),
    ];
    let mut dispositions = Dispositions::default();
    let mut frames = 0;
    for (role, id, settled, state, new) in pushes {
        dispositions.push(role, (id, id), settled, state);
        frames += usize::from(new);
    }
    let all = written(&mut dispositions, 512);
    assert_eq!(all.len(), frames);
    assert_eq!((all[0].first, all[0].last), (u32::MAX, Some(0)));
    assert!(written(&mut dispositions, 512).is_empty(), "written once");
}

#[test]
fn a_state_too_long_for_the_peers_frames_is_shortened() {
    let error =
        Error { condition: "amqp:internal-error".into(), description: Some("x".repeat(2_000)), info: None };
    let rejected = DeliveryState::Rejected(Some(Box::new(error)));
    let inside = DeliveryState::Transactional {
        txn_id: Bytes::from_static(b"txn").into(),
        outcome: Some(Box::new(rejected.clone())),
    };
    for state in [rejected, inside] {
        let mut dispositions = Dispositions::default();
        dispositions.push(Role::Receiver, (1, 1), true, Some(state.clone()));
        let all = written(&mut dispositions, 512);
        assert_eq!(std::mem::discriminant(all[0].state.as_ref().unwrap()), std::mem::discriminant(&state));
    }
}

proptest! {
    #[test]
    fn written_dispositions_say_the_state_of_each_delivery_that_was_pushed_last(
        start: u32,
        pushes in proptest::collection::vec((1u32..3, any::<bool>(), any::<bool>()), 0..50),
    ) {
        let mut dispositions = Dispositions::default();
        let mut expected = Vec::new();
        let mut id = start;
        for (step, settled, released) in pushes {
            id = id.wrapping_add(step);
            let state = if released { DeliveryState::Released } else { DeliveryState::Accepted };
            dispositions.push(Role::Receiver, (id, id), settled, Some(state.clone()));
            expected.push((id, settled, Some(state)));
        }
        let mut told = Vec::new();
        for disposition in written(&mut dispositions, 512) {
            let mut id = disposition.first;
            loop {
                told.push((id, disposition.settled, disposition.state.clone()));
                if Some(id) == disposition.last {
                    break;
                }
                id = id.wrapping_add(1);
            }
        }
        prop_assert_eq!(told, expected);
    }
}
