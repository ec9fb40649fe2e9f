use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use amqp_codec::frame::ProtocolHeader;
use amqp_codec::performative::{
    Attach, Begin, DeliveryState, Disposition, Flow, Open, Performative, SaslCode, SaslFrame, SaslOutcome,
};
use amqp_codec::types::Role;
use bytes::Bytes;
use testkit::{Incoming, Received, Script};

use super::{Extent, Load, Loop, Outcome, Peer};

/// Reaction of a peer of the tests to a message.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Accepts the tenth and forgets it.
    Loses,
    /// Changes a byte of the tenth.
    Damages,
    /// Passes the tenth on twice.
    Repeats,
}

/// A peer that accepts everything and passes it on to its receivers, on one queue.
#[derive(Clone)]
struct Queue {
    messages: Arc<Mutex<Vec<Bytes>>>,
    fault: Fault,
}

/// Listens, and serves each connection on a thread that ends with it.
fn peer(fault: Fault) -> Peer {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let queue = Queue { messages: Arc::default(), fault };
    thread::spawn(move || {
        for stream in listener.incoming() {
            let queue = queue.clone();
            thread::spawn(move || queue.serve(stream.unwrap()));
        }
    });
    Peer { port, address: "queue".to_owned(), user: None, namespace: None, pid: None }
}

impl Queue {
    fn serve(&self, mut stream: TcpStream) {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut script = Script::new();
        let (mut buffer, mut received, mut credit, mut sent) = (vec![0; 65_536], 0, 0, 0);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => script.handle_input(&buffer[..count]),
                Err(_) => {}
            }
            while let Some(incoming) = script.poll() {
                match incoming {
                    Incoming::Header(ProtocolHeader::Sasl) => drop(script.header(ProtocolHeader::Sasl)),
                    Incoming::Sasl(_) => {
                        let outcome = SaslOutcome { code: SaslCode::Ok, additional_data: None };
                        let mut body = bytes::BytesMut::new();
                        SaslFrame::Outcome(outcome).encode(&mut body);
                        script.frame(amqp_codec::frame::FrameKind::Sasl, 0, &body);
                    }
                    Incoming::Header(_) => drop(script.header(ProtocolHeader::Amqp)),
                    Incoming::Frame(frame) => self.answer(frame, &mut script, &mut received, &mut credit),
                    Incoming::Heartbeat => {}
                }
            }
            while sent < credit
                && let Some(message) = self.take()
            {
                script.transfer(0, 0, sent, false, &message);
                sent += 1;
            }
            if stream.write_all(&script.take_output()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, frame: Received, script: &mut Script, received: &mut u32, credit: &mut u32) {
        match frame.performative {
            Performative::Open(_) => drop(script.open_with(Open::new("peer"))),
            Performative::Begin(begin) => {
                let begin = Begin { remote_channel: Some(0), ..*begin };
                script.send(0, &Performative::Begin(Box::new(begin)), b"");
            }
            Performative::Attach(attach) => {
                let sends = attach.role == Role::Sender;
                let role = if sends { Role::Receiver } else { Role::Sender };
                script.attach(0, Attach { role, ..*attach });
                if sends {
                    script.credit(0, 0, 0, 1_000_000, false);
                }
            }
            Performative::Flow(Flow { delivery_count: Some(count), link_credit: Some(more), .. }) => {
                *credit = count + more;
            }
            Performative::Transfer(transfer) => {
                *received += 1;
                self.keep(*received, frame.payload);
                let first = transfer.delivery_id.unwrap();
                let accepted = Disposition {
                    role: Role::Receiver,
                    first,
                    last: None,
                    settled: true,
                    state: Some(DeliveryState::Accepted),
                    batchable: false,
                };
                script.send(0, &Performative::Disposition(accepted), b"");
            }
            _ => {}
        }
    }

    fn keep(&self, number: u32, payload: Bytes) {
        let mut messages = self.messages.lock().unwrap();
        match self.fault {
            Fault::Loses if number == 10 => {}
            Fault::Damages if number == 10 => {
                let mut bytes = payload.to_vec();
                let place = bytes.len() / 2;
                bytes[place] ^= 1;
                messages.push(bytes.into());
            }
            Fault::Repeats if number == 10 => messages.extend([payload.clone(), payload]),
            _ => messages.push(payload),
        }
    }

    fn take(&self) -> Option<Bytes> {
        let mut messages = self.messages.lock().unwrap();
        if messages.is_empty() { None } else { Some(messages.remove(0)) }
    }
}

fn load(pace: Loop) -> Load {
    Load {
        senders: 1,
        receivers: 1,
        queues: 1,
        size: 100,
        durable: false,
        pace,
        credit: 100,
        starts_behind: 0,
        nice: 0,
        extent: Extent::Time { warm_up: Duration::from_millis(50), measured: Duration::from_millis(200) },
    }
}

const CLOSED: Loop = Loop::Closed { window: 50, max_backlog: Some(200) };

#[test]
fn a_closed_loop_counts_sent_acknowledged_and_received_messages() {
    let outcome = load(CLOSED).run(&peer(Fault::None)).unwrap();
    assert!(outcome.sent > 0 && outcome.acknowledged > 0 && outcome.received > 0);
    assert!(outcome.acknowledgement.is_some() && outcome.end_to_end.is_some());
}

