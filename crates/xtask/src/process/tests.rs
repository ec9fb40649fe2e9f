use std::process::Command;
use std::time::{Duration, Instant};

use super::run;

fn shell(script: &str, log: &str, limit: Duration) -> super::Ran {
    let log = std::env::temp_dir().join(format!("xtask-{}-{log}.log", std::process::id()));
    let ran = run(Command::new("sh").args(["-c", script]), &log, limit).unwrap();
    std::fs::remove_file(log).unwrap();
    ran
}

#[test]
fn both_streams_are_kept_in_order() {
    let ran = shell("echo one; echo two >&2; echo three", "streams", Duration::from_secs(10));
    assert!(ran.ok);
    assert_eq!(ran.text, "one\ntwo\nthree\n");
}

#[test]
fn a_failing_program_is_not_ok() {
    assert!(!shell("exit 3", "exit", Duration::from_secs(10)).ok);
}

#[test]
fn a_program_past_its_time_is_ended_with_its_children() {
    let start = Instant::now();
    let ran = shell("sleep 600 & sleep 600", "limit", Duration::from_millis(200));
    assert!(!ran.ok);
    assert!(start.elapsed() < Duration::from_secs(300));
}

#[test]
fn a_grandchild_that_holds_the_pipe_does_not_hold_us() {
    let start = Instant::now();
    let ran = shell("sleep 120 & echo done", "linger", Duration::from_secs(300));
    assert!(ran.ok);
    assert!(start.elapsed() < Duration::from_secs(100));
}
