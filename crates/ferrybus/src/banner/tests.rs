use serde_json::Value;

use super::*;

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn banner(key: Option<&str>, is_public: bool, is_emulator: bool) -> Banner {
    Banner { key: key.map(Into::into), is_public, format: LogFormat::Json, is_emulator }
}

#[test]
fn the_connection_string_fits_where_the_broker_listens_and_shows_no_configured_key() {
    let cases = [
        // key, whether it is the development key, amqp, amqps, expected
        (
            Some("RootManageSharedAccessKey"),
            true,
            &["127.0.0.1:5672", "[::1]:5672"][..],
            &[][..],
            "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;\
             UseDevelopmentEmulator=true;",
        ),
        (
            Some("RootManageSharedAccessKey"),
            true,
            &["127.0.0.2:5999"],
            &[],
            "Endpoint=sb://127.0.0.2:5999;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;\
             UseDevelopmentEmulator=true;",
        ),
        (
            Some("app"),
            false,
            &["0.0.0.0:5672"],
            &["0.0.0.0:5671"],
            "Endpoint=sb://localhost;SharedAccessKeyName=app;SharedAccessKey=<the key `app`>;\
             UseDevelopmentEmulator=true;",
        ),
        (
            Some("app"),
            false,
            &[],
            &["[2001:db8::1]:5671"],
            "Endpoint=sb://[2001:db8::1];SharedAccessKeyName=app;SharedAccessKey=<the key `app`>;",
        ),
    ];
    for (key, is_public, amqp, amqps, expected) in cases {
        let banner = banner(key, is_public, false);
        let (amqp, amqps) = (addresses(amqp), addresses(amqps));
        let found = banner.connection_string(Addresses { amqp: &amqp, amqps: &amqps, http: &[] });
        assert_eq!(found, expected);
    }
}

#[test]
fn for_machines_it_is_one_line_of_json() {
    let (amqp, http) = (addresses(&["127.0.0.1:5672", "[::1]:5672"]), addresses(&["127.0.0.1:5300"]));
    let addresses = Addresses { amqp: &amqp, amqps: &[], http: &http };
    for is_emulator in [false, true] {
        let banner = banner(Some(DEVELOPMENT_KEY_NAME), true, is_emulator);
        let line = banner.json(addresses);
        assert!(!line.contains('\n'), "{line}");
        let line: Value = serde_json::from_str(&line).unwrap();
        let message = line["message"].as_str().unwrap();
        assert!(message.starts_with("ferrybus ") && message.contains(" is ready"), "{message}");
        assert_eq!(message.contains(EMULATOR_IS_UP), is_emulator, "{message}");
        assert_eq!(line["amqp"], json!(["127.0.0.1:5672", "[::1]:5672"]));
        assert_eq!((&line["amqps"], &line["http"]), (&json!([]), &json!(["127.0.0.1:5300"])));
        assert_eq!(line["connection_string"], banner.connection_string(addresses));
        assert_eq!((line["level"].as_str(), line["target"].as_str()), (Some("INFO"), Some("ferrybus")));
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    }
}
