//! A client that does anything at any time, and sometimes speaks no AMQP at all.

use amqp_codec::{
    message::{BATCH_FORMAT, MessageBuilder},
    performative::{DeliveryState, Modified, Transfer},
    raw::{AnnotationValue, RawMap},
    types::ReceiverSettleMode,
};
use broker_core::{Work, WorkBudget};
use bytes::Bytes;
use proptest::prelude::*;
use testkit::Script;

use crate::harness::{World, texts};

/// One thing a client may do, with two numbers to do it with.
type Step = (u8, u32, u32);

fn outcome(number: u32) -> Option<DeliveryState> {
    let modified = |failed, here| {
        let map = RawMap::with_symbol_keys(&[("note", AnnotationValue::Uint(number))]);
        DeliveryState::Modified(Box::new(Modified {
            delivery_failed: failed,
            undeliverable_here: here,
            message_annotations: Some(map),
        }))
    };
    Some(match number % 9 {
        0 => return None,
        1 => DeliveryState::Accepted,
        2 => DeliveryState::Rejected(None),
        3 => DeliveryState::Released,
        4 => modified(Some(true), None),
        5 => modified(None, Some(true)),
        6 => DeliveryState::Received { section_number: 0, section_offset: 0 },
        7 => DeliveryState::Transactional { txn_id: Bytes::from_static(b"t").into(), outcome: None },
        _ => DeliveryState::Other(Bytes::from_static(&[0x00, 0x53, 0x7f, 0x45]).into()),
    })
}

fn act(world: &mut World, client: usize, (kind, one, two): Step) {
    let address =
        ["q", "/queues/q", "q/$DeadLetterQueue", "q/$management", "$cbs", "missing"][one as usize % 6];
    let mode = [None, Some(ReceiverSettleMode::First), Some(ReceiverSettleMode::Second)][two as usize % 3];
    let (handle, channel) = (one % 5, u16::try_from(two % 2).unwrap());
    let body = MessageBuilder::new().message_id("m").to(address).data(b"x").build();
    match kind {
        0 => _ = world.script(client).attach_sender(channel, handle, "s", Some(address)),
        1 => _ = world.script(client).attach_sender(channel, handle, "a", None),
        2 => _ = world.script(client).attach_receiver(channel, handle, "r", address, mode),
        3 => world.credit(client, channel, handle, one % 50, two % 50, two % 7 == 0),
        4 | 5 => _ = world.transfer(client, handle, two % 2 == 0, &body),
        6 => {
            let packed = MessageBuilder::new().data(&body).data(&body).build();
            let format = Some(if two % 5 == 0 { two } else { BATCH_FORMAT });
            let frame =
                Transfer { message_format: format, ..Script::transfer_frame(handle, 10_000 + two, false) };
            world.script(client).transfer_with(channel, frame, &packed);
        }
        7 | 8 => {
            let (first, settled) = (one % 60, two % 2 == 0);
            world.script(client).disposition(channel, first, first + two % 9, settled, outcome(one));
        }
        9 => _ = world.script(client).disposition(channel, one, two, one % 2 == 0, outcome(two)),
        10 => _ = world.script(client).detach(channel, handle, two % 2 == 0),
        11 => _ = world.script(client).begin(channel),
        12 if two % 4 == 0 => _ = world.script(client).end(channel),
        13 => world.clients[client].reads = two % 3 != 0,
        14 => world.pass(std::time::Duration::from_secs(u64::from(two % 40))),
        15 if two % 8 == 0 => _ = world.script(client).raw(&one.to_be_bytes()).raw(&two.to_be_bytes()),
        _ => {}
    }
}

proptest! {
    #[test]
    fn nothing_a_client_does_panics_or_disturbs_another(
        steps in prop::collection::vec((0u8..16, any::<u32>(), any::<u32>()), 1..80),
        service_bus: bool,
        budget in prop_oneof![1u64..60, Just(u64::MAX)],
    ) {
        let mut world = World::new();
        world.budgets = Some(Box::new(move || WorkBudget::new(Work(budget))));
        let calm = world.plain();
        let wild = if service_bus { world.service_bus() } else { world.plain() };
        for step in steps {
            // The other one must not be dropped for its silence.
            world.script(calm).heartbeat();
            act(&mut world, wild, step);
            world.run();
        }
        world.clients[wild].reads = true;
        world.lose(wild);
        world.create("calm", broker_core::EntitySettings::default());
        world.received(calm);
        world.send(calm, "calm", &["a", "b"]);
        prop_assert_eq!(texts(&world.receive(calm, "calm", 5)), ["a", "b"]);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), logged_in: bool) {
        let mut world = World::new();
        let client = if logged_in { world.service_bus() } else { world.accept() };
        world.script(client).raw(&bytes);
        world.run();
        world.lose(client);
    }
}
