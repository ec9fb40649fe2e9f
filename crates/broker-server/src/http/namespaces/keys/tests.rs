use super::*;

#[test]
fn rights_are_named_in_any_case_and_counted_once() {
    let rights = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        rights_of(&words).map_err(|refusal| refusal.to_string())
    };
    assert_eq!(rights(&["send", "Listen", "send"]), Ok(vec![AccessRight::Send, AccessRight::Listen]));
    assert!(rights(&[]).unwrap_err().contains("at least one"));
    assert!(rights(&["write"]).unwrap_err().contains("`write` is no right"));
}

#[test]
fn a_connection_string_names_a_host_that_leads_to_the_namespace_and_the_port_of_amqp() {
    let cases = [
        // name, hostname, host of the request, with TLS, expected
        ("team-a", None, "localhost:5672", false, "team-a.localhost"),
        ("team-a", None, "localhost", false, "team-a.localhost"),
        ("team-a", None, "localhost:5999", false, "team-a.localhost:5999"),
        ("team-a", None, "bus.example:5671", true, "team-a.bus.example"),
        ("team-a", None, "bus.example:5672", true, "team-a.bus.example:5672"),
        ("team-a", None, "bus.example:5300", false, "team-a.bus.example"),
        ("team-a", None, "127.0.0.1:5999", false, "team-a.localhost:5999"),
        ("team-a", None, "[::1]:5999", false, "team-a.localhost:5999"),
        ("team-a", None, "10.0.0.7:5999", false, "team-a:5999"),
        ("team-a", Some("orders.example"), "10.0.0.7:5999", false, "orders.example:5999"),
        ("default", None, "bus.example:5999", false, "bus.example:5999"),
        ("default", None, "[::1]", false, "[::1]"),
        ("team-a", None, "", false, "team-a.localhost"),
    ];
    for (name, hostname, host, tls, expected) in cases {
        assert_eq!(endpoint((name, hostname), host, tls), expected, "{name} {hostname:?} {host:?}");
    }
}
