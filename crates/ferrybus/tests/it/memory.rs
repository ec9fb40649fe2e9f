//! Memory under peers that are wrong, slow or greedy: the real process, as the system sees it.
//!
//! Each attack has a broker of its own, so that the peak of the process is that of the attack; its bound is a sum of
//! named limits. Meanwhile and afterwards somebody else is served.

use std::{
    fs,
    io::Write as _,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use amqp_codec::{
    frame::{FrameKind, ProtocolHeader},
    performative::{DeliveryState, Flow, SaslFrame, SaslInit, SaslResponse, Transfer},
    types::ReceiverSettleMode,
};
use bytes::{Bytes, BytesMut};
use testkit::{Script, Wire};

use crate::support::{Broker, Folder, pass_one, put, stranger, swallow};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// Memory that does not depend on the attack: read and write buffers of two threads, the journal's buffers, the body
/// cache of the configuration, and the allocator's slack.
pub(crate) const ALLOWANCE: u64 = 12 * MIB;
/// `limits.max_message_bytes`, `limits.max_links_per_connection` and `journal.cache_bytes` of these brokers.
const MESSAGE: u64 = MIB;
const LINKS: u32 = 1000;
const CONFIGURATION: &str = "durability = \"os\"\nlisten = [\"127.0.0.1:0\"]\n\
    [limits]\nmax_message_bytes = \"1 MiB\"\nmax_links_per_connection = 1000\nio_threads = 2\nshutdown_time_out = \"0s\"\n\
    [journal]\ncache_bytes = \"1 MiB\"\n\
    [[queue]]\nname = \"orders\"\n[[queue]]\nname = \"innocent\"\n";
/// Memory bound of a connection before its open, in this build with its large futures.
pub(crate) const IDLE: u64 = 32 * KIB;

/// A broker under attack, and somebody who has nothing to do with it.
pub(crate) struct Scene {
    pub(crate) broker: Broker,
    innocent: Wire,
    rounds: u32,
    /// Bytes before the attack.
    before: u64,
    _folder: Folder,
}

impl Scene {
    fn new(name: &str) -> Self {
        Self::with(name, "")
    }

    /// The same with more in its configuration.
    pub(crate) fn with(name: &str, more: &str) -> Self {
        Self::started(name, more, &[])
    }

    /// The same with more on its command line.
    pub(crate) fn started(name: &str, more: &str, arguments: &[&str]) -> Self {
        let folder = Folder::new(name);
        folder.write("ferrybus.toml", &format!("{CONFIGURATION}{more}"));
        let broker = Broker::start(&folder.0, arguments);
        let mut innocent = log_in(address(&broker));
        innocent.sender(1, "in", "innocent").unwrap();
        innocent.receiver(2, "out", "innocent", Some(ReceiverSettleMode::First)).unwrap();
        let mut scene = Self { broker, innocent, rounds: 0, before: 0, _folder: folder };
        scene.innocent_works();
        scene.measure();
        scene
    }

    pub(crate) fn measure(&mut self) {
        self.before = of_process(&self.broker, "RssAnon:");
    }

    pub(crate) fn address(&self) -> SocketAddr {
        address(&self.broker)
    }

    /// The other client sends, receives and completes a message.
    pub(crate) fn innocent_works(&mut self) {
        pass_one(&mut self.innocent, self.rounds);
        self.rounds += 1;
    }

    /// Demands that the attack has never cost more than `bound` bytes, and that others are still served.
    pub(crate) fn bounded_by(mut self, bound: u64) {
        self.innocent_works();
        // Pages of the program itself come with what it does for the first time.
        let peak = of_process(&self.broker, "VmHWM:") - of_process(&self.broker, "RssFile:");
        let grown = peak.saturating_sub(self.before);
        assert!(
            grown <= ALLOWANCE + bound,
            "{} KiB more, bound {} KiB",
            grown / KIB,
            (ALLOWANCE + bound) / KIB
        );
        assert!(self.broker.stop().success());
    }
}

pub(crate) fn address(broker: &Broker) -> SocketAddr {
    broker.addresses[0].parse().unwrap()
}

/// A value of `/proc/PID/status` in bytes.
pub(crate) fn of_process(broker: &Broker, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", broker.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * KIB
}

pub(crate) fn log_in(address: SocketAddr) -> Wire {
    Wire::session(address, "RootManageSharedAccessKey", "SAS_KEY_VALUE").unwrap()
}

/// Writes what the broker takes; it may hang up at any time.
pub(crate) fn pour(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).is_ok()
}

/// A frame of an unsettled message that goes on, on this link.
fn unfinished(handle: u32, id: u32) -> Transfer {
    Transfer { more: true, ..Script::transfer_frame(handle, id, false) }
}

