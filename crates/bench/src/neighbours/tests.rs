use super::*;
use crate::load::{Counts, Outcome};

/// A run in which sends took `alone` microseconds, and `beside` beside the load.
fn measurement(alone: f64, beside: f64) -> Measurement {
    let sends = |p99: f64| Sends { p50: p99 / 2.0, p99, max: p99 * 2.0, delay: 10.0 };
    let full = FullLoad {
        seconds: 2.0,
        counts: Counts { sent: 4_100, acknowledged: 4_000, received: 3_000 },
        broker: Usage { cpu: Duration::from_millis(1_500), waited: Duration::from_millis(500) },
        generators: Usage { cpu: Duration::from_secs(1), waited: Duration::from_millis(250) },
    };
    let pair = (sends(alone), BesideLoad { sends: sends(beside), full });
    let disk = |p99: f64, beside: Traffic| DiskTimes { p50: 50.0, p99, max: 300.0, beside };
    let traffic = Traffic { written: 131_072_000.0, read: 98_304_000.0 };
    Measurement { pairs: vec![pair; 2], disk: (disk(100.0, Traffic::default()), disk(150.0, traffic)) }
}

#[test]
fn the_ratio_is_the_median_of_the_ratios_of_the_runs() {
    // The medians are 200 and 500; the ratios are 2, 2.5 and 9.
    let all = [measurement(100.0, 900.0), measurement(400.0, 800.0), measurement(200.0, 500.0)];
    let rows = figures::rows(&all);
    let (same, other) = (&rows[0], &rows[1]);
    assert_eq!(same, &["the same shard", "100, 400", "200, 800", "400, 1600", "10, 10", "2.50", "≤ 3"]);
    assert_eq!(other[0], "another shard");
    assert_eq!(other[5..], ["2.50", "≤ 2: missed"]);
}

#[test]
fn the_disk_alone_is_a_row_beside_the_namespaces() {
    let rows = figures::rows(&[measurement(100.0, 200.0)]);
    let disk = rows.last().unwrap();
    assert!(disk[0].contains("131 MB/s in blocks of 64 KiB and 98 MB/s that are read"), "{disk:?}");
    assert_eq!(disk[1..], ["50, 50", "100, 150", "300, 300", "", "1.50", ""]);
}

#[test]
fn the_full_namespace_has_its_rates_and_the_cores_that_were_used() {
    let rows = figures::load_rows(&[measurement(100.0, 200.0)]);
    assert_eq!(rows[0], ["the same shard", "2000", "1500", "131, 98", "0.75", "0.50", "0.25, 0.12"]);
    assert_eq!(rows.len(), MEASURED.len());
}

#[test]
fn a_run_without_a_result_says_why_and_has_no_figure() {
    let report = plan().report(&Err("a message was answered Some(Released)".to_owned()), 3);
    assert!(report.contains("no result: a message was answered Some(Released)"), "{report}");
    assert!(!report.contains('≤'), "{report}");
}

#[test]
fn sends_without_an_answer_have_no_figure() {
    assert!(Sends::of(&Outcome::default()).is_err());
}

#[test]
fn the_receivers_stay_behind_by_the_backlog() {
    let load = plan().full_load();
    assert_eq!(load.starts_behind * load.size as u64, 3 << 20);
    assert!(matches!(load.pace, Loop::Closed { max_backlog: Some(48), window: FULL_WINDOW }));
}

#[test]
fn the_disk_is_measured_beside_blocks_and_reads_at_the_wanted_rates() {
    let folder = std::env::temp_dir().join(format!("ferrybus-neighbours-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let alone = DiskTimes::measure(&folder, 100, Duration::from_millis(50), Traffic::default()).unwrap();
    let traffic = Traffic { written: 1e7, read: 2e7 };
    let beside = DiskTimes::measure(&folder, 100, Duration::from_millis(50), traffic).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(alone.beside == Traffic::default());
    assert!(alone.p50 > 0.0 && alone.p50 <= alone.p99 && alone.p99 <= alone.max);
    // A slow disk writes and reads less than was wanted, and none writes more. Each of two threads reads one block before it waits.
    let reached = beside.beside;
    assert!(reached.written > 0.0 && reached.written <= 1e7, "{reached:?}");
    assert!(reached.read > 0.0 && reached.read <= 2e7 + 2.0 * f64::from(256 << 10) / 0.05, "{reached:?}");
}

fn plan() -> Neighbours {
    Neighbours { binary: PathBuf::new(), folder: PathBuf::new(), backlog_mb: 3, nice: 0, seconds: 5 }
}
