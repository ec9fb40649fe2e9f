//! A broker started for testing, and the commands that steer it.

use serde_json::Value;

use crate::support::{Broker, Folder, code, ferrybus, stderr, stdout};

fn serve(more: &[&'static str]) -> Vec<&'static str> {
    let mut line = vec!["--listen", "127.0.0.1:0", "--durability", "none", "--queue", "orders"];
    line.extend(more);
    line
}

#[test]
fn the_clock_is_shown_and_moved_from_the_command_line() {
    let folder = Folder::new("clock");
    for flag in ["--testing", "--test-clock"] {
        let broker = Broker::start(&folder.0, &serve(&[flag]));
        let ask = |line: &[&str]| {
            let mut line = line.to_vec();
            line.extend(["--connection-string", &broker.connection_string]);
            let output = ferrybus(&folder.0, &line);
            assert_eq!(code(&output), 0, "{line:?}: {}", stderr(&output));
            stdout(&output)
        };
        assert!(ask(&["clock", "show"]).ends_with("Z  ahead 0ns\n"));
        assert!(ask(&["clock", "advance", "5m"]).ends_with("Z  ahead 300s\n"));
        let time: Value = serde_json::from_str(&ask(&["clock", "advance", "PT1H", "--json"])).unwrap();
        assert_eq!(time["ahead_ms"], 3_900_000);
        assert!(time["now_ms"].as_u64().is_some_and(|now| now > 1_700_000_000_000), "{time}");
        ask(&["send", "orders", "--body", "tea", "--ttl", "1h"]);
        assert_eq!(ask(&["peek", "orders", "--json"]).lines().count(), 1);
        ask(&["clock", "advance", "1h"]);
        assert_eq!(ask(&["peek", "orders", "--json"]), "");
    }
}

#[test]
fn clock_and_faults_are_closed_to_clients_without_the_right_and_to_brokers_without_test_mode() {
    let folder = Folder::new("clock-refused");
    let broker = Broker::start(&folder.0, &serve(&[]));
    let refused = |line: &[&str], string: &str, expected: &str, exit: i32| {
        let mut line = line.to_vec();
        line.extend(["--connection-string", string]);
        let output = ferrybus(&folder.0, &line);
        assert_eq!((code(&output), stdout(&output).as_str()), (exit, ""), "{line:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    };
    let good = broker.connection_string.clone();
    refused(&["clock", "show"], &good, "the broker was not started with `--testing`", 1);
    refused(&["clock", "advance", "5m"], &good, "the broker was not started with `--testing`", 1);
    let orders = ["fault", "add", "server-busy", "--count", "1"];
    refused(&orders, &good, "the broker was not started with `--testing`", 1);
    refused(&["fault", "list"], &good, "the broker was not started with `--testing`", 1);
    refused(&["fault", "clear"], &good, "the broker was not started with `--testing`", 1);
    refused(&["fault", "clear", "1"], &good, "the broker was not started with `--testing`", 1);
    refused(&["clock", "advance", "P99999999D"], &good, "cannot be moved for ever", 2);
    let wrong = good.replace("SAS_KEY_VALUE", "another");
    refused(&["clock", "advance", "5m"], &wrong, "InvalidSignature", 1);
    refused(&orders, &wrong, "InvalidSignature", 1);
    let output = ferrybus(&folder.0, &["clock", "advance", "5"]);
    assert_eq!(code(&output), 2, "a number without a unit is no time");
    refused(
        &["clock", "show"],
        "Endpoint=sb://127.0.0.1:1;UseDevelopmentEmulator=true",
        "cannot ask 127.0.0.1:1",
        1,
    );
}

#[test]
fn each_fault_is_ordered_from_the_command_line_with_a_count_or_a_time_or_both() {
    let folder = Folder::new("fault-kinds");
    let broker = Broker::start(&folder.0, &serve(&["--testing"]));
    let ask = |line: &[&str]| {
        let mut line = line.to_vec();
        line.extend(["--connection-string", &broker.connection_string]);
        let output = ferrybus(&folder.0, &line);
        assert_eq!(code(&output), 0, "{line:?}: {}", stderr(&output));
        stdout(&output)
    };
    let kinds =
        ["lose-lock", "server-busy", "drop-link", "drop-connection", "reject-settlement", "delay-settlement"];
    let limits: [(&[&str], &str); 3] = [
        (&["--count", "3"], "  3 more"),
        (&["--for", "1h"], "  3600000 ms"),
        (&["--count", "3", "--for", "PT1H"], "  3 more  3600000 ms"),
    ];
    let mut number = 0;
    for kind in kinds {
        for (options, shown) in limits {
            // Nobody sends to it or receives from it, so nothing is used up.
            let mut line = vec!["fault", "add", kind, "--entity", "elsewhere"];
            line.extend(options);
            let delay = if kind == "delay-settlement" { "  2000 ms each" } else { "" };
            if !delay.is_empty() {
                line.extend(["--delay", "2s"]);
            }
            number += 1;
            assert_eq!(ask(&line), format!("{number}  {kind}  elsewhere{shown}{delay}\n"), "{line:?}");
        }
    }
    assert_eq!(ask(&["fault", "list"]).lines().count(), kinds.len() * limits.len());
    ask(&["clock", "advance", "1h"]);
    let left = ask(&["fault", "list"]);
    assert_eq!(left.lines().count(), kinds.len(), "what has a time is over: {left}");
    for kind in kinds {
        assert!(left.contains(&format!("  {kind}  elsewhere  3 more")), "{kind}: {left}");
    }
    assert_eq!(ask(&["fault", "clear"]), "cleared 6\n");
}

#[test]
fn faults_are_ordered_listed_and_cleared_from_the_command_line() {
    let folder = Folder::new("fault");
    let broker = Broker::start(&folder.0, &serve(&["--testing"]));
    let run = |line: &[&str]| {
        let mut line = line.to_vec();
        line.extend(["--connection-string", &broker.connection_string]);
        ferrybus(&folder.0, &line)
    };
    let ask = |line: &[&str]| {
        let output = run(line);
        assert_eq!(code(&output), 0, "{line:?}: {}", stderr(&output));
        stdout(&output)
    };
    let busy = ask(&["fault", "add", "server-busy", "--entity", "orders", "--count", "1"]);
    assert_eq!(busy, "1  server-busy  orders  1 more\n");
    let delay = ask(&["fault", "add", "delay-settlement", "--for", "1h", "--delay", "2s", "--json"]);
    let delay: Value = serde_json::from_str(&delay).unwrap();
    assert_eq!(
        (&delay["id"], &delay["for_ms"], &delay["delay_ms"]),
        (&2.into(), &3_600_000.into(), &2_000.into())
    );
    assert_eq!(ask(&["fault", "list"]).lines().count(), 2);
    let refused = run(&["send", "orders", "--body", "tea"]);
    assert_eq!(code(&refused), 1);
    assert!(stderr(&refused).contains("server-busy"), "{}", stderr(&refused));
    ask(&["send", "orders", "--body", "tea"]);
    assert_eq!(ask(&["fault", "list"]).lines().count(), 1);
    assert_eq!(ask(&["fault", "clear", "2"]), "cleared 1\n");
    assert_eq!(ask(&["fault", "clear"]), "cleared 0\n");
    let misused = [
        (["fault", "add", "server-busy", "--entity", "orders"], "--count"),
        (["fault", "add", "delay-settlement", "--count", "1"], "--delay"),
        (["fault", "add", "busy", "--count", "1"], "server-busy"),
    ];
    for (line, expected) in misused {
        let output = run(&line);
        assert_eq!(code(&output), 2, "{line:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