#[test]
fn endless_log_ins_cost_a_frame_each() {
    const CONNECTIONS: u64 = 150;
    let mut scene = Scene::new("memory-sasl");
    let mut script = Script::new();
    script.header(ProtocolHeader::Sasl);
    let mut frame = |frame: SaslFrame| {
        let mut body = BytesMut::new();
        frame.encode(&mut body);
        script.frame(FrameKind::Sasl, 0, &body);
    };
    frame(SaslFrame::Init(SaslInit { mechanism: "PLAIN".into(), initial_response: None, hostname: None }));
    for _ in 0..100 {
        frame(SaslFrame::Response(SaslResponse { response: Bytes::from(vec![b'x'; 16_000]) }));
    }
    let endless = script.take_output();
    // Half a frame of the largest size that SASL may have stays with the broker.
    let half = &endless[..endless.len().min(15_000)];
    let mut open = Vec::new();
    for round in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(scene.address()).unwrap();
        pour(&mut stream, if round % 2 == 0 { &endless } else { half });
        open.push(stream);
    }
    scene.innocent_works();
    // A SASL frame has 16 KiB at most, and its buffer twice as much.
    scene.bounded_by(CONNECTIONS * (IDLE + 32 * KIB));
}

#[test]
fn half_open_connections_cost_as_much_as_idle_ones() {
    const CONNECTIONS: usize = 300;
    let mut scene = Scene::new("memory-half-open");
    let said: [&[u8]; 6] = [
        b"",
        b"AMQP",
        b"AMQP\x03\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00\x00\x00\x00\xff\x02\x01\x00\x00",
        b"PUT /q HTTP/1.1\r\nHost:",
        b"\x16\x03\x01\x02\x00\x01",
    ];
    let mut open = Vec::new();
    for words in said.iter().cycle().take(CONNECTIONS) {
        let mut stream = TcpStream::connect(scene.address()).unwrap();
        pour(&mut stream, words);
        open.push(stream);
    }
    scene.innocent_works();
    scene.bounded_by(CONNECTIONS as u64 * IDLE);
}

#[test]
fn receivers_that_read_nothing_hold_their_window_and_not_the_backlog() {
    const READERS: u64 = 8;
    const MESSAGES: u32 = 6000;
    const BODY: usize = 10 << 10;
    let mut scene = Scene::new("memory-slow-readers");
    let mut sender = log_in(scene.address());
    sender.sender(1, "s", "orders").unwrap();
    let payload = testkit::data(&[b'x'; BODY]);
    for first in (0..MESSAGES).step_by(100) {
        for id in first..first + 100 {
            sender.script.transfer(0, 1, id, false, &payload);
        }
        let mut answered = first;
        while answered < first + 100 {
            let disposition = sender.disposed().unwrap();
            assert_eq!(disposition.state, Some(DeliveryState::Accepted));
            answered = disposition.last.unwrap_or(disposition.first) + 1;
        }
    }
    scene.measure();
    let mut open = Vec::new();
    for number in 0..READERS {
        let mut reader = log_in(scene.address());
        let mode = (number % 2 == 0).then_some(ReceiverSettleMode::First);
        reader.receiver(1, "r", "orders", mode).unwrap();
        reader.script.credit(0, 1, 0, u32::MAX, false);
        reader.flush().unwrap();
        open.push(reader);
    }
    for _ in 0..20 {
        scene.innocent_works();
    }
    // A window of 1 MiB with the broker, and output that the socket would not take. The backlog is 60 MiB, and what the
    // filling has cost counts as well: a batch of it is a megabyte, several at a time.
    scene.bounded_by(READERS * (IDLE + 2 * MIB));
}

#[test]
fn a_flood_of_attaches_costs_the_links_that_are_allowed() {
    // A million take minutes in this build, and by hand cost no more: what is allowed is attached by then.
    const ATTACHES: u32 = 100_000;
    let mut scene = Scene::new("memory-attaches");
    let mut wire = log_in(scene.address());
    swallow(wire.stream());
    let mut number = 0;
    // More links than allowed in as many sessions as it takes; what is refused is detached, and asked for again.
    'flood: for channel in 1.. {
        wire.script.begin(channel);
        for handle in 0..LINKS {
            wire.script.attach_sender(channel, handle, &format!("l{number}"), Some("orders"));
            if number > LINKS {
                wire.script.detach(channel, handle, true);
            }
            number += 1;
            if number % 500 == 0 && wire.flush().is_err() || number == ATTACHES {
                break 'flood;
            }
        }
    }
    drop(wire.flush());
    scene.innocent_works();
    // A link with its name, its place at the core and its queue; and 4 MiB of answers that wait.
    scene.bounded_by(u64::from(LINKS) * 8 * KIB + 4 * MIB);
}

