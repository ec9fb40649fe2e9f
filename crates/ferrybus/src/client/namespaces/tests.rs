use broker_core::NamespaceLimit;

use super::*;

#[test]
fn a_change_keeps_all_that_is_not_given() {
    let found = json!({
        "name": "team-a", "state": "held", "hostnames": ["a.example"], "weight": 3,
        "limits": { "max_entities": 1000, "max_bytes": null, "max_connections": 500 }
    });
    let before = SettingsBody::read(&found);
    let limits = json!({
        "max_entities": 1000, "max_bytes": null, "max_connections": 500, "max_in_flight_bytes": null,
        "max_remembered_ids": null, "max_sends_per_second": null
    });
    assert_eq!(
        before.to_json(),
        json!({ "hostnames": ["a.example"], "weight": 3, "held": true, "limits": limits })
    );
    let mut after = before.clone();
    let given = NamespaceArguments {
        limits: vec![(NamespaceLimit::Bytes, Some(10 << 30)), (NamespaceLimit::Connections, None)],
        ..NamespaceArguments::default()
    };
    after.change(&given, Some(false));
    assert_eq!(
        before.differences(&after),
        ["held  yes -> no", "max_bytes  none -> 10 GiB", "max_connections  500 -> none"]
    );
    assert!(after.differences(&after).is_empty());
}

#[test]
fn sizes_that_a_unit_would_round_are_told_apart() {
    let with = |bytes: u64| {
        let mut body = SettingsBody::default();
        let limits = vec![(NamespaceLimit::Bytes, Some(bytes))];
        body.change(&NamespaceArguments { limits, ..NamespaceArguments::default() }, None);
        body
    };
    assert_eq!(with(1_000_000).differences(&with(1_000_001)), ["max_bytes  1000000 B -> 1000001 B"]);
}

#[test]
fn names_that_the_broker_would_not_take_are_refused_before_it_is_asked() {
    assert_eq!(path("Team-A").unwrap(), "/$ferrybus/namespaces/Team-A");
    assert_eq!(key_path("a", "Root key/1").unwrap(), "/$ferrybus/namespaces/a/keys/Root%20key%2F1");
    for bad in ["", "a/b", "a.b", "../x", "-a"] {
        let refused = path(bad).unwrap_err().to_string();
        assert!(refused.contains(&format!("`{bad}` cannot be the name of a namespace")), "{refused}");
    }
    assert!(key_path("a", "").is_err());
}
