use super::*;

#[test]
fn a_namespace_is_called_like_the_host_that_was_asked() {
    let hosts = [
        ("", "localhost"),
        ("a b", "localhost"),
        ("localhost:5300", "localhost"),
        ("10.0.0.1:5300", "10.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:5300", "::1"),
        ("[fe80::1]", "fe80::1"),
        ("::1", "::1"),
        ("[", "localhost"),
        ("[x]:1", "x"),
        (":5300", "5300"),
        ("x.servicebus.net", "x"),
    ];
    for (authority, name) in hosts {
        assert_eq!(Host::new(false, authority).namespace(), name, "{authority}");
    }
}