#[test]
fn endless_credit_and_endless_dispositions_cost_nothing() {
    let mut scene = Scene::new("memory-numbers");
    let mut wire = log_in(scene.address());
    swallow(wire.stream());
    for handle in 1..=100 {
        wire.script.attach_receiver(
            0,
            handle,
            &format!("r{handle}"),
            "orders",
            Some(ReceiverSettleMode::First),
        );
    }
    for round in 0..300_u32 {
        for handle in 1..=100 {
            wire.script.credit(0, handle, round.wrapping_mul(0x4000_0000), u32::MAX, round % 2 == 0);
        }
        for (first, last) in [(0, u32::MAX), (u32::MAX, 0), (1 << 31, (1 << 31) - 1)] {
            wire.script.disposition(0, first, last, round % 2 == 0, Some(DeliveryState::Accepted));
        }
        wire.script.flow(0, Flow { incoming_window: u32::MAX, echo: true, ..Flow::default() });
        if wire.flush().is_err() {
            break;
        }
    }
    scene.innocent_works();
    // A hundred links, and answers to echoes that wait.
    scene.bounded_by(100 * 8 * KIB + 4 * MIB);
}

#[test]
fn messages_that_never_end_cost_the_largest_message_at_most() {
    const FRAME: usize = 60_000;
    const LITTLE: u32 = 500;
    let mut scene = Scene::new("memory-endless");
    let mut wire = log_in(scene.address());
    swallow(wire.stream());
    for handle in 0..=LITTLE {
        wire.script.attach_sender(0, handle, &format!("l{handle}"), Some("orders"));
    }
    // One endless message of 120 MB; in between, on other links, small ones that do not end either: what is kept of them
    // must not keep the buffers that all of it was read into.
    let (large, little) = (vec![b'x'; FRAME], [b'y'; 100]);
    for handle in 1..=LITTLE {
        for _ in 0..4 {
            wire.script.transfer_with(0, unfinished(0, 0), &large);
        }
        wire.script.transfer_with(0, unfinished(handle, handle), &little);
        if wire.flush().is_err() {
            break;
        }
    }
    scene.innocent_works();
    scene.bounded_by(2 * MESSAGE + u64::from(LITTLE) * 8 * KIB);
}

#[test]
fn unfinished_messages_over_many_links_cost_two_messages_for_each_connection() {
    const CONNECTIONS: u64 = 10;
    let mut scene = Scene::new("memory-unfinished");
    let mut open = Vec::new();
    let half = vec![b'x'; 60_000];
    for _ in 0..CONNECTIONS {
        let mut wire = log_in(scene.address());
        swallow(wire.stream());
        for handle in 0..150 {
            wire.script.attach_sender(0, handle, &format!("l{handle}"), Some("orders"));
        }
        // 9 MB each, if it were let.
        for handle in 0..150 {
            wire.script.transfer_with(0, unfinished(handle, handle), &half);
        }
        drop(wire.flush());
        open.push(wire);
    }
    scene.innocent_works();
    // Twice the largest message, in buffers that may have doubled, and links.
    scene.bounded_by(CONNECTIONS * (4 * MESSAGE + 150 * 8 * KIB + IDLE));
}

#[test]
fn answers_that_are_not_read_cost_no_more_than_the_limit_of_unread_bytes() {
    const REQUESTS: u32 = 3_000;
    let mut scene = Scene::new("memory-answers");
    let mut wire = stranger(scene.address());
    wire.stream().set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let request = put("no token", "q", &"x".repeat(50_000));
    // 150 MB of answers, if all were kept.
    for id in 0..REQUESTS {
        wire.script.transfer(0, 0, id, true, &request);
        if wire.flush().is_err() {
            break;
        }
    }
    scene.innocent_works();
    // The limit of answers, one more, the buffers that they were read into, and what the socket would not take.
    scene.bounded_by(IDLE + MIB + 2 * MIB);
}

#[test]
fn endless_tokens_cost_no_more_than_a_connection_may_hold() {
    const REQUESTS: u32 = 20_000;
    let mut scene = Scene::new("memory-tokens");
    let mut wire = stranger(scene.address());
    swallow(wire.stream());
    let key = broker_auth::Secret::new("SAS_KEY_VALUE");
    let sign =
        |audience: &str, ends| broker_auth::sign_token(audience, "RootManageSharedAccessKey", &key, ends);
    for id in 0..REQUESTS {
        // Good ones for as many places as there are, expired ones, and ones that nobody has signed.
        let audience = format!("sb://localhost/{id:0>200}");
        let token = match id % 3 {
            0 => sign(&audience, u64::from(u32::MAX)),
            1 => sign(&audience, 1_600_000_000),
            _ => "SharedAccessSignature sr=x&sig=eA%3D%3D&se=4000000000&skn=RootManageSharedAccessKey".into(),
        };
        wire.script.transfer(0, 0, id, true, &put(&token, &audience, "m"));
        if id % 100 == 0 && wire.flush().is_err() {
            break;
        }
    }
    drop(wire.flush());
    scene.innocent_works();
    // 4,096 tokens may be held at once, each with the name of its place, and answers wait on their way.
    scene.bounded_by(IDLE + 4_096 * KIB + 2 * MIB);
}
