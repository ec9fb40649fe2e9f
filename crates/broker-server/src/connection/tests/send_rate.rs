//! Connections of a namespace that has sent more than it may.

use super::*;

/// A broker whose default namespace may send one message in a second, and whose clients may be silent for so long.
struct Limited {
    runtime: tokio::runtime::Runtime,
    clock: Arc<Clock>,
    stop: watch::Sender<Shutdown>,
    executor: Arc<Executor>,
    other: Arc<EffectQueue>,
    directory: Arc<NamespaceDirectory>,
}

/// One connection.
struct Connected {
    socket: Socket,
    effect_queue: Arc<EffectQueue>,
    running: Running,
}

impl Limited {
    fn new(idle_time_out: Duration) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let clock = Arc::default();
        let (executor, other) = begun(&clock);
        let gateway = GatewayConfig { idle_time_out, ..GatewayConfig::default() };
        let directory = directory_with(gateway, &executor, usize::MAX);
        directory.of_default().send_rate.set(Some(1));
        Self { runtime, clock, stop: watch::Sender::new(Shutdown::No), executor, other, directory }
    }

    fn connect(&self, client: u64, script: &mut Script) -> Connected {
        let _context = self.runtime.enter();
        let socket = Socket::default();
        let driver = driver(ClientId(client), &socket, &self.directory, &self.clock, &self.stop);
        let effect_queue = Arc::clone(driver.effect_queue());
        let mut connected = Connected { socket, effect_queue, running: Box::pin(driver.run()) };
        assert!(self.send(&mut connected, script), "it is not limited yet");
        connected
    }

    /// Gives the broker what the client says. True if it reads that.
    fn send(&self, connected: &mut Connected, script: &mut Script) -> bool {
        connected.socket.network().input.extend(script.take_output());
        self.poll(connected);
        connected.socket.network().input.is_empty()
    }

    /// Has the connection look again whether it is to be read, as it does at least once in a second.
    fn poll(&self, connected: &mut Connected) {
        // Timers that are due fire.
        self.runtime.block_on(task::yield_now());
        let _context = self.runtime.enter();
        connected.effect_queue.ask(ControlMessage::LookAtKeys);
        assert!(poll(&mut connected.running).is_pending(), "it goes on");
    }
}

fn begun_sender() -> Script {
    let mut script = Script::new();
    script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open("client").begin(0);
    script.attach_sender(0, 1, "sender", Some("q"));
    script
}

fn transfers(script: &mut Script, numbers: std::ops::Range<u32>) -> &mut Script {
    for number in numbers {
        script.transfer(0, 1, number, false, &testkit::data(b"a message"));
    }
    script
}

#[test]
fn a_connection_that_sent_too_much_and_one_that_comes_to_send_are_not_read_while_the_namespace_owes() {
    let broker = Limited::new(Duration::from_secs(60));
    let mut script = begun_sender();
    let mut first = broker.connect(1, &mut script);
    assert!(broker.send(&mut first, transfers(&mut script, 0..50)), "what is read at once is taken");
    assert!(!broker.send(&mut first, transfers(&mut script, 50..51)));
    // Another connection comes too late for the messages of this minute.
    let mut script = begun_sender();
    let mut second = broker.connect(2, &mut script);
    assert!(!broker.send(&mut second, transfers(&mut script, 0..1)));
    assert_eq!(received(&broker.executor, &broker.other).len(), 50);
    // One that only receives is read.
    let mut script = receiver();
    let mut third = broker.connect(3, &mut script);
    assert!(broker.send(&mut third, script.credit(0, 1, 0, 1, false)));
    // Without the limit all are read by the time they look again.
    broker.directory.of_default().send_rate.set(None);
    for connected in [&mut first, &mut second] {
        broker.poll(connected);
        assert!(connected.socket.network().input.is_empty());
    }
}

#[test]
fn a_connection_is_read_at_the_end_of_its_pause_whatever_others_owe_by_then() {
    let broker = Limited::new(Duration::from_secs(60));
    let namespace = broker.directory.of_default();
    let limit = Arc::new(ConnectionLimit::new(usize::MAX));
    let placer = Placer::new(Arc::clone(&broker.directory), limit, None);
    let first = placer.first();
    let mut gateway = Gateway::new(
        Arc::clone(&first.gateway),
        Arc::clone(&first.authority),
        ClientId(1),
        PeerFacts::default(),
        7,
        broker.clock.now(),
    );
    let begin = clock::instant();
    let at = |seconds| move || begin + Duration::from_secs(seconds);
    let send = |pause: &mut SendPause, messages: usize, now: u64| {
        let messages = vec![Message::default(); messages];
        let send = Command::PublishTo { path: q(), messages, auto_create: false, ticket: None };
        pause.count(&namespace, &[send], at(now));
    };
    let mut is_read = |pause: &mut SendPause, now: u64| {
        pause.renew(Some(&namespace), &mut gateway, at(now));
        pause.check_at().is_none()
    };
    let (mut flood, mut other) = (SendPause::default(), SendPause::default());
    assert!(is_read(&mut flood, 0) && is_read(&mut other, 0));
    // One second's messages come at once, so these are owed for one second and for two.
    send(&mut flood, 2, 0);
    send(&mut other, 1, 0);
    assert!(!is_read(&mut flood, 0) && !is_read(&mut other, 0));
    assert!(is_read(&mut flood, 1) && !is_read(&mut other, 1));
    send(&mut flood, 100, 1);
    assert!(!is_read(&mut flood, 2) && is_read(&mut other, 2));
    // It goes on until it sends itself, and waits for all that is owed then.
    assert!(is_read(&mut other, 3));
    send(&mut other, 1, 3);
    assert!(!is_read(&mut other, 99) && !is_read(&mut flood, 101));
    assert!(is_read(&mut flood, 102) && !is_read(&mut other, 102) && is_read(&mut other, 103));
    assert_eq!(namespace.send_rate.waits(), 4);
    // A pause is looked at again each second, and ends with the limit.
    send(&mut flood, 1_000, 103);
    assert!(!is_read(&mut flood, 104));
    assert_eq!(flood.check_at(), Some(at(105)()));
    namespace.send_rate.set(None);
    assert!(is_read(&mut flood, 104));
}

#[test]
fn a_client_that_is_not_read_is_not_taken_for_silent() {
    let idle = Duration::from_millis(1);
    let broker = Limited::new(idle);
    let mut script = begun_sender();
    let mut connected = broker.connect(1, transfers(&mut script, 0..50));
    assert!(!broker.send(&mut connected, script.heartbeat()));
    let silent_until = clock::instant() + 50 * idle;
    while clock::instant() < silent_until {
        broker.poll(&mut connected);
    }
    broker.directory.of_default().send_rate.set(None);
    broker.poll(&mut connected);
    assert!(connected.socket.network().input.is_empty());
    let text = b"nothing received";
    let output = &connected.socket.network().output;
    assert!(!output.windows(text.len()).any(|bytes| bytes == text), "it was closed");
}
