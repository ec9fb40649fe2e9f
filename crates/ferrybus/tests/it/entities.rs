//! Queues, topics, subscriptions and rules from the command line.

use serde_json::{Value, json};

use crate::support::{Broker, Folder, code, command, ferrybus, stderr, stdout};

const SERVE: [&str; 4] = ["--listen", "127.0.0.1:0", "--durability", "none"];

struct Setting {
    folder: Folder,
    broker: Broker,
}

impl Setting {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let broker = Broker::start(&folder.0, &SERVE);
        Self { folder, broker }
    }

    fn run(&self, line: &str) -> std::process::Output {
        // A `|` stands for a space inside a word.
        let mut words: Vec<String> = line.split(' ').map(|word| word.replace('|', " ")).collect();
        words.extend(["--connection-string".to_owned(), self.broker.connection_string.clone()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        ferrybus(&self.folder.0, &words)
    }

    fn done(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        stdout(&output)
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.done(&format!("{line} --json"))).unwrap()
    }

    fn refused(&self, line: &str, exit: i32, expected: &str) {
        let output = self.run(line);
        assert_eq!((code(&output), stdout(&output).as_str()), (exit, ""), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{line}: {}", stderr(&output));
    }
}

#[test]
fn a_queue_is_created_changed_shown_listed_and_deleted() {
    let it = Setting::new("queue");
    let created =
        it.done("queue create orders --lock-duration 30s --max-delivery-count 5 --requires-session");
    assert_eq!(created, "created queue `orders`\n");
    let shown = it.json("queue show orders");
    for (key, expected) in [
        ("kind", json!("queue")),
        ("name", json!("orders")),
        ("lock_duration", json!("PT30S")),
        ("hold", json!("Link")),
        ("max_delivery_count", json!(5)),
        ("requires_session", json!(true)),
        ("default_time_to_live", Value::Null),
        ("max_size_bytes", json!(1_073_741_824)),
        ("status", json!("Active")),
        ("messages", json!({"active": 0, "scheduled": 0, "dead_letter": 0, "transfer_dead_letter": 0})),
    ] {
        assert_eq!(shown[key], expected, "{key} of {shown}");
    }
    it.done("queue create audit");
    let updated = it.done(
        "queue update orders --lock-duration 1m --default-time-to-live 14d --forward-dead-lettered-to audit",
    );
    assert_eq!(
        updated,
        "updated queue `orders`\n  lock_duration  30s -> 1m\n  default_time_to_live  never -> 14d\n  \
         forward_dead_lettered_to  - -> audit\n"
    );
    let shown = it.json("queue show orders");
    assert_eq!(
        (&shown["max_delivery_count"], &shown["forward_dead_lettered_to"]),
        (&json!(5), &json!("audit"))
    );
    assert_eq!(it.done("queue update orders --lock-duration PT60S"), "queue `orders` is like that already\n");
    it.done("queue update orders --forward-dead-lettered-to= --default-time-to-live never");
    let shown = it.json("queue show orders");
    assert_eq!(
        (&shown["forward_dead_lettered_to"], &shown["default_time_to_live"]),
        (&Value::Null, &Value::Null)
    );
    it.done("send audit --body tea --count 3");
    let listed = it.done("queue list");
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "STATUS", "ACTIVE", "SCHEDULED", "DEAD-LETTER", "SIZE"]);
    assert_eq!(lines[1][..5], ["audit", "Active", "3", "0", "0"]);
    assert_eq!(it.done("queue list --json").lines().count(), 2);
    assert_eq!(it.done("queue delete orders"), "deleted queue `orders`\n");
    assert_eq!(it.done("queue list --json").lines().count(), 1);
}