#[test]
fn an_open_loop_sends_as_many_as_are_due() {
    let outcome = load(Loop::Open { rate: 500 }).run(&peer(Fault::None)).unwrap();
    // 100 are due in 200 ms; a busy machine may measure for longer.
    let due = outcome.seconds * 500.0;
    #[expect(clippy::cast_precision_loss, reason = "a hundred messages")]
    let sent = outcome.sent as f64;
    assert!((sent - due).abs() <= due / 2.0, "{sent} of {due}");
}

#[test]
fn a_run_of_so_many_messages_ends_when_all_are_acknowledged() {
    let fill = Load { receivers: 0, extent: Extent::Messages(300), ..load(CLOSED) };
    let fill = Load { pace: Loop::Closed { window: 50, max_backlog: None }, ..fill };
    let outcome = fill.run(&peer(Fault::None)).unwrap();
    assert_eq!((outcome.sent, outcome.acknowledged), (300, 300));
}

#[test]
fn a_message_that_is_damaged_or_comes_twice_is_an_error_and_no_figure() {
    for (fault, said) in [(Fault::Damages, "not as it was sent"), (Fault::Repeats, "came after number")] {
        let error = load(CLOSED).run(&peer(fault)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_message_that_is_lost_is_an_error_and_no_figure() {
    let mut load = load(CLOSED);
    load.extent = Extent::Time { warm_up: Duration::ZERO, measured: Duration::from_millis(100) };
    let error = load.run_with(&peer(Fault::Loses), Duration::from_millis(300)).unwrap_err().to_string();
    assert!(error.contains("acknowledged"), "{error}");
}

#[test]
fn a_run_that_only_sends_has_the_rate_of_its_senders() {
    let outcome = Outcome { seconds: 2.0, sent: 400, acknowledged: 400, ..Outcome::default() };
    assert!((outcome.rate() - 200.0).abs() < 1e-9);
}

#[test]
fn the_rate_is_that_of_the_slower_side() {
    let outcome = Outcome { seconds: 2.0, sent: 400, acknowledged: 400, received: 300, ..Outcome::default() };
    assert!((outcome.rate() - 150.0).abs() < 1e-9);
}

#[test]
fn what_is_beside_a_load_is_done_once_the_backlog_is_there_and_all_is_received_afterwards() {
    let backlog = 150;
    let pace = Loop::Closed { window: 50, max_backlog: Some(backlog) };
    let load = Load { starts_behind: backlog, ..load(pace) };
    let at_the_backlog = load
        .beside(&peer(Fault::None), Duration::from_secs(20), |progress| {
            progress.until(Duration::from_secs(20), |counts| counts.acknowledged >= backlog)?;
            progress.until(Duration::from_secs(20), |counts| counts.received > 0)?;
            Ok(progress.counts())
        })
        .unwrap();
    assert!(at_the_backlog.sent >= backlog);
    assert!(at_the_backlog.sent <= at_the_backlog.received + backlog);
}

#[test]
fn receivers_that_start_behind_ask_for_nothing_before() {
    let load = Load { starts_behind: 150, ..load(Loop::Closed { window: 50, max_backlog: Some(100) }) };
    // The senders never get as far as that, for nobody receives.
    let received = load.beside(&peer(Fault::None), Duration::from_secs(20), |progress| {
        progress.until(Duration::from_secs(20), |counts| counts.acknowledged == 100)?;
        let received = progress.counts().received;
        Err::<(), _>(format!("{received} received").into())
    });
    assert_eq!(received.unwrap_err().to_string(), "0 received");
}

#[test]
fn a_message_that_is_lost_beside_other_work_leaves_no_figure_of_it() {
    let error = load(CLOSED)
        .beside(&peer(Fault::Loses), Duration::from_millis(300), |progress| {
            progress.until(Duration::from_secs(20), |counts| counts.acknowledged > 20)
        })
        .unwrap_err()
        .to_string();
    assert!(error.contains("acknowledged"), "{error}");
}

#[test]
fn the_time_of_a_message_counts_from_when_it_was_due_and_where_that_was_measured() {
    let load = Load { receivers: 0, ..load(Loop::Open { rate: 500 }) };
    let outcome = load.run(&peer(Fault::None)).unwrap();
    let ([p50, p99, _], [_, late, _]) = (outcome.acknowledgement.unwrap(), outcome.delay.unwrap());
    let slowest = outcome.slowest.unwrap();
    assert!(0.0 < p50 && p50 <= p99 && p99 <= slowest);
    // The answer is never there before the message was handed over.
    assert!(late <= slowest, "{late} of {slowest}");
}

#[test]
fn the_generator_of_a_nice_load_lets_others_have_the_cores() {
    let nice = Load { nice: 7, ..load(CLOSED) };
    let of_thread = thread::spawn(move || {
        nice.lower_priority().unwrap();
        rustix::process::getpriority_process(None).unwrap()
    });
    assert_eq!(of_thread.join().unwrap(), 7);
    assert_eq!(rustix::process::getpriority_process(None).unwrap(), 0);
}
