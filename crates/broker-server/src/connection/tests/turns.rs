//! Turns of connections on one thread.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    task::Wake,
};

use amqp_codec::{message::MessageBuilder, types::ReceiverSettleMode, value::Value};
use broker_auth::{Secret, sign_token};

use super::*;

/// Notes that a connection has asked for another turn.
#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Gives a connection one turn. Says what it says, and whether it wants another.
pub(super) fn turn(running: &mut Running) -> (Poll<io::Result<()>>, bool) {
    let woken = Arc::new(Woken::default());
    let polled = running.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&woken))));
    (polled, woken.0.load(Ordering::Relaxed))
}

const TOKENS: u32 = 2_000;

/// A client that puts tokens, one after another, without waiting for the replies.
fn put_tokens(count: u32) -> Script {
    let token =
        sign_token("amqp://localhost", DEVELOPMENT_KEY_NAME, &Secret::new(DEVELOPMENT_KEY), u32::MAX.into());
    let put = MessageBuilder::new()
        .message_id("token")
        .application_property("operation", AnnotationValue::Str("put-token"))
        .application_property("name", AnnotationValue::Str("amqp://localhost"))
        .body_value(&Value::String(token))
        .build();
    let mut script = Script::new();
    script.sasl("ANONYMOUS", None).open("client").begin(0);
    script.attach_sender(0, 1, "requests", Some("$cbs"));
    script.attach_receiver(0, 2, "replies", "$cbs", Some(ReceiverSettleMode::First));
    script.credit(0, 2, 0, count, false);
    for number in 0..count {
        script.transfer(0, 1, number, true, &put);
    }
    script
}

/// Number of replies that say `Accepted`.
fn accepted(socket: &Socket) -> usize {
    socket.network().output.windows(8).filter(|bytes| *bytes == b"Accepted").count()
}

/// Connections of the default namespace.
struct Thread {
    clock: Arc<Clock>,
    stop: watch::Sender<Shutdown>,
    executor: Arc<Executor>,
    other: Arc<EffectQueue>,
    directory: Arc<NamespaceDirectory>,
}

impl Thread {
    fn new() -> Self {
        let clock = Arc::default();
        let (executor, other) = begun(&clock);
        let directory = directory(&executor, usize::MAX);
        Self { clock, stop: watch::Sender::new(Shutdown::No), executor, other, directory }
    }

    fn connection(&self, client: u64, script: &mut Script) -> (Socket, Driver<Socket>) {
        let socket = Socket::default();
        socket.network().input.extend(script.take_output());
        let driver = driver(ClientId(client), &socket, &self.directory, &self.clock, &self.stop);
        (socket, driver)
    }

