use super::*;

fn read(text: &str, before: Option<&NamespaceSettings>) -> Result<NamespaceSettings, String> {
    let body = serde_json::from_str(text).map_err(|error| error.to_string())?;
    settings(body, before).map_err(|refusal| refusal.to_string())
}

#[test]
fn a_body_gives_all_settings_and_keeps_a_hold_that_it_does_not_name() {
    let held = NamespaceSettings { held: true, weight: 9, ..NamespaceSettings::default() };
    assert_eq!(read("{}", None), Ok(NamespaceSettings::default()));
    assert!(read("{}", Some(&held)).unwrap().held);
    assert!(!read(r#"{"held":false}"#, Some(&held)).unwrap().held);
    let all = r#"{"hostnames":["A.Example:5672"],"weight":3,"held":true,
        "limits":{"max_entities":1,"max_bytes":2048,"max_connections":null}}"#;
    let found = read(all, None).unwrap();
    assert_eq!((&*found.hostnames[0], found.weight, found.held), ("a.example", 3, true));
    let limits = NamespaceLimit::ALL.map(|limit| found.limits.get(limit));
    assert_eq!(limits, [Some(1), Some(2_048), None, None, None, None]);
}

#[test]
fn a_body_that_makes_no_sense_is_refused_with_the_reason() {
    let cases = [
        (r#"{"weight":0}"#, "`weight`"),
        (r#"{"hostnames":["a b"]}"#, "no host name"),
        (r#"{"limits":{"max_queues":1}}"#, "`max_queues` is no limit"),
        (r#"{"limits":{"max_bytes":-1}}"#, "`max_bytes` has to be a number"),
        (r#"{"limits":{"max_bytes":"1 GiB"}}"#, "`max_bytes` has to be a number"),
        (r#"{"hold":true}"#, "unknown field `hold`"),
    ];
    for (body, reason) in cases {
        let error = read(body, None).unwrap_err();
        assert!(error.contains(reason), "{body}: {error}");
    }
}
