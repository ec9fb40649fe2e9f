use proptest::prelude::*;

use super::*;

fn key() -> Login {
    Login::Key { name: "n".into(), key: "k==".into() }
}

#[test]
fn strings_are_read_as_the_sdks_read_them() {
    let login = "SharedAccessKeyName=n;SharedAccessKey=k==";
    let cases = [
        // endpoint and rest, host, port, tls
        ("Endpoint=sb://localhost;UseDevelopmentEmulator=true;", "localhost", 5672, false),
        ("endpoint=sb://localhost:15672/;usedevelopmentemulator=TRUE", "localhost", 15672, false),
        ("Endpoint=sb://ns.servicebus.windows.net/", "ns.servicebus.windows.net", 5671, true),
        ("Endpoint=sb://host:5677;UseDevelopmentEmulator=false", "host", 5677, true),
        ("Endpoint=amqp://[::1]:5000", "::1", 5000, false),
        ("Endpoint=amqps://[::1]", "::1", 5671, true),
        (" Endpoint = amqp://10.0.0.1 ", "10.0.0.1", 5672, false),
    ];
    for (text, host, port, tls) in cases {
        let expected = ConnectionString { host: host.into(), port, tls, login: key(), entity: None };
        assert_eq!(format!("{text};{login}").parse::<ConnectionString>().unwrap(), expected, "{text}");
    }
}

#[test]
fn log_ins_are_told_apart() {
    let parse = |rest: &str| format!("Endpoint=amqp://h;{rest}").parse::<ConnectionString>();
    assert_eq!(parse("").unwrap().login, Login::Anonymous);
    let token = "SharedAccessSignature sr=a&sig=b%3D&se=7&skn=k";
    assert_eq!(parse(&format!("SharedAccessSignature={token}")).unwrap().login, Login::Token(token.into()));
    let entity = parse("SharedAccessKeyName=n;SharedAccessKey=k==;EntityPath=orders").unwrap();
    assert_eq!((entity.login, entity.entity.as_deref()), (key(), Some("orders")));
}

#[test]
fn faults_are_named() {
    let cases = [
        ("", "error: the connection string has no `Endpoint`"),
        ("nonsense", "error: the connection string has a part without `=`"),
        (
            "Endpoint=sb://h;SharedAccesKey=k",
            "error: the connection string has an unknown key `SharedAccesKey`\nhint: did you mean `SharedAccessKey`?",
        ),
        ("Endpoint=sb://h;Endpoint=sb://i", "error: the connection string has `Endpoint` twice"),
        (
            "Endpoint=sb://h;SharedAccessKeyName=n",
            "error: the connection string has only half of a log-in\nhint: expected both `SharedAccessKeyName` and \
             `SharedAccessKey`, or `SharedAccessSignature` alone",
        ),
        (
            "Endpoint=http://h",
            "error: the connection string has the endpoint `http://h`\nhint: expected `sb://host`, `sb://host:port`, \
             `amqp://host` or `amqps://host`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse::<ConnectionString>().unwrap_err().to_string(), expected, "{text}");
    }
    for endpoint in ["sb://", "sb://h:x", "sb://h:99999", "h", "sb://h/q"] {
        assert!(format!("Endpoint={endpoint}").parse::<ConnectionString>().is_err(), "{endpoint}");
    }
}

#[test]
fn the_development_string_is_the_emulators() {
    assert_eq!(
        development(5672),
        "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;\
         UseDevelopmentEmulator=true;"
    );
    let other = development(5999).parse::<ConnectionString>().unwrap();
    assert_eq!((other.port, other.tls), (5999, false));
}

#[test]
fn the_key_does_not_show_in_debug_texts() {
    let text =
        "Endpoint=sb://h;SharedAccessKeyName=n;SharedAccessKey=hush".parse::<ConnectionString>().unwrap();
    assert!(!format!("{text:?}").contains("hush"));
}

proptest! {
    #[test]
    fn reading_never_panics(text in "(Endpoint=)?(sb://)?\\PC{0,40}") {
        let _string = text.parse::<ConnectionString>();
    }
}
