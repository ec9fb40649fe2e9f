//! The fixed list of what is measured, with the goals.
//!
//! Invariant: names never change meaning: a changed setting gets a new name, so that old tables stay comparable.

/// One line of the list.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) durable: bool,
    pub(super) work: Work,
    /// Goal for Ferrybus on two cores shared with the generator.
    pub(super) goal: &'static str,
}

/// Work of the generator.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// As many messages as fit, `connections` senders and as many receivers, a queue for each pair.
    Throughput { connections: u32, size: u32, window: u32 },
    /// A fixed rate; the end-to-end time is what counts.
    Paced { rate: u32 },
    /// Fill one queue, kill the broker, time its return.
    Fill { messages: u64 },
    /// Connections with one receiving link each that do nothing.
    Idle { connections: u32 },
    /// From start to the first answer at AMQP level.
    Startup,
}

const KIB: u32 = 1_024;

pub(super) const SCENARIOS: [Scenario; 11] = [
    Scenario {
        name: "memory-1",
        title: "in memory, 1+1 connections, window 1,000",
        durable: false,
        work: Work::Throughput { connections: 1, size: KIB, window: 1_000 },
        goal: "≥ 800k, ≤ 1.5 µs",
    },
    Scenario {
        name: "memory-8",
        title: "in memory, 8+8 connections, 8 queues",
        durable: false,
        work: Work::Throughput { connections: 8, size: KIB, window: 1_000 },
        goal: "≤ 1.5 µs",
    },
    Scenario {
        name: "durable-w1",
        title: "durable, window 1",
        durable: true,
        work: Work::Throughput { connections: 1, size: KIB, window: 1 },
        goal: "≥ 0.85 of append + fdatasync",
    },
    Scenario {
        name: "durable-w100",
        title: "durable, window 100",
        durable: true,
        work: Work::Throughput { connections: 1, size: KIB, window: 100 },
        goal: "≥ 300k, ≤ 3.5 µs",
    },
    Scenario {
        name: "durable-w1000",
        title: "durable, window 1,000",
        durable: true,
        work: Work::Throughput { connections: 1, size: KIB, window: 1_000 },
        goal: "≥ 550k, ≤ 2.5 µs",
    },
    Scenario {
        name: "durable-64k",
        title: "durable, 64 KiB, window 64",
        durable: true,
        work: Work::Throughput { connections: 1, size: 64 * KIB, window: 64 },
        goal: "≥ 20k",
    },
    Scenario {
        name: "fill-1m",
        title: "fill 1,000,000 durable",
        durable: true,
        work: Work::Fill { messages: 1_000_000 },
        goal: "≤ 2 s, back in ≤ 0.5 s, ≤ 128 B",
    },
    Scenario {
        name: "idle-5000",
        title: "memory of an idle connection with a link, at 5,000",
        durable: false,
        work: Work::Idle { connections: 5_000 },
        goal: "≤ 12 KB",
    },
    Scenario {
        name: "startup",
        title: "start to first connection",
        durable: true,
        work: Work::Startup,
        goal: "≤ 25 ms",
    },
    Scenario {
        name: "paced-memory",
        title: "10,000 msgs/s in memory, end-to-end p99",
        durable: false,
        work: Work::Paced { rate: 10_000 },
        goal: "≤ 300 µs",
    },
    Scenario {
        name: "paced-durable",
        title: "10,000 msgs/s durable, end-to-end p99",
        durable: true,
        work: Work::Paced { rate: 10_000 },
        goal: "≤ 2 fdatasync",
    },
];
