use super::*;

fn prefix(text: &str, kind: Option<NodeKind>, is_part_of_name: bool) -> AddressPrefix {
    AddressPrefix { text: text.into(), kind, is_part_of_name }
}

#[test]
fn prefixes_that_contradict_something_are_refused_by_name() {
    use AddressPrefixError as E;
    let queue = Some(NodeKind::Queue);
    let long = "x".repeat(PREFIX_BYTES_MAX);
    let cases = [
        (vec![prefix("", queue, false)], Err(E::Empty("".into()))),
        (vec![prefix("//", queue, false)], Err(E::Empty("//".into()))),
        (vec![prefix(&long, queue, false)], Ok(())),
        (vec![prefix(&format!("{long}x"), queue, false)], Err(E::TooLong(format!("{long}x").into()))),
        (
            vec![prefix("a\n", queue, false)],
            Err(E::Character { text: "a\n".into(), error: NameError::Character('\n') }),
        ),
        (
            vec![prefix("$a", queue, false)],
            Err(E::Taken("$a".into(), "names of nodes of the broker begin with `$`")),
        ),
        (
            vec![prefix("/queues/", queue, false)],
            Err(E::Taken("/queues/".into(), "addresses of RabbitMQ begin so")),
        ),
        (
            vec![prefix("/exchanges/x", queue, false)],
            Err(E::Taken("/exchanges/x".into(), "addresses of RabbitMQ begin so")),
        ),
        (vec![prefix("AMQPS://", queue, false)], Err(E::Taken("AMQPS://".into(), "a URI begins so"))),
        (
            vec![prefix("a.", queue, false), prefix("a.", Some(NodeKind::Topic), false)],
            Err(E::Twice("a.".into())),
        ),
        (vec![prefix("a.", queue, false), prefix("A.", queue, false)], Ok(())),
        (vec![prefix("a.", None, true)], Err(E::NoEffect("a.".into()))),
        (vec![prefix("jms.queue.", None, true)], Ok(())),
        (vec![prefix("a.", None, false)], Ok(())),
        (vec![prefix("/topic/", Some(NodeKind::Topic), false)], Ok(())),
    ];
    for (given, expected) in cases {
        assert_eq!(AddressPrefixes::with(&given).map(drop), expected, "{given:?}");
    }
    let many =
        |count| -> Vec<_> { (0..count).map(|number| prefix(&format!("p{number}."), queue, false)).collect() };
    assert!(AddressPrefixes::with(&many(ADDRESS_PREFIXES_MAX)).is_ok());
    assert_eq!(AddressPrefixes::with(&many(65)), Err(E::TooMany(65)));
}

#[test]
fn the_longest_prefix_counts_and_one_of_the_configuration_replaces_a_built_in_one() {
    let (queue, topic) = (Some(NodeKind::Queue), Some(NodeKind::Topic));
    let given = vec![
        prefix("jms.", queue, false),
        prefix("jms.topic.", topic, false),
        prefix("queue://", None, true),
    ];
    let prefixes = AddressPrefixes::with(&given).unwrap();
    for (address, expected) in [
        ("jms.orders", Some((queue, "orders"))),
        ("jms.topic.news", Some((topic, "news"))),
        ("jms.queue.orders", Some((queue, "jms.queue.orders"))),
        ("queue://orders", Some((None, "queue://orders"))),
        ("topic://news", Some((topic, "news"))),
        ("JMS.orders", None),
        ("orders", None),
    ] {
        let found = prefixes.split(address).map(|(prefix, name)| (prefix.kind, name));
        assert_eq!(found, expected, "{address}");
    }
}
