use std::{
    sync::atomic::AtomicBool,
    task::{Context, Wake, Waker},
    thread,
};

use proptest::prelude::*;

use super::*;

const KIB: usize = 1 << 10;

/// The task of a connection: whether it was woken.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    /// The thread that waits for it, if one does.
    thread: Mutex<Option<thread::Thread>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        if let Some(thread) = &*self.thread.lock().unwrap() {
            thread.unpark();
        }
    }
}

/// A connection that has input without end.
struct Client {
    effect_queue: Arc<EffectQueue>,
    bell: Arc<Bell>,
}

impl Client {
    fn of(account: &Arc<IngressCredit>) -> Self {
        Self { effect_queue: Arc::new(EffectQueue::new(Arc::clone(account))), bell: Arc::default() }
    }

    /// Its task is polled. False: it does not read, and rests.
    fn reads(&self) -> bool {
        self.bell.rung.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.bell));
        assert!(self.effect_queue.poll_take(&Context::from_waker(&waker)).is_pending());
        self.effect_queue.may_read()
    }

    fn is_rung(&self) -> bool {
        self.bell.rung.load(Ordering::SeqCst)
    }
}

fn rung(clients: &[Client]) -> Vec<bool> {
    clients.iter().map(Client::is_rung).collect()
}

fn clients<const N: usize>(account: &Arc<IngressCredit>) -> [Client; N] {
    std::array::from_fn(|_| Client::of(account))
}

fn namespaces<const N: usize>(all: &Arc<InFlightLimit>) -> [Arc<IngressCredit>; N] {
    std::array::from_fn(|_| Arc::new(IngressCredit::of_namespace(Arc::clone(all))))
}

#[test]
fn a_namespace_needs_room_of_its_own_and_among_all() {
    let all = Arc::new(InFlightLimit::new(100));
    let [a, b] = namespaces(&all);
    a.set(60, 1);
    a.add(60);
    assert_eq!((a.has_room(), b.has_room()), (false, true));
    b.add(40);
    assert_eq!((a.has_room(), b.has_room()), (false, false));
    a.remove(11);
    assert_eq!((a.has_room(), b.has_room(), a.bytes(), b.bytes()), (true, true, 49, 40));
}

#[test]
fn a_connection_that_waits_for_its_namespace_or_for_all_is_called_when_that_has_room() {
    let all = Arc::new(InFlightLimit::new(100));
    let [a, b] = namespaces(&all);
    a.set(50, 1);
    let [client] = clients(&a);
    a.add(50);
    assert!(!client.reads());
    b.add(1);
    b.remove(1);
    assert!(!client.is_rung(), "its namespace is full");
    a.remove(1);
    assert!(client.is_rung() && client.reads());
    a.remove(49);
    b.add(100);
    assert!(!client.reads(), "all have what they may");
    b.remove(1);
    assert!(!client.is_rung(), "a byte that is left is nobody's share");
    b.remove(1);
    assert!(client.is_rung() && client.reads());
}

#[test]
fn connections_are_called_one_at_a_time_in_the_order_in_which_they_came() {
    let [account] = namespaces(&Arc::new(InFlightLimit::new(100)));
    let clients: [Client; 4] = clients(&account);
    account.add(150);
    for client in &clients {
        assert!(!client.reads());
        // It may be woken for other things, and then waits as before.
        assert!(!client.reads());
    }
    account.remove(50);
    assert_eq!(rung(&clients), [false; 4], "no room yet");
    account.remove(1);
    assert_eq!(rung(&clients), [true, false, false, false]);
    assert!(clients[0].reads());
    assert_eq!(rung(&clients), [false, true, false, false], "the first one called the next");
    account.add(1);
    assert!(!clients[1].reads(), "others were quicker");
    assert_eq!(rung(&clients), [false; 4]);
    account.remove(2);
    assert_eq!(rung(&clients), [false, true, false, false], "it had its place still");
    account.remove(1);
    assert_eq!(rung(&clients), [false, true, true, false], "each removal calls one");
    assert!(clients[1].reads() && clients[2].reads() && clients[3].reads());
    account.remove(97);
    assert_eq!(rung(&clients), [false; 4]);
}

