use super::Limits;
use crate::relay::Floor;
use crate::scenario::SCENARIOS;

const FLOOR: Floor = Floor { p50: 100.0, p99: 200.0 };

#[test]
fn each_scenario_meets_its_own_limit() {
    let limits = Limits {
        append_syncs: 5_300.0,
        sync_us: 100.0,
        disk_bytes: 1e9,
        tcp_bytes: 4e9,
        relay: FLOOR,
        durable_relay: FLOOR,
        wake_us: 5.0,
    };
    let limit = |name: &str| limits.messages(SCENARIOS.iter().find(|one| one.name == name).unwrap());
    assert_eq!(limit("memory-1"), Some(4e9 / 1024.0 / 2.0));
    assert_eq!(limit("durable-w1"), Some(5_300.0));
    assert_eq!(limit("durable-w1000"), Some(1e9 / 1024.0));
    assert_eq!(limit("startup"), None);
}

#[test]
fn every_loop_of_writes_has_a_figure() {
    use super::disk::{WritePosition, Writes};
    let folder = std::env::temp_dir().join(format!("bench-limits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let writes =
        Writes::measure(&folder, 4_096, WritePosition::End, std::time::Duration::from_millis(20)).unwrap();
    assert!(writes.rate() > 0.0 && writes.bytes() > writes.rate());
    assert!(writes.median_us() > 0.0);
    std::fs::remove_dir(&folder).unwrap();
}
