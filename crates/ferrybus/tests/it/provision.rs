//! A broker that is started again with other files than before.

use std::fs;

use serde_json::{Value, json};

use crate::{
    config::queue,
    support::{Broker, Folder, code, command, ferrybus, stderr, stdout},
};

const EMULATOR: [&str; 6] =
    ["--listen", "127.0.0.1:0", "--durability", "os", "--emulator-config", "Config.json"];
const OWN: [&str; 4] = ["--listen", "127.0.0.1:0", "--durability", "os"];

/// Starts a broker, and gives what it had logged at `info` when it was ready.
fn start(folder: &Folder, line: &[&str]) -> (Broker, String) {
    let log = folder.0.join("log");
    let mut serve = command(&folder.0, line);
    serve.env("FERRYBUS_LOG", "info").stderr(fs::File::create(&log).unwrap());
    let broker = Broker::ready(&mut serve);
    (broker, fs::read_to_string(&log).unwrap())
}

/// The lines of a log that are about entities.
fn told(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains("ferrybus::provision")).collect()
}

fn emulators_file(folder: &Folder, queues: &Value, topics: &Value) {
    let namespace = json!({ "Name": "sbemulatorns", "Queues": queues, "Topics": topics });
    let config = json!({ "UserConfig": { "Namespaces": [namespace], "Logging": { "Type": "File" } } });
    folder.write("Config.json", &config.to_string());
}

fn run(folder: &Folder, broker: &Broker, line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    words.extend(["--connection-string", &broker.connection_string]);
    let output = ferrybus(&folder.0, &words);
    assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
    stdout(&output)
}

#[test]
fn the_emulators_file_is_the_truth_at_each_start() {
    let folder = Folder::new("provision-apply");
    let topics = json!([{ "Name": "events", "Subscriptions": [{ "Name": "all" }] }]);
    emulators_file(&folder, &json!([{ "Name": "orders" }, { "Name": "gone" }]), &topics);
    let (broker, log) = start(&folder, &EMULATOR);
    assert_eq!(told(&log), Vec::<&str>::new(), "a fresh start has nothing to say");
    let by_hand = "queue update gone --max-delivery-count 9 --user-metadata mine --auto-delete-on-idle 1h";
    run(&folder, &broker, by_hand);
    run(&folder, &broker, "send orders --body kept");
    assert!(broker.stop().success());

    // Every property of the schema that can be changed, an entity more, one less, other rules.
    let properties = json!({
        "DeadLetteringOnMessageExpiration": true, "DefaultMessageTimeToLive": "PT30M",
        "DuplicateDetectionHistoryTimeWindow": "PT1M", "ForwardDeadLetteredMessagesTo": "letters",
        "LockDuration": "PT30S", "MaxDeliveryCount": 7,
    });
    let rule = json!({ "Name": "big",
        "Properties": { "FilterType": "Sql", "SqlFilter": { "SqlExpression": "amount > 100" } } });
    let all = json!({ "Name": "all", "Properties": { "MaxDeliveryCount": 5 }, "Rules": [rule] });
    let topics = json!([{ "Name": "events", "Properties": { "DefaultMessageTimeToLive": "PT5M" },
        "Subscriptions": [all, { "Name": "more" }] }]);
    let queues = json!([{ "Name": "Orders", "Properties": properties }, { "Name": "letters" }]);
    emulators_file(&folder, &queues, &topics);
    let (broker, log) = start(&folder, &EMULATOR);
    let shown = queue(&folder, &broker, "orders");
    let expected = json!({ "dead_letter_on_expiration": true, "default_time_to_live": "PT30M",
        "duplicate_detection_window": "PT1M", "forward_dead_lettered_to": "letters",
        "lock_duration": "PT30S", "max_delivery_count": 7 });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&shown[key], value, "{key} of {shown}");
    }
    assert_eq!(queue(&folder, &broker, "letters")["max_delivery_count"], 3, "made");
    let gone = queue(&folder, &broker, "gone");
    assert_eq!((&gone["max_delivery_count"], &gone["user_metadata"]), (&json!(9), &json!("mine")), "kept");
    let topic: Value = serde_json::from_str(&run(&folder, &broker, "topic show events --json")).unwrap();
    assert_eq!(topic["default_time_to_live"], "PT5M");
    let rules = run(&folder, &broker, "rule list events all --json");
    assert!(rules.contains("amount > 100") && !rules.contains("$Default"), "{rules}");
    run(&folder, &broker, "subscription show events more");
    assert!(run(&folder, &broker, "peek orders").contains("kept"));
    let lines = told(&log);
    let has = |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(has(&["1 entity is not in the configuration and kept: `gone`"]), "{log}");
    assert!(
        has(&["queue `orders` was changed", "MaxDeliveryCount is 3, the file has 7", "Config.json"]),
        "{log}"
    );
    assert!(
        has(&["`events/all` was changed", "rule `big` is missing", "`$Default` is not in the file"]),
        "{log}"
    );

    // A change by hand is reverted, but for properties that the schema has no word for.
    run(
        &folder,
        &broker,
        "queue update letters --max-delivery-count 9 --user-metadata mine --auto-delete-on-idle 1h",
    );
    run(&folder, &broker, "rule delete events all big");
    assert!(broker.stop().success());
    let (broker, _) = start(&folder, &EMULATOR);
    let letters = queue(&folder, &broker, "letters");
    assert_eq!((&letters["max_delivery_count"], &letters["user_metadata"]), (&json!(3), &json!("mine")));
    assert_eq!(letters["auto_delete_on_idle"], "PT1H");
    assert!(run(&folder, &broker, "rule list events all --json").contains("amount > 100"));
    assert!(broker.stop().success());
    let (_broker, log) = start(&folder, &EMULATOR);
    assert_eq!(told(&log).len(), 1, "nothing is changed twice: {log}");
}

