//! A namespace is deleted while as many clients send to it as a process has room for: the real process and real sockets.

mod crowd;

use std::{
    fs,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use amqp_codec::{
    performative::{DeliveryState, Performative},
    types::ReceiverSettleMode,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::{
    full_namespaces::{ROOT, ask, lets_in, sender, shown, stored, until_gone},
    memory::{KIB, MIB, address, of_process},
    support::{Broker, Folder, pass_one, until},
};
use crowd::{Crowd, Departure, Ending, LATE, Target};

const CLIENTS: usize = 10_000;
/// Files of a process beside the sockets of these clients: its own, and those of tests at the same time.
const OTHER_FILES: u64 = 1_000;
/// Memory that may be left when the clients are gone: what allocators and buffers of threads keep.
const LEFT: u64 = 24 * MIB;
/// Longest wait for an answer to the neighbour, and for what the broker gives back by and by. Far beyond what they need: an answer
/// takes up to half a second in this build where the test has the processor for itself, and other tests may have it meanwhile.
const PATIENCE: Duration = Duration::from_secs(300);

/// The limit is no matter here: more than a tenth of the places stays free.
fn configuration(clients: usize) -> String {
    format!(
        "durability = \"os\"\nlisten = [\"127.0.0.1:0\"]\nauto_create = true\n\
         [limits]\nmax_connections = {}\nio_threads = 2\nshutdown_time_out = \"0s\"\n\
         [journal]\ncache_bytes = \"1 MiB\"\n",
        clients * 5 / 4 + 100
    )
}

/// Makes room for the sockets of so many clients in this process, and in those that it starts. Returns for how many there is.
fn make_room(clients: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = clients as u64 + OTHER_FILES;
    let current = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if limit.current.is_some_and(|now| now < current) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit }).unwrap();
    }
    let room = usize::try_from(current.saturating_sub(OTHER_FILES)).unwrap();
    if room < clients {
        eprintln!("a process may have {current} open files here: {room} clients instead of {clients}");
    }
    room
}

/// A client of another namespace that sends, receives and completes one message after the other.
struct Neighbour {
    passed: Arc<Passed>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Number of messages that went through.
#[derive(Default)]
struct Passed {
    number: Mutex<u32>,
    grew: Condvar,
}

impl Neighbour {
    fn start(broker: &Broker, namespace: &str) -> Self {
        let mut wire = sender(broker, namespace);
        wire.stream().set_read_timeout(Some(PATIENCE)).unwrap();
        wire.receiver(2, "out", "orders", Some(ReceiverSettleMode::First)).unwrap();
        let (passed, is_over) = (Arc::new(Passed::default()), Arc::new(AtomicBool::new(false)));
        let (counted, ended) = (Arc::clone(&passed), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            for round in 0.. {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                pass_one(&mut wire, round);
                *counted.number.lock().unwrap() = round + 1;
                counted.grew.notify_all();
            }
        });
        let neighbour = Self { passed, is_over, thread };
        neighbour.goes_on();
        neighbour
    }

    /// Waits until it has passed on ten messages more.
    fn goes_on(&self) {
        let number = self.passed.number.lock().unwrap();
        let before = *number;
        let (number, waited) =
            self.passed.grew.wait_timeout_while(number, PATIENCE, |number| *number < before + 10).unwrap();
        assert!(!waited.timed_out(), "the neighbour passes on nothing after {number} messages");
    }

    /// Ends it, and demands that each message of it was answered and came.
    fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
    }
}

/// Memory, threads and sockets of the process.
#[derive(Debug)]
struct Usage {
    memory: u64,
    threads: u64,
    sockets: usize,
}

impl Usage {
    fn of(broker: &Broker) -> Self {
        let files = fs::read_dir(format!("/proc/{}/fd", broker.id())).unwrap();
        // A file that was closed meanwhile has no name any more.
        let names = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        Self {
            memory: of_process(broker, "RssAnon:"),
            threads: of_process(broker, "Threads:") / KIB,
            sockets: names.filter(|name| name.to_string_lossy().starts_with("socket:")).count(),
        }
    }

    /// Waits until the process uses no more than this again.
    fn returns(&self, broker: &Broker) {
        let begun = Instant::now();
        loop {
            let now = Self::of(broker);
            if now.memory <= self.memory + LEFT && now.threads <= self.threads && now.sockets <= self.sockets
            {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "before: {self:?}, still: {now:?}");
            thread::yield_now();
        }
    }
}

