use super::*;

#[test]
fn an_origin_is_the_hosts_own_or_another() {
    let cases = [
        // origin, host, the same, the same but for the port
        ("http://localhost:5300", "localhost:5300", true, true),
        ("http://LOCALHOST:5300", "localhost:5300", true, true),
        ("https://localhost", "localhost:443", true, true),
        ("http://bus", "bus", true, true),
        ("http://localhost:3000", "localhost:5300", false, true),
        ("https://localhost", "localhost:5671", false, true),
        ("http://[::1]:3000", "[::1]:5300", false, true),
        ("http://127.0.0.1:5300", "localhost:5300", false, false),
        ("https://evil.example", "localhost:5300", false, false),
        ("http://localhost.evil.example", "localhost", false, false),
        ("null", "localhost:5300", false, false),
        ("", "localhost:5300", false, false),
        ("http://localhost", "", false, false),
        ("http://", "localhost", false, false),
        ("http://a\\localhost", "localhost", false, false),
    ];
    for (origin, host, same, same_host) in cases {
        assert_eq!(is_of(origin, host, false), same, "{origin} {host}");
        assert_eq!(is_of(origin, host, true), same_host, "{origin} {host}");
    }
}

#[test]
fn a_host_is_ours_if_nobody_else_can_have_its_name() {
    let names = HostNames::from_iter(["broker.example.org", "*.bus.example.org"]);
    let cases = [
        ("localhost:5300", true),
        ("LocalHost", true),
        ("127.0.0.1:5300", true),
        ("192.168.1.5", true),
        ("[::1]:5300", true),
        ("a.localhost", true),
        // The service names of containers and of a local network.
        ("servicebus-emulator:5300", true),
        ("sb_emulator", true),
        ("host.docker.internal:5300", true),
        ("bus.default.svc", true),
        ("bus.default.svc.cluster.local", true),
        ("printer.home.arpa", true),
        ("broker.example.org:443", true),
        ("a.bus.example.org", true),
        ("evil.example", false),
        ("evil.example.:5300", false),
        ("127.0.0.1.evil.example", false),
        ("localhost.evil.example", false),
        ("evil.arpa", false),
        ("broker.example.org.evil.example", false),
        ("", false),
        (":5300", false),
        ("a b", false),
    ];
    for (host, ours) in cases {
        assert_eq!(is_ours(host, &names), ours, "{host}");
    }
}

#[test]
fn methods_that_change_something_are_told_from_those_that_read() {
    for (method, safe) in [
        ("GET", true),
        ("HEAD", true),
        ("OPTIONS", true),
        ("PUT", false),
        ("POST", false),
        ("DELETE", false),
        ("PATCH", false),
        ("WHATEVER", false),
    ] {
        assert_eq!(is_safe(&method.parse().unwrap()), safe, "{method}");
    }
}