#[test]
fn a_property_that_cannot_be_changed_ends_the_start_and_nothing_is_changed() {
    let before = json!([{ "Name": "a" }, { "Name": "orders" }]);
    let topic = json!([{ "Name": "events" }]);
    let session = json!({ "RequiresSession": true });
    let duplicates = json!({ "RequiresDuplicateDetection": true });
    let cases = [
        (
            json!([{ "Name": "orders", "Properties": session }]),
            topic.clone(),
            ["queue `orders`", "RequiresSession"],
        ),
        (
            json!([{ "Name": "orders", "Properties": duplicates }]),
            topic.clone(),
            ["queue `orders`", "RequiresDuplicateDetection"],
        ),
        (
            json!([]),
            json!([{ "Name": "events", "Properties": duplicates }]),
            ["topic `events`", "RequiresDuplicateDetection"],
        ),
        (json!([{ "Name": "events" }]), json!([]), ["`events`", "it is a topic"]),
        (
            json!([{ "Name": "orders", "Properties": { "ForwardTo": "nowhere" } }]),
            json!([]),
            ["queue `orders`", "nowhere"],
        ),
    ];
    let folder = Folder::new("provision-fixed");
    emulators_file(&folder, &before, &topic);
    assert!(start(&folder, &EMULATOR).0.stop().success());
    for (queues, topics, named) in cases {
        let mut all =
            vec![json!({ "Name": "new" }), json!({ "Name": "a", "Properties": { "MaxDeliveryCount": 8 } })];
        all.extend(queues.as_array().unwrap().clone());
        emulators_file(&folder, &json!(all), &topics);
        let refused = ferrybus(&folder.0, &EMULATOR);
        let complaint = stderr(&refused);
        assert_eq!(code(&refused), 2, "{complaint}");
        assert!(named.iter().all(|part| complaint.contains(part)), "{named:?}: {complaint}");
        assert_eq!(stdout(&refused), "");
        if !complaint.contains("nowhere") {
            let ways = ["delete the entity", "new volume", "`on_difference = \"keep\"`"];
            assert!(ways.iter().all(|way| complaint.contains(way)), "{complaint}");
        }
        let (broker, log) = start(&folder, &[&EMULATOR[..4], &["--on-difference", "refuse"]].concat());
        assert_eq!(queue(&folder, &broker, "a")["max_delivery_count"], 3, "{log}");
        let missing = ["queue", "show", "new", "--connection-string", &broker.connection_string];
        assert_eq!(code(&ferrybus(&folder.0, &missing)), 1, "nothing is made either");
        assert!(broker.stop().success());
    }
}

