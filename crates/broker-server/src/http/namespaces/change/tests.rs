use broker_core::{QuotaError, namespace_key};

use super::*;

#[test]
fn each_refusal_of_a_shard_has_its_status_and_keeps_its_text() {
    let name = || -> Box<str> { "team-a".into() };
    let no_name = namespace_key("a/b").unwrap_err();
    let cases = [
        (NamespaceError::Name(no_name), 400),
        (NamespaceError::Default, 400),
        (NamespaceError::AlreadyExists(name()), 412),
        (NamespaceError::Deleting(name()), 409),
        (NamespaceError::Hostname { hostname: "a.test".into(), namespace: name() }, 409),
        (NamespaceError::Full { limit: 65_536 }, 507),
        (NamespaceError::TooManyKeys { namespace: name(), limit: 12 }, 507),
        (NamespaceError::QuotaExceeded(QuotaError::Memory), 507),
    ];
    for (error, status) in cases {
        let text = error.to_string();
        let refusal = refusal(error);
        assert_eq!((refusal.status().as_u16(), refusal.to_string()), (status, text));
    }
    let missing = [
        (NamespaceError::NotFound(name()), "/$ferrybus/namespaces/team-a"),
        (
            NamespaceError::NoKey { namespace: name(), key: "app".into() },
            "/$ferrybus/namespaces/team-a/keys/app",
        ),
    ];
    for (error, path) in missing {
        let refusal = refusal(error);
        assert_eq!(refusal.status().as_u16(), 404);
        assert!(refusal.to_string().contains(&format!("`{path}`")), "{refusal}");
    }
}
