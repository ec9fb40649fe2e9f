//! The estimate for more cores, from measured parts.
//!
//! A shard does two things one after the other: its node handles a message in `n`, and its journal writes and syncs `B` messages
//! in `w`. Both go on at once, for the node works while the disk does. So one shard carries at most the smaller of `1/n` and
//! `B/w`. With `S` shards on `C` cores, each under the load that one shard had, the rate is the least of
//!
//! - `S × min(1/n, B/w)`: the serial parts (Amdahl's law for each shard, between which nothing is serial);
//! - `C/c`, where `c` is the CPU of the whole process for a message: generators, node and disk thread;
//! - `B × s(S)`, where `s(S)` is the number of syncs of `B` messages that the disk does in a second for `S` journals at once.
//!
//! Memory bandwidth, caches that cores share, and clients with their connections are not in it.
//!
//! Invariant: every number of the formula was measured in the same run.

use crate::table;

/// The parts that one shard does one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SerialParts {
    /// CPU of the node for a message, in microseconds: `n`.
    pub(super) node_us: f64,
    /// A write with its sync: `w`.
    pub(super) write_us: f64,
    /// Messages of a write: `B`.
    pub(super) messages_a_sync: f64,
    pub(super) bytes_a_sync: f64,
}

/// A machine with a shard for each core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Machine {
    pub(super) cores: u16,
    /// CPU for each message, in microseconds: `c`.
    pub(super) cpu_us: f64,
    /// Syncs a second of as many journals: `s(S)`.
    pub(super) syncs: f64,
}

/// Messages a second that each part allows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    serial: f64,
    cpu: f64,
    disk: f64,
}

impl SerialParts {
    /// Messages a second of one shard.
    fn one_shard(self) -> f64 {
        (1e6 / self.node_us).min(self.messages_a_sync * 1e6 / self.write_us)
    }
}

impl Bounds {
    fn of(serial: SerialParts, machine: Machine) -> Self {
        let cores = f64::from(machine.cores);
        Self {
            serial: cores * serial.one_shard(),
            cpu: cores * 1e6 / machine.cpu_us,
            disk: serial.messages_a_sync * machine.syncs,
        }
    }

    /// The least, and its name.
    fn least(self) -> (f64, &'static str) {
        let all = [(self.serial, "serial parts"), (self.cpu, "cores"), (self.disk, "disk")];
        all.into_iter().min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or_default()
    }
}

/// The measured parts, the formula, and a row for each machine.
pub(super) fn report(serial: SerialParts, machines: &[Machine]) -> String {
    let row = |machine: &Machine| {
        let bounds = Bounds::of(serial, *machine);
        let (least, name) = bounds.least();
        // One shard alone has all cores and the disk for itself.
        let one = serial.one_shard().min(bounds.cpu);
        vec![
            format!("{} cores, {0} shards", machine.cores),
            format!("{:.0}", bounds.serial),
            format!("{:.0}", bounds.cpu),
            format!("{:.0}", bounds.disk),
            format!("{least:.0}"),
            format!("{:.1}", least / one),
            name.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = machines.iter().map(row).collect();
    let header = ["estimated", "serial parts", "cores", "disk", "messages/s", "× one shard", "bound by"];
    let SerialParts { node_us, write_us, messages_a_sync, bytes_a_sync } = serial;
    let cpu_us = machines.first().map_or(0.0, |machine| machine.cpu_us);
    format!(
        "Measured in the same run: the node takes n = {node_us:.2} µs of CPU for a message; a write with its sync takes w = {write_us:.0} µs\n\
         for B = {messages_a_sync:.0} messages ({:.0} KiB); the process takes c = {cpu_us:.2} µs of CPU for a message. S shards on C cores, each\n\
         under the load of one, carry the least of S × min(1/n, B/w), C/c and B × s(S), where s(S) is the number of such syncs a\n\
         second that S journals reach on this disk at once. It is an estimate: memory bandwidth, shared caches and connections are not in it.\n\n{}",
        bytes_a_sync / 1024.0,
        table::markdown(&header, &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIAL: SerialParts =
        SerialParts { node_us: 2.0, write_us: 1_000.0, messages_a_sync: 1_000.0, bytes_a_sync: 1_048_576.0 };

    #[test]
    fn one_shard_is_bound_by_the_slower_of_node_and_journal() {
        assert!((SERIAL.one_shard() - 500_000.0).abs() < 1e-3);
        let slow = SerialParts { write_us: 4_000.0, ..SERIAL };
        assert!((slow.one_shard() - 250_000.0).abs() < 1e-3);
    }

    #[test]
    fn a_machine_is_bound_by_the_least_of_serial_parts_cores_and_disk() {
        let machine = Machine { cores: 8, cpu_us: 3.0, syncs: 3_000.0 };
        let named = |serial, machine| Bounds::of(serial, machine).least();
        let (least, name) = named(SERIAL, machine);
        assert!((least - 8e6 / 3.0).abs() < 1e-3 && name == "cores");
        assert_eq!(named(SERIAL, Machine { syncs: 1_000.0, ..machine }), (1e6, "disk"));
        assert_eq!(named(SERIAL, Machine { cpu_us: 0.5, syncs: 1e6, ..machine }), (4e6, "serial parts"));
    }

    #[test]
    fn the_report_says_the_formula_its_numbers_and_the_bound() {
        let report = report(SERIAL, &[Machine { cores: 8, cpu_us: 3.0, syncs: 1_000.0 }]);
        for part in ["n = 2.00 µs", "w = 1000 µs", "B = 1000", "1024 KiB", "c = 3.00 µs", "min(1/n, B/w)"]
        {
            assert!(report.contains(part), "{part} in {report}");
        }
        let row = report.lines().find(|line| line.contains("8 cores, 8 shards")).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells[1..], ["4000000", "2666667", "1000000", "1000000", "2.0", "disk"]);
    }
}