#[test]
fn a_name_may_be_any_text() {
    let it = Setting::new("texts");
    for name in ["with|spaces", "größe/Ärger", "注文", "a::b,|c#d", "a//b", "app://x?y=50%", "\"<&>\"\\"]
    {
        let text = name.replace('|', " ");
        assert_eq!(
            it.done(&format!("queue create {name} --max-delivery-count 1")),
            format!("created queue `{text}`\n")
        );
        assert_eq!(it.json(&format!("queue show {name}"))["name"], json!(text));
        it.done(&format!("queue update {name} --lock-duration 30s"));
        it.done(&format!("send {name} --body tea --count 2"));
        assert!(it.done(&format!("peek {name}")).contains("tea"), "{text}");
        let listed = it.done("queue list");
        let line = listed.lines().find(|line| line.starts_with(&text)).unwrap_or_else(|| panic!("{listed}"));
        assert_eq!(
            line[text.len()..].split_whitespace().collect::<Vec<_>>()[..2],
            ["Active", "2"],
            "{listed}"
        );
        assert_eq!(it.json("queue list")["name"], json!(text));
        it.done(&format!("purge {name}"));
        it.done(&format!("send {name} --body coffee"));
        assert!(it.done(&format!("receive {name}")).contains("coffee"), "{text}");
        assert_eq!(it.json(&format!("queue show {name}"))["messages"]["active"], json!(0));
        it.done(&format!("queue delete {name}"));
    }
    it.done("queue create größe");
    it.done("queue create orders --forward-to größe");
    assert_eq!(it.json("queue show orders")["forward_to"], json!("größe"));
    it.done("topic create ein|Thema");
    it.done("subscription create ein|Thema s");
    it.done("rule create ein|Thema s r --sql a>1");
    assert_eq!(it.json("topic show ein|Thema")["subscriptions"], json!(1));
    assert_eq!(it.done("subscription list ein|Thema --json").lines().count(), 1);
    it.refused("subscription show ein|Tema s", 1, "did you mean `ein Thema`?");
    it.refused("send kein|Thema --body x", 1, "did you mean `ein Thema`?");
}

#[test]
fn a_misspelt_word_is_answered_with_the_nearest_right_one() {
    let it = Setting::new("wrong");
    it.done("queue create orders");
    it.done("topic create events");
    it.refused("queue show ordrs", 1, "there is no queue `ordrs`\nhint: did you mean `orders`?");
    it.refused("queue delete order", 1, "did you mean `orders`?");
    it.refused("queue update ordrs --lock-duration 30s", 1, "did you mean `orders`?");
    it.refused("queue show events", 1, "`events` is a topic, not a queue\nhint: `ferrybus topic` is for it");
    it.refused("queue delete events", 1, "`events` is a topic, not a queue");
    it.refused("queue create orders", 1, "already exists (409, SubCode 40900)");
    it.refused("queue create late --lock-duration 10m", 1, "(400, SubCode 40000)");
    it.refused("queue create late --lock-duration 10", 2, "such as `30s`");
    it.refused("queue create late --status Actve", 2, "did you mean `Active`?");
    it.refused("queue create late --lock-duraton 10s", 2, "--lock-duration");
    it.refused("queue create late --max-size-bytes 1KiB", 2, "a multiple of 1 MiB");
    it.refused("queue update orders", 2, "no property was given to change");
    it.refused("queue update orders --requires-session", 1, "is fixed at creation");
    it.refused("queue create bad/$name", 1, "(400");
    it.refused("queue create $bad", 1, "`$bad` is not a valid entity name (400");
    it.refused("subscription list event", 1, "did you mean `events`?");
    it.refused("rule list events audit", 1, "there is no subscription `events/audit`");
    it.refused("rule list event audit", 1, "error: there is no topic `event`\nhint: did you mean `events`?");
    it.refused("subscription create evens audit", 1, "did you mean `events`?");
    it.refused("subscription show orders audit", 1, "`orders` is a queue, not a topic");
    it.refused("subscription show events audit", 1, "`ferrybus subscription list events` shows those");
    let wrong_key = it.broker.connection_string.replace("SAS_KEY_VALUE", "wrong");
    let output = ferrybus(&it.folder.0, &["queue", "list", "--connection-string", &wrong_key]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("(401, SubCode 40103)"), "{}", stderr(&output));
    assert!(stderr(&output).contains("hint: check the key"), "{}", stderr(&output));
}

