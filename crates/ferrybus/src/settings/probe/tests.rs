use super::*;

#[test]
fn a_probe_asks_where_the_broker_listens() {
    let cases = [
        // settings, host, port, tls
        ("listen = [\"127.0.0.1\"]", "127.0.0.1", 5300, false),
        ("listen = [\"127.0.0.1:7000\"]", "127.0.0.1", 7000, false),
        ("listen = [\"[::]:5672\"]\nlisten_http = [\"[::]:5300\"]", "localhost", 5300, false),
        ("listen = [\":7000\"]", "localhost", 7000, false),
        ("listen = [\"127.0.0.2:7000\"]\nlisten_http = [\"[::1]:80\"]", "::1", 80, false),
        ("listen = [\"127.0.0.1:0\"]\nlisten_http = [\"127.0.0.1:90\"]", "127.0.0.1", 90, false),
        (
            "listen = []\nlisten_tls = [\"0.0.0.0:5671\"]\n[tls]\ncertificate = \"c\"\nkey = \"k\"",
            "localhost",
            5671,
            true,
        ),
        ("listen = [\":5672\"]\n[tls]\ncertificate = \"c\"\nkey = \"k\"", "localhost", 5300, false),
    ];
    for (text, host, port, tls) in cases {
        let found = address_of(&Settings::parse(text, "f").unwrap()).unwrap();
        assert_eq!(found, ProbeAddress { host: host.into(), port, tls }, "{text}");
    }
    let unknown = address_of(&Settings::parse("listen = [\"127.0.0.1:0\"]", "f").unwrap()).unwrap_err();
    assert!(unknown.to_string().contains("no port that can be asked"), "{unknown}");
    let mut moved = Settings::parse("listen = [\":5672\"]", "f").unwrap();
    moved.variables.http_port = Some(5301);
    assert_eq!(address_of(&moved).unwrap().port, 5301);
}
