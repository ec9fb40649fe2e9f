//! `ferrybus config apply` against a running broker.

use serde_json::{Value, json};

use crate::support::{Broker, Folder, code, ferrybus, stderr, stdout};

const BEFORE: &str = r#"
[[queue]]
name = "orders"
[[queue]]
name = "old"
[[topic]]
name = "events"
[[topic.subscription]]
name = "audit"
"#;

const AFTER: &str = r#"
[[queue]]
name = "orders"
lock_duration = "30s"
forward_dead_lettered_to = "letters"
[[queue]]
name = "letters"
max_delivery_count = 3
[[topic]]
name = "events"
[[topic.subscription]]
name = "audit"
[[topic.subscription.rule]]
name = "big"
sql = "amount > 100"
[[topic.subscription]]
name = "everything"
"#;

struct Setting {
    folder: Folder,
    broker: Broker,
}

impl Setting {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        folder.write("before.toml", BEFORE);
        folder.write("after.toml", AFTER);
        let line = ["--config", "before.toml", "--listen", "127.0.0.1:0", "--durability", "none"];
        let broker = Broker::start(&folder.0, &line);
        Self { folder, broker }
    }

    fn run(&self, line: &str) -> (i32, String, String) {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.extend(["--connection-string", &self.broker.connection_string]);
        let output = ferrybus(&self.folder.0, &words);
        (code(&output), stdout(&output), stderr(&output))
    }
}

#[test]
fn a_plan_is_shown_applied_and_then_there_is_nothing_to_do() {
    let it = Setting::new("apply");
    let expected = "\
+ queue `letters`
    max_delivery_count  - -> 3
~ queue `orders`
    lock_duration  1m -> 30s
    forward_dead_lettered_to  - -> letters
+ rule `big` of subscription `events/audit`
    sql amount > 100
- rule `$Default` of subscription `events/audit`
+ subscription `events/everything`
- queue `old`
plan: 3 create, 1 update, 2 delete, 0 refused, 3 unchanged
";
    let (exit, plan, _) = it.run("config apply after.toml --dry-run --prune");
    let important: Vec<&str> = expected.lines().collect();
    let shown: Vec<&str> = plan.lines().filter(|line| important.contains(line)).collect();
    assert_eq!((exit, shown), (2, important), "{plan}");
    assert_eq!(it.run("queue show old").0, 0, "a dry run changes nothing");
    let (exit, applied, complaint) = it.run("config apply after.toml --prune");
    assert_eq!(exit, 0, "{complaint}");
    assert!(applied.ends_with("applied 6 changes\n"), "{applied}");
    let (exit, plan, complaint) = it.run("config apply after.toml --dry-run --prune");
    assert_eq!(
        (exit, plan.as_str()),
        (0, "plan: 0 create, 0 update, 0 delete, 0 refused, 7 unchanged\n"),
        "{complaint}"
    );
    assert_eq!(it.run("queue show old").0, 1);
    let (_, rules, _) = it.run("rule list events audit --json");
    let rule: Value = serde_json::from_str(&rules).unwrap();
    assert_eq!(rule["filter"]["sql"], "amount > 100");
}

#[test]
fn entities_of_others_stay_without_prune_and_changes_of_fixed_properties_are_refused() {
    let it = Setting::new("apply-refused");
    it.folder.write("fixed.toml", "[[queue]]\nname = \"orders\"\nrequires_session = true\nlock_duration = \"5s\"\n[[queue]]\nname = \"new\"\n");
    let (exit, plan, complaint) = it.run("config apply fixed.toml");
    assert_eq!(exit, 1);
    assert!(
        plan.contains("! queue `orders`\n")
            && plan.contains("requires_session  no -> yes  (fixed at creation)"),
        "{plan}"
    );
    assert!(plan.ends_with("plan: 1 create, 0 update, 0 delete, 1 refused, 0 unchanged; 3 not in the file (`--prune` deletes)\n"), "{plan}");
    assert!(complaint.contains("nothing was changed"), "{complaint}");
    assert_eq!(it.run("queue show new").0, 1, "nothing was changed");
    let (exit, steps, _) = it.run("config apply fixed.toml --dry-run --json");
    let steps: Vec<Value> = steps.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(exit, 2);
    assert_eq!((&steps[0]["action"], &steps[0]["name"]), (&json!("refused"), &json!("orders")));
    assert_eq!((&steps[1]["action"], &steps[1]["kind"]), (&json!("create"), &json!("queue")));
}

