//! Dead letters, purges, session states and connections from the command line.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::support::{Broker, Folder, code, command, ferrybus, stderr, stdout};

const CONFIG: &str = r#"
listen = ["127.0.0.1:0"]
durability = "none"
[[queue]]
name = "orders"
max_delivery_count = 1
[[queue]]
name = "careful"
requires_duplicate_detection = true
[[queue]]
name = "steps"
requires_session = true
[[topic]]
name = "events"
[[topic.subscription]]
name = "audit"
"#;

struct Setting {
    folder: Folder,
    broker: Broker,
}

impl Setting {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        folder.write("ferrybus.toml", CONFIG);
        let broker = Broker::start(&folder.0, &["--testing"]);
        Self { folder, broker }
    }

    fn run(&self, line: &str) -> std::process::Output {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.extend(["--connection-string", &self.broker.connection_string]);
        ferrybus(&self.folder.0, &words)
    }

    fn done(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        stdout(&output)
    }

    fn lines(&self, line: &str) -> Vec<Value> {
        let text = self.done(&format!("{line} --json"));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn refused(&self, line: &str, exit: i32, expected: &str) {
        let output = self.run(line);
        assert_eq!((code(&output), stdout(&output).as_str()), (exit, ""), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{line}: {}", stderr(&output));
    }

    /// Sends messages and lets a receiver dead-letter them.
    fn dead_letter(&self, options: &str, reason: &str) {
        self.done(&format!("send orders {options}"));
        self.done(&format!("receive orders --settle dead-letter --reason {reason} --timeout 300ms"));
    }
}

#[test]
fn dead_letters_are_listed_resubmitted_and_purged_by_reason() {
    let it = Setting::new("letters");
    it.dead_letter(
        "--body tea --count 3 --subject hot --message-id tea --property colour=red --ttl 1h",
        "cold",
    );
    it.dead_letter("--body milk --count 2 --message-id milk", "sour");
    assert_eq!(it.lines("dead-letter list orders").len(), 5);
    let listed = it.lines("dead-letter list orders --reason cold --max 2");
    assert_eq!(listed.len(), 2);
    let counted = || it.lines("dead-letter list orders").len();
    assert_eq!(
        (&listed[0]["message_id"], &listed[0]["dead_letter_reason"]),
        (&json!("tea-1"), &json!("cold"))
    );
    assert!(it.done("dead-letter list orders --id milk-2").contains("DeadLetterReason=sour"));
    let sent: Value =
        serde_json::from_str(&it.done("dead-letter resubmit orders --reason cold --max 2 --json")).unwrap();
    assert_eq!(sent, json!({"resubmitted": 2, "to": "orders"}));
    let back = it.lines("peek orders");
    assert_eq!(back.len(), 2);
    let first = &back[0];
    assert_eq!(
        (&first["message_id"], &first["subject"], &first["body"], &first["time_to_live_ms"]),
        (&json!("tea-1"), &json!("hot"), &json!("tea"), &json!(3_600_000))
    );
    assert_eq!(
        (&first["application_properties"], &first["delivery_count"]),
        (&json!({"colour": "red"}), &json!(0))
    );
    assert_eq!(
        it.done("dead-letter resubmit orders --id tea-3 --to careful --new-id"),
        "resubmitted 1 message to `careful`\n"
    );
    assert_ne!(it.lines("peek careful")[0]["message_id"], "tea-3");
    assert_eq!(
        it.done("dead-letter purge orders --id milk-2"),
        "removed 1 message from `orders/$DeadLetterQueue`\n"
    );
    assert_eq!(counted(), 1);
    let left = it.lines("dead-letter list orders");
    assert_eq!(left.len(), 1);
    assert_eq!((&left[0]["message_id"], &left[0]["delivery_count"]), (&json!("milk-1"), &json!(0)));
    assert_eq!(it.done("dead-letter purge orders"), "removed 1 message from `orders/$DeadLetterQueue`\n");
    assert_eq!(it.done("dead-letter resubmit orders"), "resubmitted 0 messages to `orders`\n");
}

#[test]
fn more_dead_letters_than_one_transaction_takes_go_back_in_order() {
    let it = Setting::new("many-letters");
    it.dead_letter("--body tea --count 230 --message-id m", "cold");
    assert_eq!(it.done("dead-letter resubmit orders"), "resubmitted 230 messages to `orders`\n");
    let back = it.lines("peek orders --count 1000");
    let ids: Vec<_> = back.iter().map(|message| message["message_id"].as_str().unwrap()).collect();
    let expected: Vec<_> = (1..=230).map(|number| format!("m-{number}")).collect();
    assert_eq!(ids, expected);
    assert_eq!(it.lines("dead-letter list orders").len(), 0);
}

#[test]
fn a_command_that_would_lose_or_double_dead_letters_is_refused() {
    let it = Setting::new("refused-letters");
    it.dead_letter("--body tea", "cold");
    it.refused("dead-letter resubmit orders --to careful", 1, "hint: `--new-id`");
    it.refused("dead-letter resubmit events/Subscriptions/audit", 2, "`--to events` sends to its topic");
    it.refused("dead-letter resubmit orders --to nowhere", 1, "nowhere");
    assert_eq!(it.lines("dead-letter list orders").len(), 1, "it is still there");
    it.done("queue update orders --max-message-bytes 1KiB");
    it.done("queue create small --max-message-bytes 1KiB");
    it.done("send careful --size 4KiB");
    it.done("receive careful --settle dead-letter --timeout 300ms");
    it.refused("dead-letter resubmit careful --to small", 1, "small");
    assert_eq!(it.lines("dead-letter list careful").len(), 1, "it is still there");
    assert_eq!(
        it.lines("receive careful --dead-letter --settle release --timeout 300ms").len(),
        1,
        "and free"
    );
}

#[test]
fn a_queue_is_purged_to_a_time_or_wholly() {
    let it = Setting::new("purge");
    it.done("send orders --body old --count 3");
    it.done("clock advance 2h");
    it.done("send orders --body new --count 2");
    let enqueued = it.lines("peek orders")[3]["enqueued_at"].as_str().unwrap().to_owned();
    assert_eq!(it.done(&format!("purge orders --before {enqueued}")), "removed 3 messages from `orders`\n");
    assert_eq!(it.done("purge orders --json"), "{\"removed\":2}\n");
    assert_eq!(it.done("purge orders"), "removed 0 messages from `orders`\n");
    it.refused("purge orders --before soon", 2, "`soon` is no time");
    it.refused("purge nowhere", 1, "nowhere");
    assert_eq!(it.done("purge orders --before 1h"), "removed 0 messages from `orders`\n");
}

#[test]
fn sessions_are_listed_and_their_states_read_and_written() {
    let it = Setting::new("sessions");
    assert_eq!(it.done("session list steps"), "");
    let set = it.done("session state set steps one --body halfway");
    assert_eq!(set, "set the state of session `one`, 7 bytes\n");
    assert_eq!(it.lines("session list steps"), [json!({"session_id": "one"})]);
    assert_eq!(it.done("session state get steps one"), "halfway");
    assert_eq!(it.lines("session state get steps one"), [json!({"state": "halfway"})]);
    // An id is one session in any case, and is shown as it came first.
    assert_eq!(it.done("session state get steps ONE"), "halfway");
    assert_eq!(
        it.done("session state set steps One --body done"),
        "set the state of session `One`, 4 bytes\n"
    );
    assert_eq!(it.lines("session list steps"), [json!({"session_id": "one"})]);
    assert_eq!(it.done("session state get steps one"), "done");
    it.done("session state set steps one --clear");
    assert_eq!(it.lines("session state get steps one"), [json!({"state": null})]);
    it.refused("session state get orders one", 1, "cannot lock session `one` of `orders`");
    it.refused("session state set steps one", 2, "--body");
}

#[test]
fn connections_are_listed_and_closed() {
    let it = Setting::new("connections");
    assert_eq!(it.done("connection list"), "");
    let mut line = command(&it.folder.0, &["receive", "orders", "--timeout", "60s", "--json"]);
    let line = line.args(["--connection-string", &it.broker.connection_string]);
    let mut receiver = line.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    it.done("send orders --body tea");
    let mut first = String::new();
    BufReader::new(receiver.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    let all = it.lines("connection list");
    assert_eq!(all.len(), 1, "{all:?}");
    let one = &all[0];
    assert_eq!(
        (&one["transport"], &one["keys"], &one["protocol"], &one["sessions"], &one["links"]),
        (&json!("plain"), &json!(["RootManageSharedAccessKey"]), &json!("service-bus"), &json!(1), &json!(1)),
        "{one}"
    );
    assert_eq!(one["container_id"], json!(format!("ferrybus-cli-{}", receiver.id())));
    assert!(one["bytes_in"].as_u64() > Some(100) && one["bytes_out"].as_u64() > Some(100), "{one}");
    let id = one["id"].as_u64().unwrap();
    assert_eq!(it.done(&format!("connection close {id}")), format!("closed connection {id}\n"));
    let ended = receiver.wait_with_output().unwrap();
    assert_eq!(code(&ended), 1);
    assert!(stderr(&ended).contains("amqp:connection:forced"), "{}", stderr(&ended));
    it.refused(&format!("connection close {id}"), 1, "error: there is no connection ");
    let wrong = it.broker.connection_string.replace("SAS_KEY_VALUE", "wrong");
    let output = ferrybus(&it.folder.0, &["connection", "close", "1", "--connection-string", &wrong]);
    assert!(stderr(&output).contains("hint: check the key"), "{}", stderr(&output));
}
