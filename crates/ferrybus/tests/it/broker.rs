//! A broker and the client commands against it, over real sockets and a real disk.

use crate::support::{Broker, Folder, code, command, ferrybus, stderr, stdout};

const LOCAL: [&str; 6] = ["--listen", "127.0.0.1:0", "--queue", "orders", "--durability", "os"];

/// Runs a client command against the broker and expects it to succeed.
fn done(folder: &Folder, broker: &Broker, line: &[&str]) -> String {
    let output = client(folder, broker, line);
    assert_eq!(code(&output), 0, "{line:?}: {}", stderr(&output));
    stdout(&output)
}

fn client(folder: &Folder, broker: &Broker, line: &[&str]) -> std::process::Output {
    let mut line = line.to_vec();
    line.extend(["--connection-string", &broker.connection_string]);
    ferrybus(&folder.0, &line)
}

fn numbers(json_lines: &str) -> Vec<i64> {
    let number =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["sequence_number"].as_i64();
    json_lines.lines().map(|line| number(line).unwrap()).collect()
}

const RECEIVE: [&str; 5] = ["receive", "orders", "--timeout", "500ms", "--json"];

#[test]
fn messages_are_sent_peeked_received_and_gone() {
    let folder = Folder::new("life");
    let broker = Broker::start(&folder.0, &LOCAL);
    let sent = done(
        &folder,
        &broker,
        &["send", "orders", "--body", "tea", "--count", "3", "--property", "color=red"],
    );
    assert_eq!(sent, "sent 3 messages to `orders`\n");
    assert_eq!(numbers(&done(&folder, &broker, &["peek", "orders", "--json"])), [1, 2, 3]);
    assert_eq!(
        numbers(&done(&folder, &broker, &["peek", "orders", "--json", "--from", "2", "--count", "1"])),
        [2]
    );
    let text = done(&folder, &broker, &["receive", "orders", "--count", "1"]);
    assert!(text.starts_with("     1  tea\n") && text.contains("color=red"), "{text}");
    assert_eq!(numbers(&done(&folder, &broker, &RECEIVE)), [2, 3]);
    assert_eq!(done(&folder, &broker, &["peek", "orders", "--json"]), "");
    assert!(broker.stop().success());
}

#[test]
fn abandoned_messages_are_received_again_and_dead_letters_keep_their_reason() {
    let folder = Folder::new("settle");
    let broker = Broker::start(&folder.0, &LOCAL);
    done(&folder, &broker, &["send", "orders", "--body", "tea", "--count", "2"]);
    let settle = |how: &str| {
        let mut line = RECEIVE.to_vec();
        line.extend(["--settle", how, "--reason", "no tea left"]);
        done(&folder, &broker, &line)
    };
    assert_eq!(numbers(&settle("release")), [1, 2]);
    assert_eq!(numbers(&settle("abandon")), [1, 2]);
    let moved = settle("dead-letter");
    assert_eq!(numbers(&moved).len(), 2);
    assert!(moved.contains("\"delivery_count\":1"), "{moved}");
    let dead = done(&folder, &broker, &["receive", "orders", "--dead-letter", "--count", "2", "--json"]);
    assert!(dead.contains("\"DeadLetterReason\":\"no tea left\""), "{dead}");
    assert_eq!(done(&folder, &broker, &["peek", "orders", "--dead-letter"]), "");
    assert!(broker.stop().success());
}

#[test]
fn receive_and_delete_takes_no_more_than_it_prints() {
    let folder = Folder::new("delete");
    let broker = Broker::start(&folder.0, &LOCAL);
    done(&folder, &broker, &["send", "orders", "--body", "tea", "--count", "5"]);
    let line = ["receive", "orders", "--count", "2", "--mode", "receive-and-delete", "--json"];
    assert_eq!(numbers(&done(&folder, &broker, &line)), [1, 2]);
    assert_eq!(numbers(&done(&folder, &broker, &["peek", "orders", "--json"])), [3, 4, 5]);
}