/// Creates a namespace, and returns the text of a key of it that may send.
fn create(broker: &Broker, namespace: &str) -> String {
    let (status, found) = ask(broker, &format!("PUT {ROOT}/{namespace}"), &json!({}));
    assert_eq!(status, 201, "{found}");
    let request = format!("PUT {ROOT}/{namespace}/keys/app");
    let (status, found) = ask(broker, &request, &json!({ "rights": ["send"] }));
    assert_eq!(status, 201, "{found}");
    found["primary"].as_str().unwrap().to_owned()
}

/// Each client was served, was told why it has to go, and had nothing accepted that it began to send behind the answer.
fn check(departures: &[Departure]) {
    for departure in departures {
        let Ending::Closed(error) = &departure.ending else { panic!("{departure:?}") };
        let text = error.description.as_deref().unwrap_or_default();
        assert_eq!(error.condition.as_str(), "amqp:not-found", "{departure:?}");
        let begins = "The messaging entity 'team-a' could not be found: the namespace has been deleted.";
        assert!(text.starts_with(begins), "{departure:?}");
        assert!(departure.accepted > 0 && departure.accepted_late == 0, "{departure:?}");
    }
}

/// A namespace of the deleted name is another one: nothing of the first is in it, and the first one's key opens nothing.
fn check_successor(broker: &Broker, key: &str) {
    create(broker, "team-a");
    assert!(!lets_in(broker, "team-a", ("app", key)));
    assert_eq!(shown(broker, "team-a").unwrap()["usage"]["entities"], 0);
    let mut wire = sender(broker, "team-a");
    assert_eq!(stored(broker, "team-a"), 0);
    let handle = wire.receiver(2, "out", "orders", Some(ReceiverSettleMode::First)).unwrap().handle;
    wire.script.credit(0, 2, 0, 10, true);
    let is_answer = |frame: &Performative| match frame {
        Performative::Flow(flow) => flow.handle == Some(handle),
        frame => matches!(frame, Performative::Transfer(_)),
    };
    let answer = wire.until(is_answer).unwrap().performative;
    let Performative::Flow(flow) = answer else { panic!("there is a message: {answer:?}") };
    assert_eq!((flow.link_credit, flow.delivery_count), (Some(0), Some(10)));
    wire.script.transfer(0, 1, 0, false, &testkit::data(b"the first one"));
    assert_eq!(wire.disposed().unwrap().state, Some(DeliveryState::Accepted));
    assert_eq!(stored(broker, "team-a"), 1);
}

#[test]
fn a_deletion_ends_ten_thousand_clients_that_send_and_leaves_nothing_of_them() {
    let clients = make_room(CLIENTS);
    let folder = Folder::new("deleted-namespace");
    folder.write("ferrybus.toml", &configuration(clients));
    let broker = Broker::logged(&folder.0, &[], &folder.0.join("log"));
    let key = create(&broker, "team-a");
    create(&broker, "team-b");
    drop(sender(&broker, "team-a"));
    let neighbour = Neighbour::start(&broker, "team-b");
    let before = Usage::of(&broker);

    let target =
        Target { address: address(&broker), namespace: "team-a", queue: "orders", key: ("app", key.clone()) };
    let crowd = Crowd::connect(target, clients);
    assert!(Usage::of(&broker).sockets >= clients);
    crowd.send();
    neighbour.goes_on();
    let (status, found) = ask(&broker, &format!("DELETE {ROOT}/team-a"), &Value::Null);
    crowd.note_answer();
    assert_eq!(status, 202, "{found}");
    neighbour.goes_on();
    assert!(!lets_in(&broker, "team-a", ("app", &key)));
    let departures = crowd.depart();
    check(&departures);
    let late: usize = departures.iter().map(|departure| departure.sent_late).sum();
    assert!(late >= clients / LATE, "{late} messages were sent behind the answer");

    until_gone(&broker, "team-a");
    neighbour.goes_on();
    before.returns(&broker);
    check_successor(&broker, &key);
    neighbour.end();
    until(|| stored(&broker, "team-b") == 0);
    assert!(broker.stop().success());
}
