//! Clients that overwrite an outcome which comes before their send call has returned.

use std::{collections::BTreeMap, time::Duration};

use amqp_codec::{
    message::MessageBuilder,
    performative::{DeliveryState, Open, Transfer, TxnId},
    raw::{AnnotationValue, RawMap},
};
use amqp_gateway::GatewayConfig;
use broker_auth::Anonymous;
use broker_core::EntitySettings;
use bytes::Bytes;
use testkit::Script;

use crate::{
    harness::*,
    transactions::{coordinator, declare, discharge, message},
};

const CONTROL: u32 = 50;
const TO_FULL: u32 = 51;
const TO_Q: u32 = 52;

/// What a delivery is answered with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    Accepted,
    Rejected,
    Declared,
}

impl Outcome {
    fn of(state: Option<&DeliveryState>) -> Self {
        match state {
            Some(DeliveryState::Accepted) => Self::Accepted,
            Some(DeliveryState::Rejected(_)) => Self::Rejected,
            Some(DeliveryState::Declared { .. }) => Self::Declared,
            other => panic!("{other:?}"),
        }
    }
}

/// A broker with messages of at most 2,000 bytes and the queue `full`, which takes no more.
fn world() -> World {
    let config = GatewayConfig { max_message_bytes: 2_000, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    world.create("full", EntitySettings { max_size_bytes: Some(1_000), ..EntitySettings::default() });
    world
}

fn open(product: &str) -> Open {
    let mut open = Open::new("client");
    open.properties = Some(RawMap::with_symbol_keys(&[("product", AnnotationValue::Str(product))]));
    open
}

/// A client that reads every answer as `accepted` that comes at the very moment at which it sends.
struct ScriptedOverwriter {
    client: usize,
    /// By delivery-id, what each delivery of this moment deserves.
    expected: BTreeMap<u32, Outcome>,
    declared: Vec<TxnId>,
    answered: usize,
    /// Those of them that are not accepted.
    not_accepted: usize,
    misread: usize,
}

impl ScriptedOverwriter {
    fn new(world: &mut World, client: usize) -> Self {
        world
            .script(client)
            .attach(0, coordinator("control", CONTROL))
            .attach_sender(0, TO_FULL, "full", Some("full"))
            .attach_sender(0, TO_Q, "q", Some("q"));
        world.run();
        for _ in 0..3 {
            let fills = MessageBuilder::new().data(&[0; 400]).build();
            world.transfer(client, TO_FULL, true, &fills);
        }
        world.run();
        world.received(client);
        let (expected, declared) = (BTreeMap::new(), Vec::new());
        Self { client, expected, declared, answered: 0, not_accepted: 0, misread: 0 }
    }

    fn send(&mut self, world: &mut World, handle: u32, payload: &Bytes, expected: Outcome) {
        let id = world.transfer(self.client, handle, false, payload);
        self.expected.insert(id, expected);
    }

    /// Sends one message or request, of one kind after the other.
    fn send_next(&mut self, world: &mut World, turn: u32) {
        match turn % 6 {
            0 => self.send(world, TO_FULL, &message("no room"), Outcome::Rejected),
            1 => {
                let large = MessageBuilder::new().data(&[0; 3_000]).build();
                self.send(world, TO_Q, &large, Outcome::Rejected);
            }
            2 => self.send(world, CONTROL, &declare(), Outcome::Declared),
            3 => {
                let unknown = TxnId::from(&[7; 16][..]);
                self.send(world, CONTROL, &discharge(&unknown, false), Outcome::Rejected);
            }
            4 => match self.declared.pop() {
                Some(txn_id) => self.send(world, CONTROL, &discharge(&txn_id, false), Outcome::Accepted),
                None => self.send(world, CONTROL, &declare(), Outcome::Declared),
            },
            _ => self.send(world, TO_Q, &message("taken"), Outcome::Accepted),
        }
    }

    /// Reads what has come. `returned`: the calls that sent it have returned.
    fn read(&mut self, world: &mut World, returned: bool) {
        for told in world.dispositions(self.client) {
            assert!(told.settled, "{told:?}");
            let outcome = Outcome::of(told.state.as_ref());
            for id in told.first..=told.last.unwrap_or(told.first) {
                let expected = self.expected.remove(&id).expect("answered once");
                assert_eq!(outcome, expected, "delivery {id}");
                assert!(outcome != Outcome::Accepted || !returned, "an acceptance was delayed");
                self.answered += 1;
                self.not_accepted += usize::from(outcome != Outcome::Accepted);
                self.misread += usize::from(outcome != Outcome::Accepted && !returned);
            }
            if let Some(DeliveryState::Declared { txn_id }) = told.state {
                self.declared.push(txn_id);
            }
        }
    }

    /// Sends `count` messages and requests in bursts, and reads the answers.
    fn run(&mut self, world: &mut World, count: u32) {
        let mut turn = 0;
        while turn < count {
            let burst = (1 + turn % 37).min(count - turn);
            for turn in turn..turn + burst {
                self.send_next(world, turn);
            }
            turn += burst;
            world.run();
            self.read(world, false);
            world.pass(Duration::from_millis(1));
            self.read(world, true);
            assert_eq!(self.expected, BTreeMap::new(), "all is answered a millisecond later");
        }
    }
}

#[test]
fn a_client_that_overwrites_early_outcomes_overwrites_none_of_10_000() {
    for product in ["Microsoft.Azure.ServiceBus", "azsdk-net-Messaging.ServiceBus/7.18.2"] {
        let mut world = world();
        let client = world.service_bus_with(open(product));
        let mut client = ScriptedOverwriter::new(&mut world, client);
        client.run(&mut world, 10_000);
        assert_eq!((client.answered, client.misread), (10_000, 0), "{product}");
    }
}

#[test]
fn other_clients_are_answered_at_once() {
    let others = |world: &mut World| [world.service_bus(), world.service_bus_with(open("azsdk-js-amqp"))];
    for which in 0..2 {
        let mut world = world();
        let client = others(&mut world)[which];
        let mut client = ScriptedOverwriter::new(&mut world, client);
        client.run(&mut world, 60);
        assert_eq!(
            (client.answered, client.misread),
            (60, client.not_accepted),
            "before any time has passed"
        );
        assert!(client.not_accepted >= 40);
    }
}

#[test]
fn a_plain_connection_is_answered_at_once_whatever_its_product_says() {
    let mut world = world();
    let client = world.accept();
    world
        .script(client)
        .sasl_plain(KEY_NAME, "SAS_KEY_VALUE")
        .open_with(open("Microsoft.Azure.Amqp"))
        .begin(0);
    world.script(client).attach_sender(0, TO_Q, "q", Some("q"));
    world.run();
    world.received(client);
    let large = MessageBuilder::new().data(&[0; 3_000]).build();
    world.transfer(client, TO_Q, false, &large);
    world.run();
    assert_eq!(Outcome::of(world.dispositions(client)[0].state.as_ref()), Outcome::Rejected);
}

#[test]
fn a_refusal_inside_of_a_transaction_waits_and_an_acceptance_does_not() {
    let mut world = world();
    let client = world.service_bus_with(open("Microsoft.Azure.ServiceBus"));
    let mut peer = ScriptedOverwriter::new(&mut world, client);
    peer.send(&mut world, CONTROL, &declare(), Outcome::Declared);
    world.run();
    world.pass(Duration::from_millis(1));
    peer.read(&mut world, true);
    let txn_id = peer.declared.pop().unwrap();
    let send = |world: &mut World, text: &Bytes| {
        let id = world.next_delivery(client);
        let state = DeliveryState::Transactional { txn_id: txn_id.clone(), outcome: None };
        let frame = Transfer { state: Some(state), ..Script::transfer_frame(TO_Q, id, false) };
        world.script(client).transfer_with(0, frame, text);
        world.run();
        world.dispositions(client)
    };
    assert_eq!(send(&mut world, &message("taken")).len(), 1);
    let large = MessageBuilder::new().data(&[0; 3_000]).build();
    assert_eq!(send(&mut world, &large), []);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.dispositions(client).len(), 1);
}