    fn connect(&self, client: u64, script: &mut Script) -> (Socket, Running) {
        let (socket, driver) = self.connection(client, script);
        (socket, Box::pin(driver.run()))
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

#[test]
fn a_connection_is_answered_while_another_of_its_thread_puts_two_thousand_tokens() {
    let (runtime, thread) = (runtime(), Thread::new());
    let _context = runtime.enter();
    let (many, mut puts_many) = thread.connect(1, &mut put_tokens(TOKENS));
    let (one, mut puts_one) = thread.connect(2, &mut put_tokens(1));
    let (polled, wants_more) = turn(&mut puts_many);
    assert!(polled.is_pending() && wants_more, "a turn is too short for all of them");
    let before = accepted(&many);
    assert!(before < TOKENS as usize);
    // The other's turn comes, and is enough for it.
    let (polled, wants_more) = turn(&mut puts_one);
    assert!(polled.is_pending() && !wants_more);
    assert_eq!((accepted(&one), accepted(&many)), (1, before));
    let mut turns = 1;
    while turn(&mut puts_many).1 {
        turns += 1;
    }
    assert!(turns > 1, "{turns}");
    assert_eq!(accepted(&many), TOKENS as usize, "every token is answered once");
    let work = thread.directory.of_default().gateway_work();
    assert!(work > Work::HMAC_CHECK.times(TOKENS.into()), "the namespace is told of the work: {work:?}");
}

#[test]
fn what_was_read_at_once_is_handled_in_turns_between_which_replies_are_written() {
    const TOKENS: u32 = 500;
    let (runtime, thread) = (runtime(), Thread::new());
    let _context = runtime.enter();
    let (socket, mut driver) = thread.connection(1, &mut put_tokens(TOKENS));
    // A turn that has lasted long enough: it ends when the first budget is spent, however fast this machine is.
    driver.turn.step(thread.clock.now().instant.checked_sub(Duration::from_secs(1)).unwrap());
    let mut running: Running = Box::pin(driver.run());
    assert!(turn(&mut running).1, "it wants another turn");
    assert!(socket.network().input.is_empty(), "everything was read");
    let first = accepted(&socket);
    assert!((1..100).contains(&first), "a budget is worth some sixty tokens: {first}");
    while turn(&mut running).1 {}
    assert_eq!(accepted(&socket), TOKENS as usize);
}

/// Messages that are sent behind tokens.
const MESSAGES: u32 = 50;

/// Number of messages that arrived, of those that were sent in one piece behind so many tokens, although this happened
/// to the socket after the first turn.
fn arrived_after(tokens: u32, happening: impl FnOnce(&mut Network)) -> usize {
    arrived_from(tokens, Network::default(), |_, network| happening(network))
}

/// The same over this network, where this happened to the thread and the socket.
fn arrived_from(tokens: u32, network: Network, happening: impl FnOnce(&Thread, &mut Network)) -> usize {
    let (runtime, thread) = (runtime(), Thread::new());
    let _context = runtime.enter();
    let mut script = put_tokens(tokens);
    script.attach_sender(0, 3, "sender", Some("q"));
    for number in 0..MESSAGES {
        script.transfer(0, 3, tokens + number, true, &testkit::data(b"a message"));
    }
    let (socket, mut running) = thread.connect(1, &mut script);
    let input = std::mem::take(&mut socket.network().input);
    *socket.network() = Network { input, ..network };
    assert!(turn(&mut running).1, "there is more than one turn can do");
    happening(&thread, &mut socket.network());
    while turn(&mut running).0.is_pending() {}
    let (count, deliveries) = left(&thread.executor, &thread.other);
    assert_eq!(deliveries, 0);
    count
}

#[test]
fn the_end_of_the_stream_comes_after_all_that_was_sent_before_it() {
    assert_eq!(arrived_after(TOKENS, |network| network.ended = true), MESSAGES as usize);
}

#[test]
fn what_was_read_before_the_socket_fails_is_handled() {
    // So many are read at once.
    let arrived = arrived_after(500, |network| {
        assert!(network.input.is_empty());
        network.broken = true;
    });
    assert_eq!(arrived, MESSAGES as usize);
}

#[test]
fn it_is_handled_though_the_namespace_has_no_room_for_more() {
    // Replies wait, so that the failure shows though nothing is read.
    let slow = Network { full: true, ..Network::default() };
    let arrived = arrived_from(500, slow, |thread, network| {
        assert!(network.input.is_empty());
        let namespace = thread.directory.of_default();
        namespace.ingress_credit.set(1, 1);
        namespace.ingress_credit.add(1);
        network.broken = true;
    });
    assert_eq!(arrived, MESSAGES as usize);
}

#[test]
fn large_output_is_written_in_turns() {
    const MESSAGES: usize = 40;
    const SIZE: usize = 60 << 10;
    // Namespaces beside the default one, time of a write, bytes of a turn
    for (others, write_time, bytes) in [(0, 1_000, 256 << 10), (1, 250, 64 << 10)] {
        let (runtime, thread) = (runtime(), Thread::new());
        let _context = runtime.enter();
        for slot in 1..=others {
            let namespace = NamespaceDefinition::unknown(NamespaceSlot(slot), format!("team-{slot}").into());
            let definition = NamespaceDefinition { uid: slot.into(), ..namespace };
            assert!(thread.directory.apply(definition, &thread.executor).is_some());
        }
        let (socket, mut running) = thread.connect(1, &mut receiver());
        assert!(poll(&mut running).is_pending());
        socket.network().write_time = Duration::from_micros(write_time);
        let message = Message { payload: testkit::data(&vec![7; SIZE]), ..Message::default() };
        let messages = vec![message; MESSAGES];
        let publish = Command::PublishTo { path: q(), messages, auto_create: false, ticket: None };
        submit_item(&thread.executor, vec![publish]);
        let mut longest = 0;
        loop {
            let before = socket.network().output.len();
            let (polled, wants_more) = turn(&mut running);
            assert!(polled.is_pending());
            longest = longest.max(socket.network().output.len() - before);
            if !wants_more {
                break;
            }
        }
        assert!(longest >= SIZE && longest < bytes + SIZE, "{longest} with {others} other namespaces");
        assert!(socket.network().output.len() > MESSAGES * SIZE, "all of it was written");
    }
}
