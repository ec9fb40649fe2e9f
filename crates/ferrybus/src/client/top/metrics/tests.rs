use proptest::prelude::*;

use super::*;

#[test]
fn entities_are_read_and_everything_else_is_passed_over() {
    let text = "# HELP ferrybus_entity_messages Messages\n# TYPE ferrybus_entity_messages gauge\n\
        ferrybus_entity_messages{entity=\"orders\",kind=\"queue\",state=\"active\"} 12\n\
        ferrybus_entity_messages{state=\"dead_letter\", kind=\"queue\",entity=\"orders\",} 3 1700000000000\n\
        ferrybus_entity_messages{entity=\"orders\",kind=\"queue\",state=\"novel\"} 9\n\
        ferrybus_entity_incoming_messages_total{entity=\"orders\",kind=\"queue\"} 1e3\n\
        ferrybus_entity_outgoing_messages_total{entity=\"orders\",kind=\"queue\"} 900.0\n\
        ferrybus_entity_oldest_message_age_seconds{entity=\"orders\",kind=\"queue\"} 1.5\n\
        ferrybus_entity_oldest_message_age_seconds{entity=\"empty\",kind=\"queue\"} NaN\n\
        ferrybus_journal_bytes 5\nferrybus_entity_messages 5\nferrybus_entity_messages{entity=\"x} 5\n\n{} 1\n";
    let all = read(text);
    assert_eq!(all.len(), 2);
    let orders = &all[&("orders".to_owned(), "queue".to_owned())];
    let expected = EntityMetrics {
        active: 12,
        dead_letter: 3,
        incoming: 1_000.0,
        outgoing: 900.0,
        oldest_age: Some(1.5),
        ..EntityMetrics::default()
    };
    assert_eq!(*orders, expected);
    assert_eq!(all[&("empty".to_owned(), "queue".to_owned())].oldest_age, None);
}

#[test]
fn entities_of_one_name_in_two_namespaces_are_told_apart() {
    let line = |namespace: &str, count: u32| {
        format!(
            "ferrybus_entity_messages{{namespace=\"{namespace}\",entity=\"orders\",kind=\"queue\",state=\"active\"}} {count}\n"
        )
    };
    let all = read(&(line("default", 1) + &line("team-a", 2)));
    let active = |name: &str| all[&(name.to_owned(), "queue".to_owned())].active;
    assert_eq!((all.len(), active("orders"), active("team-a: orders")), (2, 1, 2));
}

#[test]
fn a_broker_that_leaves_entities_out_says_so() {
    for (text, expected) in
        [("ferrybus_entities_left_out 1\n", true), ("ferrybus_entities_left_out 0\n", false), ("", false)]
    {
        assert_eq!(leaves_out(text), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn any_name_comes_out_as_it_went_in(name in "[^\r\n]{1,20}") {
        let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!("ferrybus_entity_messages{{entity=\"{escaped}\",kind=\"queue\",state=\"locked\"}} 1\n");
        let all = read(&text);
        prop_assert_eq!(all.get(&(name, "queue".to_owned())).map(|reading| reading.locked), Some(1));
    }

    #[test]
    fn no_text_panics(text in "(ferrybus_entity_messages|x)?[{}\"\\\\=, a-z0-9.\n]{0,60}") {
        read(&text);
    }
}