#[test]
fn partitions_that_differ_are_named_and_a_queue_with_some_is_made() {
    let it = Setting::new("apply-partitions");
    it.folder.write("parts.toml", "[[queue]]\nname = \"orders\"\nenable_partitioning = true\n");
    let (exit, plan, _) = it.run("config apply parts.toml");
    assert_eq!(exit, 1);
    assert!(
        plan.contains("! queue `orders`\n    enable_partitioning  no -> yes  (fixed at creation)"),
        "{plan}"
    );
    it.folder.write("parts.toml", "[[queue]]\nname = \"parts\"\nenable_partitioning = true\n");
    assert_eq!(it.run("config apply parts.toml").0, 0);
    assert_eq!(queue(&it.folder, &it.broker, "parts")["enable_partitioning"], json!(true));
    // A file that says nothing of it has the default.
    it.folder.write("parts.toml", "[[queue]]\nname = \"parts\"\n");
    let (exit, plan, _) = it.run("config apply parts.toml");
    assert!(exit == 1 && plan.contains("enable_partitioning  yes -> no"), "{plan}");
    // The emulator's file cannot say anything of it.
    let config = r#"{"UserConfig": {"Namespaces": [{"Name": "n", "Queues": [{"Name": "parts"}]}]}}"#;
    it.folder.write("Config.json", config);
    let (exit, plan, complaint) = it.run("config apply Config.json");
    assert_eq!(exit, 0, "{plan}{complaint}");
    assert!(!plan.contains("enable_partitioning"), "{plan}");
}

#[test]
fn the_emulators_file_is_applied_as_it_is() {
    let it = Setting::new("apply-json");
    it.folder.write(
        "Config.json",
        r#"{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns",
            "Queues": [{"Name": "steps", "Properties": {"RequiresSession": true, "ForwardDeadLetteredMessagesTo": "orders"}}],
            "Topics": [{"Name": "news", "Properties": {}, "Subscriptions": [{"Name": "red", "Properties": {},
              "Rules": [{"Name": "byLabel", "Properties": {"FilterType": "Correlation",
                "CorrelationFilter": {"Label": "red", "Properties": {"region": "eu"}}}}]}]}]}],
            "Logging": {"Type": "Console"}}}"#,
    );
    let (exit, applied, complaint) = it.run("config apply Config.json");
    assert_eq!(exit, 0, "{applied}{complaint}");
    assert_eq!(it.run("config apply Config.json --dry-run").0, 0);
    let (_, shown, _) = it.run("queue show steps --json");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["requires_session"], &shown["default_time_to_live"]), (&json!(true), &json!("PT1H")));
    let (_, rule, _) = it.run("rule list news red --json");
    assert_eq!(rule.lines().count(), 1);
    assert!(rule.contains("byLabel") && rule.contains("\"region\":\"eu\""), "{rule}");
}

