use std::time::Duration;

use super::*;

const SAMPLE: &str = r#"
// A configuration as users of the emulator have it, comments included.
{
  "UserConfig": {
    "Namespaces": [
      {
        "Name": "sbemulatorns", // the only name the emulator's schema allows
        "Queues": [
          {
            "Name": "orders",
            "Properties": {
              "DeadLetteringOnMessageExpiration": true,
              "DefaultMessageTimeToLive": "PT30M",
              "DuplicateDetectionHistoryTimeWindow": "PT20S",
              "ForwardDeadLetteredMessagesTo": "",
              "ForwardTo": "",
              "LockDuration": "PT30S",
              "MaxDeliveryCount": 5,
              "RequiresDuplicateDetection": false,
              "RequiresSession": false,
            },
          },
          { "Name": "steps", "Properties": { "RequiresSession": true } },
          { "Name": "audit", "Properties": {} },
          { "Name": "bare" },
          { "Name": "ever", "Properties": { "DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S", "LokDuration": "PT1M" } },
        ],
        "Topics": [
          { "Name": "events", "Properties": {}, "Subscriptions": [ { "Name": "all", "Properties": { "ForwardTo": "// not a comment" } } ] },
        ],
      }
    ],
    "Logging": { "Type": "Console" }
  }
}
"#;

/// The only namespace of a file.
pub(super) fn only(text: &str) -> Result<EmulatorNamespace, InvalidConfig> {
    let namespaces = parse(text)?.namespaces;
    let [namespace] = <[_; 1]>::try_from(namespaces).unwrap();
    Ok(namespace)
}

fn emulator_default() -> EntitySettings {
    EntitySettings {
        max_delivery_count: 3,
        default_time_to_live: Some(Duration::from_secs(3_600)),
        duplicate_detection_window: Duration::from_secs(20),
        ..EntitySettings::default()
    }
}

#[test]
fn a_users_file_is_read_as_it_is() {
    let emulator = only(SAMPLE).unwrap();
    let names: Vec<_> = emulator.queues.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["orders", "steps", "audit", "bare", "ever"]);
    let settings = |at: usize| emulator.queues[at].1.clone();
    assert_eq!(
        settings(0),
        EntitySettings {
            lock_duration: Duration::from_secs(30),
            max_delivery_count: 5,
            default_time_to_live: Some(Duration::from_secs(1_800)),
            dead_letter_on_expiration: true,
            duplicate_detection_window: Duration::from_secs(20),
            ..EntitySettings::default()
        }
    );
    assert_eq!(settings(1), EntitySettings { requires_session: true, ..emulator_default() });
    assert_eq!(settings(2), emulator_default());
    assert_eq!(settings(3), emulator_default());
    assert_eq!(settings(4), EntitySettings { default_time_to_live: None, ..emulator_default() });
}

#[test]
fn what_is_not_done_is_said() {
    assert_eq!(
        only(SAMPLE).unwrap().notices,
        ["queue `ever`: unknown property `LokDuration` is ignored, did you mean `LockDuration`?",]
    );
}

#[test]
fn keys_that_the_schema_lacks_are_named() {
    let text = r#"{"$schema":"s","UserConfg":1,"UserConfig":{"Loging":{},"Logging":{"Type":"File"},"Namespaces":[
        {"Name":"n","Queus":[],"Queues":[{"Name":"q","Propertys":{"RequiresSession":true}},{"Name":"p","x":null}]},
        {"Name":"m","Topic":[]}]}}"#;
    let read = parse(text).unwrap();
    assert_eq!(
        read.notices,
        [
            "the file: unknown key `UserConfg` is ignored, did you mean `UserConfig`?",
            "`UserConfig`: unknown key `Loging` is ignored, did you mean `Logging`?",
        ]
    );
    assert_eq!(
        read.namespaces[0].notices,
        [
            "`Namespaces[0]`: unknown key `Queus` is ignored, did you mean `Queues`?",
            "queue `q`: unknown key `Propertys` is ignored, did you mean `Properties`?",
            "queue `p`: unknown key `x` is ignored",
        ]
    );
    assert_eq!(
        read.namespaces[1].notices,
        ["`Namespaces[1]`: unknown key `Topic` is ignored, did you mean `Topics`?"]
    );
    assert_eq!(parse(SAMPLE).unwrap().notices, Vec::<String>::new());
}

