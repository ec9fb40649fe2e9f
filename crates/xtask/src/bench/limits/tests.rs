use super::Limits;
use crate::bench::scenario::SCENARIOS;

const DISK: &str = "\
append + fdatasync                 rec    4096 thr 1:     5300 ops/s     21.7 MB/s  us p10 150 p50 180 p90 220 p99 400 max 900
append + fsync                     rec    4096 thr 1:     4000 ops/s     16.4 MB/s  us p10 150 p50 180 p90 220 p99 400 max 900
overwrite + fdatasync              rec    1024 thr 1:     9000 ops/s      9.2 MB/s  us p10 90 p50 100 p90 120 p99 200 max 300
overwrite + fdatasync              rec 1048576 thr 1:     1000 ops/s   1048.6 MB/s  us p10 900 p50 950 p90 999 p99 999 max 999
O_DIRECT, no flush                 rec 1048576 thr 1:     2000 ops/s   2097.2 MB/s  us p10 400 p50 450 p90 499 p99 499 max 499
";
const TCP: &str = "\
tcp bulk,    1024 byte sends:     1.00 GB/s    1000000 sends/s  cpu 1.90 cores
tcp bulk,   65536 byte sends:     4.00 GB/s      60000 sends/s  cpu 1.90 cores
";

#[test]
fn the_figures_are_read_from_the_lines_that_hold_them() {
    let limits = Limits::read(DISK, TCP);
    let expected = Limits {
        append_syncs: Some(5_300.0),
        sync_us: Some(100.0),
        disk_bytes: Some(1048.6 * 1e6),
        tcp_bytes: Some(4e9),
        relay: None,
        durable_relay: None,
        wake_us: None,
    };
    assert_eq!(limits, expected);
}

#[test]
fn output_of_another_shape_gives_no_limits() {
    assert_eq!(Limits::read("nothing", ""), Limits::default());
}

#[test]
fn each_scenario_meets_its_own_limit() {
    let limits = Limits::read(DISK, TCP);
    let limit = |name: &str| limits.messages(SCENARIOS.iter().find(|one| one.name == name).unwrap());
    assert_eq!(limit("memory-1"), Some(4e9 / 1024.0 / 2.0));
    assert_eq!(limit("durable-w1"), Some(5_300.0));
    assert_eq!(limit("durable-w1000"), Some(1048.6 * 1e6 / 1024.0));
    assert_eq!(limit("startup"), None);
}
