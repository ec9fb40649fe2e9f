use proptest::prelude::*;

use super::*;

#[test]
fn a_host_name_has_one_form_without_port_path_and_final_dot() {
    let label = "l".repeat(63);
    let longest = [&*label, &label, &label, &label[..61]].join(".");
    let cases = [
        ("localhost", Some("localhost")),
        ("LocalHost", Some("localhost")),
        ("host.example.", Some("host.example")),
        ("host.example:5672", Some("host.example")),
        ("host.example.:5672", Some("host.example")),
        ("host.example:", Some("host.example")),
        ("host.example/$servicebus/websocket", Some("host.example")),
        ("host.example:443/$servicebus/websocket", Some("host.example")),
        ("my_container", Some("my_container")),
        ("bücher.example", Some("xn--bcher-kva.example")),
        ("BÜCHER.example:5671", Some("xn--bcher-kva.example")),
        ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
        ("XN--BCHER-KVA.example", Some("xn--bcher-kva.example")),
        // The full stop of Chinese and Japanese stands between labels too.
        ("例え。テスト", Some("xn--r8jz45g.xn--zckzah")),
        ("127.0.0.1", Some("127.0.0.1")),
        ("127.0.0.1:5672", Some("127.0.0.1")),
        ("[::1]", Some("::1")),
        ("[::1]:5672", Some("::1")),
        ("::1", Some("::1")),
        ("2001:DB8:0:0::7", Some("2001:db8::7")),
        (&*longest, Some(&*longest)),
        ("", None),
        (".", None),
        ("..", None),
        ("a..b", None),
        (".a", None),
        ("a.b..", None),
        ("a b", None),
        ("a:b", None),
        ("a:1:2", None),
        ("a:65536", None),
        ("a:+1", None),
        (":5672", None),
        ("/", None),
        ("[::1", None),
        ("[::1]x", None),
        ("[::1]:x", None),
        ("[127.0.0.1]", None),
        ("[host]", None),
        ("amqp://host", None),
        ("user@host", None),
        ("a\u{0}b", None),
        ("ä\u{ad}..x", None),
    ];
    for (text, expected) in cases {
        let found = HostName::parse(text);
        assert_eq!(found.as_ref().ok().map(HostName::as_str), expected, "{text:?}");
    }
    for text in [format!("{label}l.example"), format!("{longest}l"), format!("{}.example", "ü".repeat(80))] {
        assert_eq!(HostName::parse(&text), Err(HostNameError(text.clone())));
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_the_form_of_a_host_is_stable(text in any::<String>()) {
        for text in [text.clone(), format!("[{text}]:1"), format!("a.{text}"), format!("{text}.example")] {
            let _sign = HostSign::parse(&text);
            if let Ok(host) = HostName::parse(&text) {
                prop_assert!(host.as_str().is_ascii() && host.as_str().len() <= NAME_BYTES_MAX);
                prop_assert_eq!(HostName::parse(host.as_str()), Ok(host));
            }
        }
    }
}