#[test]
fn accepted_messages_survive_a_stop_and_a_kill() {
    let folder = Folder::new("restart");
    let broker = Broker::start(&folder.0, &LOCAL);
    done(&folder, &broker, &["send", "orders", "--body", "one"]);
    assert!(broker.stop().success());
    let broker = Broker::start(&folder.0, &LOCAL);
    done(&folder, &broker, &["send", "orders", "--body", "two"]);
    broker.kill();
    let broker = Broker::start(&folder.0, &LOCAL);
    assert_eq!(numbers(&done(&folder, &broker, &RECEIVE)), [1, 2]);
}

#[test]
fn an_order_to_end_that_comes_with_readiness_is_one_to_end_gracefully() {
    let folder = Folder::new("early-end");
    for _ in 0..10 {
        assert_eq!(Broker::start(&folder.0, &LOCAL).stop().code(), Some(0));
    }
}

#[test]
fn refusals_exit_with_1_and_say_why() {
    let folder = Folder::new("refusals");
    let broker = Broker::start(&folder.0, &LOCAL);
    let missing = client(&folder, &broker, &["send", "ordres", "--body", "x"]);
    assert_eq!(code(&missing), 1);
    assert!(stderr(&missing).contains("could not be found"), "{}", stderr(&missing));
    let large = client(&folder, &broker, &["send", "orders", "--size", "2 MiB"]);
    assert_eq!(code(&large), 1, "{}", stdout(&large));
    let wrong = broker.connection_string.replace("SAS_KEY_VALUE", "SAS_KEY_WRONG");
    let refused = ferrybus(&folder.0, &["send", "orders", "--body", "x", "--connection-string", &wrong]);
    assert_eq!(code(&refused), 1);
    assert!(
        stderr(&refused).contains("the broker refuses the log-in: InvalidSignature"),
        "{}",
        stderr(&refused)
    );
    let nobody = format!("Endpoint=amqp://{}", broker.addresses[0]);
    let refused = ferrybus(&folder.0, &["send", "orders", "--body", "x", "--connection-string", &nobody]);
    assert_eq!(code(&refused), 1);
    assert!(stderr(&refused).contains("amqp:unauthorized-access"), "{}", stderr(&refused));
}

#[test]
fn clients_make_queues_where_the_operator_lets_them_and_nowhere_else() {
    let folder = Folder::new("auto-create");
    let send = |broker: &Broker, queue: &str| client(&folder, broker, &["send", queue, "--body", "x"]);
    let broker = Broker::start(&folder.0, &LOCAL);
    let refused = send(&broker, "made-by-a-client");
    assert_eq!(code(&refused), 1);
    let told = stderr(&refused);
    assert!(told.contains("could not be found") && told.contains("--auto-create"), "{told}");
    assert!(broker.stop().success());
    let mut line = LOCAL.to_vec();
    line.push("--auto-create");
    let broker = Broker::start(&folder.0, &line);
    let made = send(&broker, "made-by-a-client");
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    assert!(broker.stop().success());
    // Created entities stay, and no others appear.
    let broker = Broker::start(&folder.0, &LOCAL);
    assert_eq!(code(&send(&broker, "made-by-a-client")), 0);
    assert_eq!(code(&send(&broker, "another")), 1);
    let received = client(&folder, &broker, &["receive", "made-by-a-client", "--timeout", "500ms", "--json"]);
    assert_eq!(numbers(&stdout(&received)), [1, 2]);
}

#[test]
fn anonymous_clients_are_served_when_the_operator_says_so() {
    let folder = Folder::new("anonymous");
    let mut line = LOCAL.to_vec();
    line.extend(["--anonymous", "allow"]);
    let broker = Broker::start(&folder.0, &line);
    let nobody = format!("Endpoint=amqp://{}", broker.addresses[0]);
    let sent = ferrybus(&folder.0, &["send", "orders", "--body", "x", "--connection-string", &nobody]);
    assert_eq!(code(&sent), 0, "{}", stderr(&sent));
}