#[test]
fn files_that_are_done_in_full_bring_no_notice() {
    let files = [
        include_str!("../../tests/it/sample-config.json"),
        include_str!("../../../../docs/packages/Config.json"),
    ];
    for text in files {
        let read = parse(text).unwrap();
        let notices = read.namespaces.iter().flat_map(|namespace| &namespace.notices).chain(&read.notices);
        assert_eq!(notices.collect::<Vec<_>>(), Vec::<&String>::new(), "{text}");
    }
}

#[test]
fn a_duplicate_window_that_is_raised_is_named() {
    let raised = |entity: &str, found: &str| {
        vec![format!(
            "{entity}: `DuplicateDetectionHistoryTimeWindow` is \"{found}\", and `PT20S` is taken, the shortest there is"
        )]
    };
    let cases = [("PT5S", 20, true), ("PT19S", 20, true), ("PT20S", 20, false), ("PT21S", 21, false)];
    for (window, seconds, is_raised) in cases {
        let text = format!(
            r#"{{"UserConfig":{{"Namespaces":[{{"Name":"n",
            "Queues":[{{"Name":"q","Properties":{{"DuplicateDetectionHistoryTimeWindow":"{window}"}}}}]}}]}}}}"#
        );
        for (entity, text) in [("queue `q`", text.clone()), ("topic `q`", text.replace("Queues", "Topics"))] {
            let read = only(&text).unwrap();
            let of_queue = read.queues.first().map(|(_, settings)| settings);
            let settings = of_queue.unwrap_or_else(|| &read.topics[0].settings);
            assert_eq!(
                settings.duplicate_detection_window,
                Duration::from_secs(seconds),
                "{entity} {window}"
            );
            let expected = if is_raised { raised(entity, window) } else { Vec::new() };
            assert_eq!(read.notices, expected, "{entity} {window}");
        }
    }
}

#[test]
fn duplicate_detection_and_forwarding_are_read() {
    let text = r#"{"UserConfig":{"Namespaces":[{"Name":"n","Queues":[{"Name":"q","Properties":{
        "RequiresDuplicateDetection":true,"DuplicateDetectionHistoryTimeWindow":"P7D",
        "ForwardTo":"a","ForwardDeadLetteredMessagesTo":"b"}}]}]}}"#;
    let emulator = only(text).unwrap();
    let expected = EntitySettings {
        requires_duplicate_detection: true,
        duplicate_detection_window: Duration::from_secs(604_800),
        forward_to: Some("a".into()),
        forward_dead_lettered_to: Some("b".into()),
        ..emulator_default()
    };
    assert_eq!(emulator.queues, [("q".to_owned(), expected)]);
    assert_eq!(emulator.notices, Vec::<String>::new());
}