#[test]
fn on_difference_keeps_applies_or_refuses() {
    let folder = Folder::new("provision-ways");
    let before = "[[queue]]\nname = \"orders\"\nmax_delivery_count = 3\nlock_duration = \"30s\"\n[[queue]]\nname = \"same\"\n";
    // A property that it does not name any more (the lock's duration) is no difference.
    let after = "[[queue]]\nname = \"orders\"\nmax_delivery_count = 7\n[[queue]]\nname = \"same\"\n[[queue]]\nname = \"new\"\n";
    folder.write("ferrybus.toml", before);
    assert!(start(&folder, &OWN).0.stop().success());
    folder.write("ferrybus.toml", after);
    let delivery_count = |broker: &Broker| queue(&folder, broker, "orders")["max_delivery_count"].clone();

    let refused = ferrybus(&folder.0, &[&OWN[..], &["--on-difference", "refuse"]].concat());
    let complaint = stderr(&refused);
    assert_eq!(code(&refused), 2, "{complaint}");
    assert!(
        complaint
            .contains("queue `orders` differs from `ferrybus.toml`: max_delivery_count is 3, the file has 7"),
        "{complaint}"
    );
    assert!(!complaint.contains("same") && !complaint.contains("lock_duration"), "{complaint}");

    let (broker, log) = start(&folder, &OWN);
    assert_eq!(delivery_count(&broker), 3, "kept");
    assert_eq!(queue(&folder, &broker, "new")["name"], "new");
    let lines = told(&log);
    assert_eq!(lines.len(), 1, "one line for one entity: {log}");
    let parts = [
        " WARN ",
        "queue `orders` differs",
        "max_delivery_count is 3, the file has 7",
        "`ferrybus config apply ferrybus.toml` changes it",
    ];
    assert!(parts.iter().all(|part| lines[0].contains(part)), "{log}");
    // That command does.
    run(&folder, &broker, "config apply ferrybus.toml");
    assert_eq!(delivery_count(&broker), 7);
    run(&folder, &broker, "queue update orders --max-delivery-count 3 --lock-duration 20s");
    assert!(broker.stop().success());

    folder.write("ferrybus.toml", &format!("on_difference = \"apply\"\n{after}"));
    let (broker, _) = start(&folder, &OWN);
    assert_eq!(
        (delivery_count(&broker), &queue(&folder, &broker, "orders")["lock_duration"]),
        (json!(7), &json!("PT20S"))
    );
    assert!(broker.stop().success());

    folder.write(
        "ferrybus.toml",
        &format!(
            "on_difference = \"apply\"\n{}",
            after.replace("max_delivery_count = 7", "requires_session = true")
        ),
    );
    let refused = ferrybus(&folder.0, &OWN);
    assert_eq!(code(&refused), 2);
    assert!(
        stderr(&refused).contains("requires_session is no, the file has yes (fixed at creation)"),
        "{}",
        stderr(&refused)
    );
    // Kept, it starts.
    let (_broker, log) = start(&folder, &[&OWN[..], &["--on-difference", "keep"]].concat());
    assert!(log.contains("requires_session is no, the file has yes (fixed at creation)"), "{log}");
}

#[test]
fn the_emulators_line_is_printed_once_and_for_its_file_alone() {
    let folder = Folder::new("provision-line");
    emulators_file(&folder, &json!([]), &json!([]));
    let said = |line: &[&str], level: &str| {
        let (out, log) = (folder.0.join("out"), folder.0.join("log"));
        let mut serve = command(&folder.0, line);
        serve.env("FERRYBUS_LOG", level);
        serve.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&log).unwrap());
        let mut process = serve.spawn().unwrap();
        let both = || (fs::read_to_string(&out).unwrap(), fs::read_to_string(&log).unwrap());
        let is_ready = || both().0.contains("Endpoint=") && both().0.ends_with('\n');
        crate::support::until(is_ready);
        let asked = std::process::Command::new("kill").arg(process.id().to_string()).status().unwrap();
        assert!(asked.success() && process.wait().unwrap().success());
        both()
    };
    let line = "Emulator Service is Successfully Up!";
    let memory = ["--listen", "127.0.0.1:0", "--durability", "none"];
    let with_file = [&memory[..], &["--emulator-config", "Config.json"]].concat();
    let json = [&with_file[..], &["--log-format", "json"]].concat();
    let count = |text: &str| text.matches(line).count();

    let (out, log) = said(&with_file, "info");
    assert_eq!((count(&out), count(&log)), (1, 0), "{out}{log}");
    assert_eq!(out.lines().filter(|found| *found == line).count(), 1, "{out}");
    for level in ["info", "warn"] {
        let (out, log) = said(&json, level);
        assert_eq!((count(&out), count(&log)), (1, 0), "{out}{log}");
        let printed = serde_json::from_str::<Value>(&out).unwrap();
        assert!(printed["message"].as_str().unwrap().ends_with(line), "{out}");
    }
    let (out, log) = said(&memory, "info");
    assert_eq!((count(&out), count(&log)), (0, 0), "{out}{log}");
}