#[test]
fn one_namespace_at_its_share_leaves_room_to_another_one() {
    let all = Arc::new(InFlightLimit::new(1_000));
    let [full, other] = namespaces(&all);
    let [of_full, of_other] = [&full, &other].map(clients::<1>).map(|[client]| client);
    full.add(900);
    assert!(!of_full.reads() && of_other.reads());
    other.add(50);
    assert!(!of_other.reads(), "it has its share");
    full.remove(10);
    assert!(of_other.is_rung() && !of_full.is_rung(), "a share grows with what is left");
    assert!(of_other.reads());
    full.set(usize::MAX, 20);
    assert!(of_full.is_rung() && of_full.reads(), "so does that of a heavier one");
}

#[test]
fn a_namespace_that_is_left_alone_has_all() {
    let all = Arc::new(InFlightLimit::new(1_000));
    let [full, other] = namespaces(&all);
    let [client] = clients(&full);
    full.add(950);
    assert!(!client.reads());
    drop(other);
    assert!(client.is_rung() && client.reads());
}

#[test]
fn namespaces_that_wait_are_called_in_turn() {
    let all = Arc::new(InFlightLimit::new(1_000));
    let [a, b, full] = namespaces(&all);
    let (of_a, of_b): ([Client; 3], [Client; 3]) = (clients(&a), clients(&b));
    full.add(1_000);
    assert!(of_a.iter().chain(&of_b).all(|client| !client.reads()));
    full.remove(100);
    let mut order = Vec::new();
    while let Some(at) = of_a.iter().chain(&of_b).position(Client::is_rung) {
        assert!(of_a.iter().chain(&of_b).nth(at).unwrap().reads());
        order.push(at);
    }
    assert_eq!(order, [0, 3, 1, 4, 2, 5]);
}

#[test]
fn a_raised_limit_lets_those_read_that_wait() {
    let [account] = namespaces(&Arc::new(InFlightLimit::new(1_000)));
    let [client] = clients(&account);
    account.set(10, 1);
    account.add(20);
    assert!(!client.reads());
    account.set(20, 1);
    assert!(!client.is_rung());
    account.set(30, 1);
    assert!(client.is_rung() && client.reads());
    account.set(20, 1);
    assert!(!client.reads());
}

