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
    let disk = |p99: f64, beside: f64| DiskTimes { p50: 50.0, p99, max: 300.0, beside };
    Measurement { pairs: vec![pair; 2], disk: (disk(100.0, 0.0), disk(150.0, 131_072_000.0)) }
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
    assert!(disk[0].contains("131 MB/s"), "{disk:?}");
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
fn the_disk_is_measured_beside_blocks_at_the_wanted_rate() {
    let folder = std::env::temp_dir().join(format!("ferrybus-neighbours-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let alone = DiskTimes::measure(&folder, 100, Duration::from_millis(50), 0.0).unwrap();
    let beside = DiskTimes::measure(&folder, 100, Duration::from_millis(50), 1e7).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(alone.beside.abs() < 1e-9 && alone.p50 > 0.0 && alone.p50 <= alone.p99 && alone.p99 <= alone.max);
    // A slow disk writes less than was wanted, and none writes more.
    assert!(beside.beside > 0.0 && beside.beside <= 1e7, "{}", beside.beside);
}

fn plan() -> Neighbours {
    Neighbours { binary: PathBuf::new(), folder: PathBuf::new(), backlog_mb: 3, nice: 0, seconds: 5 }
}
