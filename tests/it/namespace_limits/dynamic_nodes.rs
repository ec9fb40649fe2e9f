//! Dynamic nodes at `max_entities` of their namespace: each is an entity, and so is the subscription of a topic's receiver.

use amqp_codec::types::Symbol;

use super::*;
use crate::team::until;

/// An attach that asks for a node of this kind.
fn wanted(role: Role, handle: u32, kind: &'static str) -> Attach {
    let mut attach = Attach::new(format!("dynamic-{handle}"), handle, role);
    let capabilities = vec![Symbol::from_static(kind)];
    let source = Source { dynamic: true, capabilities: capabilities.clone(), ..Source::default() };
    let target = TargetTerminus { dynamic: true, capabilities, ..TargetTerminus::default() };
    if role == Role::Receiver {
        (attach.source, attach.target) = (Some(source), Some(Target::new("here")));
    } else {
        (attach.source, attach.target) = (Some(Source::new("here")), Some(Target::Terminus(target)));
        attach.initial_delivery_count = Some(0);
    }
    attach
}

/// Demands that the broker says which limit is reached.
fn says_full(answer: Result<(), Refused>, limit: u64, case: &str) {
    let (told, text) = answer.expect_err(case);
    assert!([REFUSED, "403"].contains(&&*told), "{case}: {told} {text}");
    assert!(text.contains(&format!("limit of {limit} entities is reached")), "{case}: {told} {text}");
    assert!(told != "403" || text.contains("SubCode=40300"), "{case}: {text}");
}

#[test]
fn a_dynamic_node_beyond_the_limit_of_entities_is_refused_until_another_entity_is_gone() {
    let ways = [
        // The link that asks, the kind of the node, and the entities that both are.
        ("a receiver of a queue", Role::Receiver, "temporary-queue", 1),
        ("a sender to a queue", Role::Sender, "temporary-queue", 1),
        ("a sender to a topic", Role::Sender, "temporary-topic", 1),
        ("a receiver of a topic", Role::Receiver, "temporary-topic", 2),
    ];
    for (case, role, kind, size) in ways {
        let broker = broker();
        let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
        let figures = || {
            let dynamic = ["", "_created_total", "_refused_total"];
            let dynamic = dynamic.map(|ending| team.metric(&format!("dynamic_nodes{ending}")).unwrap());
            (team.usage("entities"), team.metric("entities").unwrap(), dynamic)
        };
        let mut client = team.plain();
        for handle in [1, 2] {
            assert_eq!(attach(&mut client, 0, wanted(role, handle, kind)), Ok(()), "{case}");
        }
        let full = 2 * size;
        // Where a node is two entities, room for one is too little.
        for limit in (full..full + size).rev() {
            team.limit(&json!({ "max_entities": limit }));
            says_full(attach(&mut client, 0, wanted(role, 3, kind)), limit, case);
            client.wire.script.detach(0, 3, true);
            says_full(attach(&mut team.plain(), 0, wanted(role, 1, kind)), limit, case);
            let (listed, shown, dynamic) = figures();
            assert_eq!((listed, shown, dynamic[0], dynamic[2]), (full, full, 2, 0), "{case}");
        }
        // Entities of other kinds find no room either.
        says_full(put(&team, "QueueDescription", "beyond"), full, case);
        says_full(plain_attach(&team, Role::Sender, "beyond"), full, case);
        for (name, dialect) in SERVICE_BUS {
            says_full(sdk_attach(&team, dialect, "beyond"), full, &format!("{case}, {name}"));
        }
        assert_eq!(attach(&mut other.plain(), 0, wanted(role, 1, kind)), Ok(()), "another namespace: {case}");
        client.wire.script.detach(0, 1, true);
        client.wire.detached().unwrap();
        until(|| figures().0 == full - size);
        assert_eq!(put(&team, "QueueDescription", "last"), Ok(()), "room for a queue: {case}");
        if size == 1 {
            says_full(attach(&mut client, 0, wanted(role, 4, kind)), full, case);
            client.wire.script.detach(0, 4, true);
        }
        assert_eq!(team.ask("DELETE /last", "").0, 200, "{case}");
        assert_eq!(attach(&mut client, 0, wanted(role, 5, kind)), Ok(()), "room again: {case}");
        client.close();
        until(|| (figures().0, figures().2[0]) == (0, 0));
    }
}