#[test]
fn each_command_about_messages_says_which_entity_was_probably_meant() {
    let it = Setting::new("meant");
    it.done("queue create orders");
    it.done("queue create steps --requires-session");
    it.done("topic create events");
    it.done("subscription create events audit");
    for (line, meant) in [
        ("send ordrs --body tea", "did you mean `orders`?"),
        ("send event --body tea", "did you mean `events`?"),
        ("receive ordrs", "did you mean `orders`?"),
        ("receive events/Subscriptions/adit", "did you mean `audit`?"),
        ("receive event/subscriptions/audit", "did you mean `events`?"),
        ("peek order", "did you mean `orders`?"),
        ("peek something/else", "`ferrybus queue list` and `ferrybus topic list` show those that there are"),
        ("purge orders1", "did you mean `orders`?"),
        ("bench ordrs --count 1", "did you mean `orders`?"),
        ("dead-letter list ordrs", "did you mean `orders`?"),
        ("dead-letter resubmit ordrs", "did you mean `orders`?"),
        ("dead-letter purge ordrs --reason late", "did you mean `orders`?"),
        ("session list stepps", "did you mean `steps`?"),
        ("session state get stepps one", "did you mean `steps`?"),
        ("session state set stepps one --clear", "did you mean `steps`?"),
    ] {
        it.refused(line, 1, &format!("\nhint: {meant}\n"));
    }
    it.done("send orders --body tea");
    it.done("receive orders --settle dead-letter");
    it.refused("dead-letter resubmit orders --to step", 1, "did you mean `steps`?");
    // An existing entity is shown without a suggestion.
    let output = it.run("session list orders");
    assert!(code(&output) == 1 && !stderr(&output).contains("hint:"), "{}", stderr(&output));
}

#[test]
fn subscriptions_and_rules_are_managed_with_their_topic() {
    let it = Setting::new("subscription");
    it.done("topic create events --max-size-bytes 2GiB");
    assert_eq!(
        it.done("subscription create events audit --max-delivery-count 3"),
        "created subscription `events/audit`\n"
    );
    let rules = it.done("rule list events audit");
    assert_eq!(
        rules,
        "NAME      FILTER  ACTION
$Default  all     -
"
    );
    it.done("rule create events audit big --sql amount|>|100 --action SET|size|=|'big'");
    it.done(
        "rule create events audit red --correlation label=red --correlation region=eu --correlation grade:=5",
    );
    let red = it.json("rule show events audit red");
    assert_eq!(
        red,
        json!({"name": "red", "action": null, "filter": {"type": "correlation",
            "correlation": {"label": "red"}, "properties": {"region": "eu", "grade": 5}}})
    );
    it.done("rule update events audit big --sql amount|>|200");
    let big = it.json("rule show events audit big");
    assert_eq!((&big["filter"]["sql"], &big["action"]), (&json!("amount > 200"), &json!("SET size = 'big'")));
    it.done("rule update events audit big --action=");
    assert_eq!(it.json("rule show events audit big")["action"], Value::Null);
    assert_eq!(
        it.done("rule delete events audit $Default"),
        "deleted rule `$Default` of subscription `events/audit`\n"
    );
    it.refused("rule show events audit rad", 1, "did you mean `red`?");
    it.refused("rule create events audit red --all", 1, "(409");
    it.refused("rule create events audit worse --sql amount|>", 2, "cannot be read at");
    it.refused("rule create events audit worse", 2, "no filter was given");
    assert_eq!(it.done("rule list events audit --json").lines().count(), 2);
    let topic = it.json("topic show events");
    assert_eq!((&topic["subscriptions"], &topic["max_size_bytes"]), (&json!(1), &json!(2_147_483_648_u64)));
    let listed: Value = serde_json::from_str(it.done("subscription list events --json").trim()).unwrap();
    assert_eq!((&listed["topic"], &listed["name"]), (&json!("events"), &json!("audit")));
    it.done("subscription update events audit --status receive-disabled");
    assert_eq!(it.json("subscription show events audit")["status"], "ReceiveDisabled");
    it.done("subscription delete events audit");
    it.done("topic delete events");
    it.refused("topic show events", 1, "there is no topic `events`");
}