#[test]
fn a_call_goes_to_the_next_where_one_is_paused_full_itself_or_gone() {
    let [account] = namespaces(&Arc::new(InFlightLimit::new(20 << 20)));
    let clients: [Client; 6] = clients(&account);
    clients[0].effect_queue.handed_over(3 << 20);
    account.add(17 << 20);
    assert!(clients.iter().all(|client| !client.reads()));
    // It submits what it had read before.
    clients[0].effect_queue.handed_over(2 << 20);
    account.remove(3 << 20);
    assert_eq!(rung(&clients), [true, false, false, false, false, false]);
    assert!(!clients[0].reads(), "it has too much in flight itself");
    assert_eq!(rung(&clients), [false, true, false, false, false, false]);
    clients[1].effect_queue.pass_call_on();
    assert!(clients[2].is_rung());
    clients[4].effect_queue.leave();
    clients[2].effect_queue.leave();
    assert!(clients[3].is_rung(), "the one that is gone was called");
    clients[5].effect_queue.leave();
    assert_eq!(account.waiting().queue.len(), 0, "the account keeps nothing of those that are gone");
    assert!(clients[3].reads());
    clients[1].effect_queue.pass_call_on();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The task of a connection is polled, and hands over so much of what it reads.
    Poll(usize, usize),
    /// The node processes so much of a connection.
    Process(usize, usize),
    Pause(usize),
    Leave(usize),
    Set(usize, usize, u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_usize..12, 0_usize..300).prop_map(|(client, bytes)| Step::Poll(client, bytes)),
        4 => (0_usize..12, 1_usize..400).prop_map(|(client, bytes)| Step::Process(client, bytes)),
        1 => (0_usize..12).prop_map(Step::Pause),
        1 => (0_usize..12).prop_map(Step::Leave),
        1 => (0_usize..3, 1_usize..600, 1_u16..5).prop_map(|(at, limit, weight)| Step::Set(at, limit, weight)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
    /// Each connection that waits is called in the end, after any steps of connections and the node. Tasks are polled only when they are woken.
    #[test]
    fn each_connection_that_waits_is_called(steps in prop::collection::vec(step(), 1..120)) {
        let all = Arc::new(InFlightLimit::new(1_000));
        let accounts: [_; 3] = namespaces(&all);
        let clients: Vec<Client> = (0..12).map(|at| Client::of(&accounts[at % 3])).collect();
        let (mut in_flight, mut rests, mut gone) = ([0; 12], [false; 12], [false; 12]);
        let poll = |in_flight: &mut [usize; 12], rests: &mut [bool; 12], at: usize, bytes: usize| {
            rests[at] = !clients[at].reads();
            if !rests[at] {
                clients[at].effect_queue.handed_over(bytes);
                in_flight[at] += bytes;
            }
        };
        for step in steps {
            match step {
                Step::Poll(at, bytes) if !gone[at] => poll(&mut in_flight, &mut rests, at, bytes),
                Step::Process(at, bytes) => {
                    let bytes = bytes.min(in_flight[at]);
                    in_flight[at] -= bytes;
                    clients[at].effect_queue.processed(bytes);
                }
                Step::Pause(at) if !gone[at] => {
                    // A timer wakes it.
                    rests[at] &= !clients[at].is_rung();
                    clients[at].effect_queue.pass_call_on();
                }
                Step::Leave(at) => {
                    clients[at].effect_queue.leave();
                    gone[at] = true;
                }
                Step::Set(at, limit, weight) => accounts[at].set(limit, weight),
                Step::Poll(..) | Step::Pause(_) => {}
            }
        }
        for at in 0..12 {
            clients[at].effect_queue.processed(std::mem::take(&mut in_flight[at]));
        }
        while let Some(at) = (0..12).find(|at| !gone[*at] && clients[*at].is_rung()) {
            poll(&mut in_flight, &mut rests, at, 0);
        }
        for at in 0..12 {
            prop_assert!(gone[at] || !rests[at], "{at} was never called");
        }
    }
}

/// With threads that read and one that processes, at the same time: a call that is lost would be waited for without end.
#[test]
fn no_call_is_lost_between_threads() {
    const READS: usize = 3_000;
    for (limit, connections) in [(1, 1), (1, 2), (16 * KIB, 6)] {
        let all = Arc::new(InFlightLimit::new(limit));
        let accounts: [_; 3] = namespaces(&all);
        let clients: Vec<Client> = (0..connections).map(|at| Client::of(&accounts[at % 3])).collect();
        let (node, commands) = std::sync::mpsc::channel::<(usize, usize)>();
        thread::scope(|threads| {
            for (at, client) in clients.iter().enumerate() {
                let node = node.clone();
                threads.spawn(move || {
                    *client.bell.thread.lock().unwrap() = Some(thread::current());
                    for read in 0..READS {
                        while !client.reads() {
                            while !client.is_rung() {
                                thread::park();
                            }
                        }
                        let bytes = 1 + (read * 37 + at) % (limit / 4).max(1);
                        client.effect_queue.handed_over(bytes);
                        node.send((at, bytes)).unwrap();
                    }
                    client.effect_queue.leave();
                });
            }
            drop(node);
            for (at, bytes) in commands {
                clients[at].effect_queue.processed(bytes);
            }
        });
        assert!(accounts.iter().all(|account| account.bytes() == 0 && account.has_room()));
    }
}