#[test]
fn an_applied_file_is_no_difference_in_any_profile() {
    const PLAIN: &str = "[[queue]]\nname = \"plain\"\n[[queue]]\nname = \"full\"\nlock_duration = \"30s\"\n\
        max_delivery_count = 3\ndefault_time_to_live = \"30m\"\ndead_letter_on_expiration = true\n\
        max_message_bytes = \"64 MiB\"\nuser_metadata = \"till 7 & till 8\"\nstatus = \"send-disabled\"\n";
    const MORE: &str = "[[queue]]\nname = \"onward\"\nforward_to = \"plain\"\nforward_dead_lettered_to = \"full\"\n\
        auto_delete_on_idle = \"1h\"\n[[queue]]\nname = \"steps\"\nrequires_session = true\n\
        requires_duplicate_detection = true\nduplicate_detection_window = \"1m\"\nmax_size_bytes = \"2 GiB\"\n\
        [[topic]]\nname = \"events\"\n[[topic.subscription]]\nname = \"audit\"\nforward_to = \"plain\"\n\
        [[topic.subscription.rule]]\nname = \"big\"\nsql = \"amount > 1\"\n\
        [[topic.subscription]]\nname = \"idle\"\nauto_delete_on_idle = \"1h\"\n";
    for (profile, file, entities_and_rules) in [
        ("standard", [PLAIN, MORE].concat(), 9),
        ("emulator", [PLAIN, MORE].concat(), 9),
        ("basic", PLAIN.to_owned(), 2),
    ] {
        let folder = Folder::new(&format!("profile-{profile}"));
        folder.write("wanted.toml", &file);
        folder.write("empty.toml", &format!("profile = \"{profile}\"\n"));
        folder.write("full.toml", &format!("profile = \"{profile}\"\n{file}"));
        let nothing =
            format!("plan: 0 create, 0 update, 0 delete, 0 refused, {entities_and_rules} unchanged\n");
        // Applied, or made at the broker's start.
        for (start, is_made) in [("empty.toml", false), ("full.toml", true)] {
            let line = ["--config", start, "--listen", "127.0.0.1:0", "--durability", "none"];
            let broker = Broker::start(&folder.0, &line);
            let apply = || {
                let line =
                    ["config", "apply", "wanted.toml", "--connection-string", &broker.connection_string];
                let output = ferrybus(&folder.0, &line);
                assert_eq!(code(&output), 0, "{profile}: {}{}", stdout(&output), stderr(&output));
                stdout(&output)
            };
            if !is_made {
                let applied = apply();
                assert!(!applied.contains(" 0 create"), "{profile}: {applied}");
            }
            assert_eq!(apply(), nothing, "{profile} {start}");
            // A change by hand is a difference, in this profile too, until the file is applied again.
            let hand = ["queue", "update", "plain", "--default-time-to-live", "5m"];
            let line = [&hand[..], &["--connection-string", &broker.connection_string]].concat();
            assert_eq!(code(&ferrybus(&folder.0, &line)), 0);
            let applied = apply();
            assert!(
                applied.contains("default_time_to_live  5m -> ") && applied.ends_with("applied 1 changes\n"),
                "{applied}"
            );
            assert_eq!(apply(), nothing, "{profile} {start}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_used_is_a_failure_and_no_difference() {
    let it = Setting::new("apply-bad");
    it.folder.write("bad.toml", "[[queue]]\nnmae = \"orders\"\n");
    let (exit, out, complaint) = it.run("config apply bad.toml --dry-run");
    assert_eq!((exit, out.as_str()), (1, ""));
    assert!(complaint.contains("did you mean `name`?"), "{complaint}");
    assert_eq!(it.run("config apply none.toml").0, 1);
}

/// Description of a queue by the broker, as JSON.
pub(crate) fn queue(folder: &Folder, broker: &Broker, name: &str) -> Value {
    let line = ["queue", "show", name, "--json", "--connection-string", &broker.connection_string];
    let output = ferrybus(&folder.0, &line);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_restart_with_the_same_file_reverts_nothing_and_creates_deleted_entities() {
    let toml = "[[queue]]\nname = \"changed\"\nmax_delivery_count = 10\n[[queue]]\nname = \"deleted\"\n\
        [[topic]]\nname = \"events\"\n[[topic.subscription]]\nname = \"audit\"\n";
    let folder = Folder::new("not-reset");
    folder.write("ferrybus.toml", toml);
    let line = ["--listen", "127.0.0.1:0", "--durability", "os"];
    let broker = Broker::start(&folder.0, &line);
    assert_eq!(queue(&folder, &broker, "changed")["max_delivery_count"], 10);
    let run = |broker: &Broker, line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.extend(["--connection-string", &broker.connection_string]);
        let output = ferrybus(&folder.0, &words);
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        stdout(&output)
    };
    run(&broker, "queue update changed --max-delivery-count 3 --user-metadata mine");
    run(&broker, "queue delete deleted");
    run(&broker, "queue create own");
    run(&broker, "rule delete events audit $Default");
    run(&broker, "rule create events audit red --sql colour='red'");
    broker.kill();

    let broker = Broker::start(&folder.0, &line);
    let changed = queue(&folder, &broker, "changed");
    assert_eq!((&changed["max_delivery_count"], &changed["user_metadata"]), (&json!(3), &json!("mine")));
    assert_eq!(queue(&folder, &broker, "own")["name"], "own");
    assert_eq!(queue(&folder, &broker, "deleted")["name"], "deleted", "made again");
    let rules = run(&broker, "rule list events audit --json");
    assert!(rules.contains("\"red\"") && !rules.contains("$Default"), "{rules}");
    assert!(broker.stop().success());
}

/// A file of every kind of entry that the emulator's schema has: each entity comes out as it says, and messages go
/// through what it made.
#[test]
fn every_entry_of_the_emulators_file_is_made() {
    let folder = Folder::new("sample");
    folder.write("Config.json", include_str!("sample-config.json"));
    let line = ["--emulator-config", "Config.json", "--listen", "127.0.0.1:0", "--durability", "none"];
    let broker = Broker::start(&folder.0, &line);
    let run = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.extend(["--connection-string", &broker.connection_string]);
        let output = ferrybus(&folder.0, &words);
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        stdout(&output)
    };
    let show = |what: &str| -> Value { serde_json::from_str(&run(&format!("{what} --json"))).unwrap() };
    // An omitted property has the emulator's default, where that is another than the service's.
    let rows = [
        (
            "queue show orders",
            json!({"lock_duration": "PT30S", "max_delivery_count": 5, "dead_letter_on_expiration": true,
                "default_time_to_live": "PT1H", "requires_session": false}),
        ),
        (
            "queue show steps",
            json!({"requires_session": true, "lock_duration": "PT1M", "max_delivery_count": 3,
                "default_time_to_live": "PT1H"}),
        ),
        ("queue show audit", json!({"requires_session": false, "max_delivery_count": 3})),
        (
            "topic show events",
            json!({"requires_duplicate_detection": true, "duplicate_detection_window": "PT1M",
                "default_time_to_live": "PT1H"}),
        ),
        ("subscription show events all", json!({"forward_to": "audit", "max_delivery_count": 3})),
        ("subscription show events red", json!({"requires_session": false, "lock_duration": "PT1M"})),
    ];
    for (line, expected) in rows {
        let shown = show(line);
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&shown[key], value, "{line}: {key} in {shown}");
        }
    }
    let rules = run("rule list events red --json");
    let rules: Vec<Value> = rules.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = rules.iter().filter_map(|rule| rule["name"].as_str()).collect();
    assert_eq!(names, ["big", "byLabel"], "by name, and no `$Default`");
    assert!(run("rule list events all --json").contains("$Default"));
    let all = rules.iter().map(Value::to_string).collect::<String>();
    for part in ["\"region\":\"eu\"", "amount > 100 AND sys.Label LIKE 'r%'", "SET priority = 'high'"] {
        assert!(all.contains(part), "{part} in {all}");
    }
    run("send events --body tea --subject red --property region=eu");
    assert!(run("receive events/Subscriptions/red --count 1").contains("tea"));
    assert!(run("receive audit --count 1").contains("tea"), "by way of the subscription `all`");
    assert!(broker.stop().success());
}