#[test]
fn more_entities_than_one_page_holds_are_listed() {
    let it = Setting::new("pages");
    let queues: Vec<String> =
        (0..205).map(|number| format!("[[queue]]\nname = \"q{number:03}\"\n")).collect();
    it.folder.write("many.toml", &queues.concat());
    let many = Broker::start(
        &it.folder.0,
        &["--config", "many.toml", "--listen", "127.0.0.1:0", "--data-dir", "many", "--durability", "none"],
    );
    let output = ferrybus(&it.folder.0, &["queue", "list", "--connection-string", &many.connection_string]);
    assert_eq!(stdout(&output).lines().count(), 206, "{}", stderr(&output));
}

#[test]
fn an_update_leaves_sizes_alone_that_only_a_file_can_set() {
    let it = Setting::new("sizes");
    it.folder.write(
        "odd.toml",
        "[[queue]]\nname = \"odd\"\nmax_size_bytes = \"5 MiB\"\n[[queue]]\nname = \"free\"\n",
    );
    let line =
        ["--config", "odd.toml", "--listen", "127.0.0.1:0", "--data-dir", "odd", "--durability", "none"];
    let it = Setting { broker: Broker::start(&it.folder.0, &line), ..it };
    for (name, bytes) in [("odd", 5_242_880_u64), ("free", 85_899_345_920)] {
        it.done(&format!("queue update {name} --max-delivery-count 3"));
        let shown = it.json(&format!("queue show {name}"));
        assert_eq!(
            (&shown["max_delivery_count"], &shown["max_size_bytes"]),
            (&json!(3), &json!(bytes)),
            "{shown}"
        );
    }
    it.refused("queue update odd --max-size-bytes 7MiB", 1, "a multiple of 1024");
}

#[test]
fn the_server_may_be_named_apart_from_the_key() {
    let it = Setting::new("server");
    let address = it.broker.addresses[0].clone();
    let line = ["queue", "list", "--json", "--server", &address];
    let output = ferrybus(&it.folder.0, &line);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let output = ferrybus(&it.folder.0, &["queue", "list", "--server", "a/b"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("`a/b` is no server"), "{}", stderr(&output));
}

#[test]
fn topics_are_changed_and_listed() {
    let it = Setting::new("topics");
    it.done("topic create events");
    it.done("topic create audits --max-size-bytes 2GiB");
    it.done("subscription create events one");
    it.done("subscription create events two");
    assert_eq!(
        it.done("topic update events --default-time-to-live 1h --status send-disabled"),
        "updated topic `events`\n  status  Active -> SendDisabled\n  default_time_to_live  never -> 1h\n"
    );
    let listed = it.done("topic list");
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "STATUS", "SUBSCRIPTIONS", "SCHEDULED", "SIZE"]);
    assert_eq!(
        lines[1..],
        [["audits", "Active", "0", "0", "0", "B"], ["events", "SendDisabled", "2", "0", "0", "B"]]
    );
    let listed = it.done("topic list --json");
    let all: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (all.len(), &all[1]["default_time_to_live"], &all[1]["kind"]),
        (2, &json!("PT1H"), &json!("topic"))
    );
}

