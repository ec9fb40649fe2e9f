//! What the broker writes for those who watch it, and whether it is well.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
};

use serde_json::Value;

use crate::support::{Broker, Folder, code, ferrybus, stderr, stdout};

/// The lines of a log in JSON that are of this target.
fn lines(log: &Path, target: &str) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == target).collect()
}

#[test]
fn changes_are_in_the_audit_log_and_long_operations_in_the_log() {
    let folder = Folder::new("audit");
    let log = folder.0.join("log");
    let config = folder.write("ferrybus.toml", "[log]\nslow_operation = \"0s\"\n");
    let config = config.to_str().unwrap();
    let serve = ["--config", config, "--listen", "127.0.0.1:0", "--durability", "none"];
    let broker =
        Broker::logged(&folder.0, &[&serve[..], &["--log", "info", "--log-format", "json"]].concat(), &log);
    let run = |words: &[&str], connection_string: &str| {
        let words: Vec<&str> =
            words.iter().copied().chain(["--connection-string", connection_string]).collect();
        ferrybus(&folder.0, &words)
    };
    let wrong = broker.connection_string.replace("SAS_KEY_VALUE", "another");
    assert_eq!(code(&run(&["queue", "create", "orders"], &broker.connection_string)), 0);
    assert_eq!(code(&run(&["queue", "create", "orders"], &broker.connection_string)), 1);
    assert_eq!(code(&run(&["queue", "create", "another"], &wrong)), 1);
    assert_eq!(code(&run(&["send", "orders", "--body", "a secret"], &broker.connection_string)), 0);
    assert_eq!(code(&run(&["queue", "delete", "orders"], &broker.connection_string)), 0);
    // Who is not let in is told of, also when he only looks.
    assert_eq!(code(&run(&["queue", "show", "orders"], &wrong)), 1);
    let mut client = TcpStream::connect(&broker.addresses[0]).unwrap();
    client.write_all(b"AMQP\x03\x01\x00\x00").unwrap();
    client.read_exact(&mut [0; 8]).unwrap();
    let listed = stdout(&run(&["connection", "list", "--json"], &broker.connection_string));
    let id = serde_json::from_str::<Value>(listed.lines().next().unwrap()).unwrap()["id"].to_string();
    assert_eq!(code(&run(&["connection", "close", &id], &wrong)), 1);
    assert_eq!(code(&run(&["connection", "close", &id], &broker.connection_string)), 0);
    assert_eq!(code(&run(&["connection", "close", "999999"], &broker.connection_string)), 1);
    let peer = client.local_addr().unwrap();
    drop(client);
    assert!(broker.stop().success());

    let told: Vec<[String; 5]> = lines(&log, "ferrybus::audit")
        .iter()
        .map(|line| {
            ["who", "action", "entity", "result", "reason"]
                .map(|field| line[field].as_str().unwrap().to_owned())
        })
        .collect();
    let key = "RootManageSharedAccessKey";
    let expected = [
        [key, "create", "orders", "done", ""],
        [key, "create", "orders", "refused", "status 409"],
        ["", "create", "another", "refused", "status 401"],
        [key, "delete", "orders", "done", ""],
        ["", "read", "orders", "refused", "status 401"],
        ["", "connection-close", "", "refused", "status 401"],
        [key, "connection-close", "", "done", ""],
        [key, "connection-close", "", "refused", "status 404"],
    ];
    assert_eq!(told, expected);
    let subjects: Vec<String> = lines(&log, "ferrybus::audit")
        .iter()
        .filter(|line| line["action"] == "connection-close")
        .map(|line| line["subject"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(subjects, [id.clone(), format!("{id} {peer}"), "999999".to_owned()]);
    for line in lines(&log, "ferrybus::audit") {
        assert!(line["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    }
    tells_slow_operations_and_no_secrets(&log);
}

fn tells_slow_operations_and_no_secrets(log: &Path) {
    let slow = lines(log, "ferrybus::slow");
    assert!(!slow.is_empty());
    for line in slow {
        assert!(
            line["operation"].is_string() && line["took_ms"].is_number() && line["queued_ms"].is_number(),
            "{line}"
        );
    }
    let text = fs::read_to_string(log).unwrap();
    assert!(!text.contains("a secret") && !text.contains("SAS_KEY_VALUE"), "{text}");
}

#[test]
fn health_says_whether_the_broker_can_be_used() {
    let folder = Folder::new("health");
    let data = folder.0.join("data");
    let data = data.to_str().unwrap();
    let config = folder.write("ferrybus.toml", "[journal]\ndisk_reserve_bytes = 17592186044416\n");
    let serve = ["--listen", "127.0.0.1:0", "--data", data];
    let broker = Broker::start(&folder.0, &[&serve[..], &["--config", "/dev/null"]].concat());
    let address = broker.addresses[0].clone();
    let output = ferrybus(&folder.0, &["health", "--server", &address]);
    assert_eq!((code(&output), stdout(&output).contains("is ready")), (0, true), "{}", stderr(&output));
    let output = ferrybus(&folder.0, &["health", "--json", "--server", &address]);
    assert_eq!(serde_json::from_str::<Value>(&stdout(&output)).unwrap()["status"], "ready");
    assert!(broker.stop().success());

    let output = ferrybus(&folder.0, &["health", "--server", &address]);
    assert_eq!(code(&output), 1, "nobody is there");

    let broker = Broker::start(&folder.0, &[&serve[..], &["--config", config.to_str().unwrap()]].concat());
    let output = ferrybus(&folder.0, &["health", "--server", &broker.addresses[0]]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("the disk is full"), "{}", stderr(&output));
}