#[test]
fn faults_are_named_with_their_place() {
    let with =
        |queue: &str| format!(r#"{{"UserConfig":{{"Namespaces":[{{"Name":"n","Queues":[{queue}]}}]}}}}"#);
    let property = |property: &str| with(&format!(r#"{{"Name":"q","Properties":{{{property}}}}}"#));
    let cases = [
        ("{}".into(), "`UserConfig` is missing"),
        (r#"{"UserConfig":{}}"#.into(), "`UserConfig.Namespaces` is missing"),
        (
            r#"{"UserConfig":{"Namespaces":[]}}"#.into(),
            "`UserConfig.Namespaces` has 0 entries, expected 1 or more",
        ),
        (r#"{"UserConfig":{"Namespaces":[{"Queues":7}]}}"#.into(), "`Queues` is not a list"),
        (with(r#"{"name":"q"}"#), "`Queues[0].Name` is missing or not a text"),
        (with(r#"{"Name":"q","Properties":[]}"#), "`Properties` of queue `q` is not an object"),
        (
            property(r#""DuplicateDetectionHistoryTimeWindow":"P8D""#),
            "queue `q`: `DuplicateDetectionHistoryTimeWindow` is \"P8D\", expected a duration up to `P7D`",
        ),
        (property(r#""ForwardTo":7"#), "queue `q`: `ForwardTo` is 7, expected the name of a queue or topic"),
        (
            property(r#""LockDuration":"30s""#),
            "queue `q`: `LockDuration` is \"30s\", expected an ISO 8601 duration such as `PT1M`",
        ),
        (
            property(r#""LockDuration":"PT6M""#),
            "queue `q`: `LockDuration` is \"PT6M\", expected a duration above zero and up to `PT5M`",
        ),
        (property(r#""MaxDeliveryCount":0"#), "queue `q`: `MaxDeliveryCount` is 0, expected 1 or more"),
        (property(r#""MaxDeliveryCount":"3""#), "queue `q`: `MaxDeliveryCount` is \"3\", expected 1 or more"),
        (
            property(r#""RequiresSession":"yes""#),
            "queue `q`: `RequiresSession` is \"yes\", expected true or false",
        ),
        ("{\n /* oh".into(), "Unterminated comment block on line 2 column 2"),
    ];
    for (text, expected) in cases {
        assert_eq!(only(&text).unwrap_err(), InvalidConfig(expected.into()), "{text}");
    }
    let bad_name = parse(&with(r#"{"Name":"-q"}"#)).unwrap_err();
    assert!(bad_name.0.starts_with("`-q` cannot be the name of a queue"), "{bad_name:?}");
    let no_json = parse("{\n  \"UserConfig\": oops }").unwrap_err();
    assert!(no_json.0.contains("line 2"), "{no_json:?}");
}

#[test]
fn beyond_json_only_comments_and_trailing_commas_are_taken() {
    for text in [
        "{'a': 1}",
        "{a: 1}",
        "{\"a\": 1 \"b\": 2}",
        "{\"a\": 0x1}",
        "{\"a\": +1}",
        "{\"a\": .5}",
        "[1,,]",
        "[NaN]",
    ] {
        let refused = parse(text).unwrap_err();
        assert!(refused.0.contains("on line 1 column"), "{text}: {refused:?}");
    }
    // With a byte order mark, as editors on Windows write it.
    let read = parse("\u{feff}{ \"a\": [1, /* , */ ], \"b\": \"// ,]\", }").unwrap_err();
    assert_eq!(read, InvalidConfig("`UserConfig` is missing".into()));
}

#[test]
fn each_namespace_of_the_file_has_its_own_entities() {
    let text = r#"{"UserConfig":{"Namespaces":[
        {"Name":"sbemulatorns","Queues":[{"Name":"orders"}]},
        {"Name":"team-a","Queues":[{"Name":"orders","Properties":{"RequiresSession":true}}],"Topics":[{"Name":"events"}]},
        {"Queues":[{"Name":"q","Properties":{"LokDuration":"PT1M"}}]}]}}"#;
    let namespaces = parse(text).unwrap().namespaces;
    let names: Vec<_> = namespaces.iter().map(|namespace| namespace.name.as_deref()).collect();
    assert_eq!(names, [Some("sbemulatorns"), Some("team-a"), None]);
    let sessions: Vec<bool> = namespaces.iter().map(|it| it.queues[0].1.requires_session).collect();
    assert_eq!(sessions, [false, true, false]);
    let topics: Vec<usize> = namespaces.iter().map(|namespace| namespace.topics.len()).collect();
    assert_eq!(topics, [0, 1, 0]);
    assert!(namespaces[0].notices.is_empty() && namespaces[2].notices.len() == 1);
    let bad = parse(&text.replace(r#""RequiresSession":true"#, r#""MaxDeliveryCount":0"#)).unwrap_err();
    assert_eq!(bad.0, "`Namespaces[1]`: queue `orders`: `MaxDeliveryCount` is 0, expected 1 or more");
}