#[test]
fn created_changed_and_deleted_entities_are_told_as_json() {
    let it = Setting::new("json");
    let cases = [
        ("queue", "orders", "--max-delivery-count 3", "max_delivery_count", json!(3)),
        ("topic", "events", "--user-metadata mine", "user_metadata", json!("mine")),
        ("subscription", "events audit", "--lock-duration 30s", "lock_duration", json!("PT30S")),
    ];
    for (kind, name, option, key, expected) in &cases {
        let own = name.rsplit(' ').next().unwrap();
        let made = it.json(&format!("{kind} create {name}"));
        assert_eq!((&made["kind"], &made["name"]), (&json!(kind), &json!(own)), "{made}");
        assert!(made["created_at"].is_string() && made[key] != *expected, "{made}");
        let changed = it.json(&format!("{kind} update {name} {option}"));
        assert_eq!((&changed["name"], &changed[key]), (&json!(own), expected), "{changed}");
        // Nothing is changed by that, and it is told all the same.
        assert_eq!(it.json(&format!("{kind} update {name} {option}"))[key], *expected);
    }
    let rule = |sql: &str| json!({"name": "big", "action": null, "filter": {"type": "sql", "sql": sql, "parameters": {}}});
    assert_eq!(it.json("rule create events audit big --sql amount>1"), rule("amount>1"));
    assert_eq!(it.json("rule update events audit big --sql amount>2"), rule("amount>2"));
    assert_eq!(it.json("rule delete events audit big"), json!({ "deleted": "big" }));
    for (kind, name, ..) in cases.iter().rev() {
        let deleted = it.json(&format!("{kind} delete {name}"));
        assert_eq!(deleted, json!({ "deleted": name.replace(' ', "/") }), "{kind}");
    }
}

#[test]
fn the_connection_string_may_come_from_the_environment() {
    let it = Setting::new("environment");
    it.done("queue create orders");
    let string = &it.broker.connection_string;
    let wrong = string.replace("SAS_KEY_VALUE", "another");
    let run = |variable: &str, option: Option<&str>| {
        let option = option.map(|string| ["--connection-string", string]);
        let line = [&["queue", "list", "--json"][..], option.as_ref().map_or(&[][..], |option| &option[..])]
            .concat();
        command(&it.folder.0, &line).env("FERRYBUS_CONNECTION_STRING", variable).output().unwrap()
    };
    let output = run(string, None);
    assert!(code(&output) == 0 && stdout(&output).contains("\"orders\""), "{}", stderr(&output));
    // The command line goes before the environment.
    assert_eq!(code(&run(&wrong, Some(string))), 0);
    assert!(stderr(&run(string, Some(&wrong))).contains("(401, SubCode 40103)"));
    let output = run("nonsense", None);
    assert_eq!((code(&output), stdout(&output).as_str()), (2, ""), "{}", stderr(&output));
}

#[test]
fn shells_complete_and_each_command_has_a_manual_page() {
    let folder = Folder::new("manual");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = stdout(&ferrybus(&folder.0, &["completions", shell]));
        assert!(script.contains("lock-duration") && script.contains("ferrybus"), "{shell}");
    }
    let page = stdout(&ferrybus(&folder.0, &["man"]));
    assert!(page.contains(".TH ferrybus 1") && page.contains("dead") | page.contains("queue"), "{page}");
    let output = ferrybus(&folder.0, &["man", "pages"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for name in ["ferrybus.1", "ferrybus-queue-create.1", "ferrybus-rule-list.1", "ferrybus-serve.1"] {
        let page = std::fs::read_to_string(folder.0.join("pages").join(name)).unwrap();
        assert!(page.contains(".SH NAME"), "{name}");
    }
    let create = std::fs::read_to_string(folder.0.join("pages/ferrybus-queue-create.1")).unwrap();
    assert!(
        create.contains("ferrybus\\-queue\\-create") && create.contains("dead\\-letter\\-on\\-expiration"),
        "{create}"
    );
}

#[test]
fn how_plain_receivers_hold_messages_is_set_shown_and_kept_by_other_updates() {
    let it = Setting::new("hold");
    it.done("queue create orders --hold lock");
    assert_eq!(it.json("queue show orders")["hold"], json!("Lock"));
    it.done("queue update orders --lock-duration 30s");
    assert_eq!(it.json("queue show orders")["hold"], json!("Lock"));
    let updated = it.done("queue update orders --hold link");
    assert_eq!(updated, "updated queue `orders`\n  hold  Lock -> Link\n");
    assert_eq!(it.done("queue update orders --hold link"), "queue `orders` is like that already\n");
    it.done("topic create events");
    it.done("subscription create events audit --hold lock");
    assert_eq!(it.json("subscription show events audit")["hold"], json!("Lock"));
    it.refused("queue create other --hold timer", 2, "expected `Link`, `Lock`");
}
