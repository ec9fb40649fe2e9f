use super::*;

fn step(name: &str, ms: u64) -> StepTimes {
    StepTimes { name: name.to_owned(), times: Times::of(&[Duration::from_millis(ms)]) }
}

#[test]
fn percentiles_are_times_that_were_measured() {
    let all: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
    assert_eq!(Times::of(&all), Times { p50_ms: 101.0, p99_ms: 199.0 });
    assert_eq!(Times::of(&all[..1]), Times { p50_ms: 200.0, p99_ms: 200.0 });
}

#[test]
fn lines_of_the_measuring_program_are_read_and_log_lines_of_an_sdk_are_not() {
    let said = "warning: something\npeek\t1.5\nschedule\t2\npeek\t2.5\npeek\tfast\n";
    let found = programs::steps(said).unwrap();
    assert_eq!(found.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["peek", "schedule"]);
    assert_eq!(found[0].times, Times { p50_ms: 2.5, p99_ms: 2.5 });
    let error = programs::steps("peek\t1.5\npeek\t-1\n").unwrap_err().to_string();
    assert!(error.starts_with("peek, -1 ms: "), "{error}");
}

#[test]
fn a_client_that_is_not_installed_names_the_command_that_installs_it() {
    for (client, program) in programs::installed(Path::new("/nowhere")) {
        let error = program.err().unwrap().to_string();
        assert!(error.contains("cargo xtask test --only "), "{client}: {error}");
    }
}

#[test]
fn goals_are_told_and_whether_they_are_missed() {
    let timed = |client: &str, steps| Timed { client: client.to_owned(), steps: Ok(steps) };
    let latencies = Latencies {
        store: "in memory",
        in_memory: true,
        bare: Ok(Times::of(&[Duration::from_millis(1)])),
        clients: vec![
            timed("Go", vec![step("peek", 2)]),
            timed("Node.js", vec![step("peek", 6), step(ARRIVAL, 3)]),
            timed("Java", vec![step("peek", 7)]),
            timed(small_buffers::CLIENT, vec![step("send 200 KiB", 44)]),
            Timed { client: "Python".to_owned(), steps: Err("not installed".to_owned()) },
        ],
    };
    assert!(latencies.is_broken());
    let rows = latencies.rows();
    let goals: Vec<&str> = rows.iter().map(|row| row.get(7).map_or("", String::as_str)).collect();
    let expected =
        ["", "", "≤ 3 × Go's 2.00", "≤ 2 ms: missed", "≤ 3 × Go's 2.00: missed", "≤ 5 ms: missed", ""];
    assert_eq!(goals, expected);
    assert_eq!(rows[2][3..7], ["6.00", "6.00", "6.0", "6.0"]);
}