#[test]
fn a_folder_and_an_address_serve_one_broker() {
    let folder = Folder::new("twice");
    let broker = Broker::start(&folder.0, &LOCAL);
    let same_folder = ferrybus(&folder.0, &LOCAL);
    assert_eq!(code(&same_folder), 1, "{}", stderr(&same_folder));
    let line = ["--listen", &broker.addresses[0], "--data-dir", "elsewhere"];
    let same_address = ferrybus(&folder.0, &line);
    assert_eq!(code(&same_address), 1);
    let text = stderr(&same_address);
    assert!(text.contains("hint: another program listens there"), "{text}");
}

#[test]
fn tls_clients_are_served_with_a_development_certificate() {
    let folder = Folder::new("tls");
    assert_eq!(code(&ferrybus(&folder.0, &["cert", "dev", "--out", "certs"])), 0);
    let mut line = LOCAL.to_vec();
    line.extend([
        "--listen-tls",
        "127.0.0.1:0",
        "--tls-certificate",
        "certs/server.pem",
        "--tls-key",
        "certs/server-key.pem",
    ]);
    let broker = Broker::start(&folder.0, &line);
    for address in &broker.addresses {
        // The first bytes tell TLS apart on the plain port too.
        let port = address.rsplit(':').next().unwrap();
        let string = format!(
            "Endpoint=amqps://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;\
             SharedAccessKey=SAS_KEY_VALUE"
        );
        let untrusted = ["send", "orders", "--body", "x", "--connection-string", &string];
        let mut trusted = untrusted.to_vec();
        trusted.extend(["--ca", "certs/ca.pem"]);
        let sent = ferrybus(&folder.0, &trusted);
        assert_eq!(code(&sent), 0, "{address}: {}", stderr(&sent));
    }
    assert_eq!(numbers(&done(&folder, &broker, &RECEIVE)), [1, 2]);
}

#[test]
fn the_emulators_configuration_makes_its_queues() {
    let folder = Folder::new("emulator");
    folder.write(
        "Config.json",
        "{ \"UserConfig\": { \"Namespaces\": [ { \"Name\": \"sbemulatorns\", // comment\n\
         \"Queues\": [ { \"Name\": \"from.emulator\", \"Properties\": {}, } ] } ] } }",
    );
    let line = ["--listen", "127.0.0.1:0", "--durability", "none", "--emulator-config", "Config.json"];
    let broker = Broker::start(&folder.0, &line);
    done(&folder, &broker, &["send", "from.emulator", "--body", "x"]);
}

#[test]
fn the_emulators_variables_are_used_or_named() {
    let folder = Folder::new("variables");
    folder.write(
        "Config.json",
        "{ \"UserConfig\": { \"Namespaces\": [ { \"Name\": \"sbemulatorns\", \"Queues\": [] } ] } }",
    );
    let line = ["--listen", "127.0.0.1:0", "--durability", "none", "--emulator-config", "Config.json"];
    let log = folder.0.join("log");
    let mut serve = command(&folder.0, &line);
    serve.env("SQL_SERVER", "mssql").env("MSSQL_SA_PASSWORD", "a secret").env("ACCEPT_EULA", "Y");
    let broker = Broker::ready(serve.stderr(std::fs::File::create(&log).unwrap()));
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(
        said.contains("`SQL_SERVER` is ignored") && said.contains("`MSSQL_SA_PASSWORD` is ignored"),
        "{said}"
    );
    assert!(!said.contains("a secret") && !said.contains("EULA"), "{said}");
    drop(broker);
    let refused = command(&folder.0, &line).env("EMULATOR_HTTP_PORT", "http").output().unwrap();
    assert_eq!(code(&refused), 2);
    assert!(
        stderr(&refused).contains("`EMULATOR_HTTP_PORT` is 'http', expected a port"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn a_short_bench_measures_something() {
    let folder = Folder::new("bench");
    let broker = Broker::start(&folder.0, &LOCAL);
    let json = done(
        &folder,
        &broker,
        &["bench", "orders", "--count", "500", "--size", "100", "--window", "50", "--json"],
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["received_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(done(&folder, &broker, &["peek", "orders"]), "");
}
