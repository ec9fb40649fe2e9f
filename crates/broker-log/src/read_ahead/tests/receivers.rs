//! Receivers of several queues in one stretch of the journal: bytes that are read for each byte that is wanted.

use std::collections::VecDeque;

use super::*;

/// Bytes of the segment.
const BYTES: u64 = 24 << 20;

/// Receivers of queues whose records take turns in the journal. Threads read for them.
struct Receivers {
    ahead: ReadAhead,
    segment: Segment,
    contents: Bytes,
    /// Length of a record with its header.
    length: u64,
    /// The next record of each, by its number in the journal.
    next: Vec<u64>,
    waits_for: Vec<Option<ReadId>>,
    /// Reads that the threads have.
    reading: VecDeque<WindowRead>,
    read_bytes: u64,
    wanted_bytes: u64,
    random: u64,
}

impl Receivers {
    fn new(contents: Bytes, count: usize, length: u64, seed: u64) -> Self {
        let segment = Segment {
            number: 0,
            file: FileId(1),
            base: BASE,
            end: BASE + BYTES,
            incarnation: 0,
            seed: Seed::default(),
            file_bytes: BYTES,
            live: 0,
        };
        Self {
            ahead: ReadAhead::default(),
            segment,
            contents,
            length,
            next: (0..count as u64).collect(),
            waits_for: vec![None; count],
            reading: VecDeque::new(),
            read_bytes: 0,
            wanted_bytes: 0,
            random: seed,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn contents(&self, offset: u64, length: u64) -> Bytes {
        let start = usize::try_from(offset).unwrap();
        self.contents.slice(start..start + usize::try_from(length).unwrap())
    }

    fn place(&self, receiver: usize) -> u64 {
        BASE + self.next[receiver] * self.length
    }

    fn is_at_end(&self, receiver: usize) -> bool {
        self.place(receiver) + self.length > self.segment.end
    }

    /// A receiver takes its next record, or waits for it.
    fn receive(&mut self, receiver: usize) {
        if self.waits_for[receiver].is_some() || self.is_at_end(receiver) {
            return;
        }
        let (at, readable) = (self.place(receiver), self.segment.end);
        assert_eq!(self.ahead.asked.take_failure(ONE.owner, at), None, "{at}");
        if let Some(record) = self.ahead.held((at, self.length), ONE) {
            assert_eq!(record, self.contents(at - BASE, self.length), "{at}");
            self.wanted_bytes += self.length;
            self.next[receiver] += self.next.len() as u64;
        } else {
            self.waits_for[receiver] =
                Some(self.ahead.ask_for(&self.segment, (at, self.length), readable, ONE));
        }
        if let Some(window) = self.ahead.take_ahead() {
            self.ahead.ask_ahead(&self.segment, window, readable);
        }
        self.hand_out();
    }

    fn hand_out(&mut self) {
        while let Some(read) = self.ahead.next_read() {
            self.reading.push_back(read);
        }
    }

    /// A thread is done with one of the two reads that were begun first.
    fn finish_read(&mut self) {
        let index = usize::try_from(self.random(2)).unwrap().min(self.reading.len().saturating_sub(1));
        let Some(read) = self.reading.remove(index) else { return };
        self.read_bytes += read.length;
        let bytes = self.contents(read.offset, read.length);
        self.ahead.on_read(read.id, Ok(bytes), |_| true);
        while let Some((_, id)) = self.ahead.poll_done() {
            for waits_for in &mut self.waits_for {
                waits_for.take_if(|other| *other == id);
            }
        }
        self.hand_out();
    }

    /// Runs until each receiver is at the end; threads finish `reads` reads while each receiver has a turn. Returns the bytes
    /// read for a hundred that were wanted, and the reads for a hundred records.
    fn run(&mut self, reads: u64) -> (u64, u64) {
        let count = self.next.len();
        for _ in 0..4_000_000 {
            if (0..count).all(|receiver| self.is_at_end(receiver)) {
                let records = self.wanted_bytes / self.length;
                return (self.read_bytes * 100 / self.wanted_bytes, self.ahead.waits() * 100 / records);
            }
            match usize::try_from(self.random(count as u64 + reads)).unwrap() {
                receiver if receiver < count => self.receive(receiver),
                _ => self.finish_read(),
            }
        }
        panic!("the receivers do not get on: {:?}", self.next);
    }
}

#[test]
fn receivers_of_several_queues_share_what_is_read() {
    // Receivers, length of a record, the most bytes for a hundred and reads for a hundred records. Windows hold 4 MiB: of
    // large records few receivers are so near to each other.
    let cases = [
        (1, 1_100, 102, 2),
        (1, 65_700, 102, 30),
        (2, 65_700, 150, 50),
        (4, 1_100, 110, 2),
        (4, 8_300, 130, 10),
        (4, 65_700, 250, 80),
        (8, 65_700, 200, 180),
        (16, 1_100, 300, 8),
    ];
    let contents: Bytes =
        (0..BYTES / 8).flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    for (count, length, bytes_max, reads_max) in cases {
        for (seed, reads) in [(1, 1), (2, 4), (3, 16)] {
            let found = Receivers::new(contents.clone(), count, length, seed).run(reads);
            assert!(
                found.0 <= bytes_max && found.1 <= reads_max,
                "{count} of {length} bytes, {reads} reads in a turn: {found:?}"
            );
        }
    }
}

#[test]
fn a_window_read_ahead_that_ends_within_its_first_record_is_no_damage() {
    let contents: Bytes = (0..BYTES).map(|n| u8::try_from(n / 9 % 251).unwrap()).collect();
    let mut receivers = Receivers::new(contents, 1, 50_000, 0);
    // The second one ends where the first one begins.
    for start in [BASE + 10_000, BASE] {
        let window = WindowPlan {
            reader: ONE,
            start,
            length: 20_000,
            requested_bytes: 0,
            follows_worthy: false,
            is_ahead: true,
        };
        receivers.ahead.ask_ahead(&receivers.segment, window, u64::MAX);
    }
    for _ in 0..4 {
        receivers.receive(0);
        receivers.finish_read();
    }
    assert_eq!(receivers.wanted_bytes, 50_000);
}
