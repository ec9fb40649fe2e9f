//! The real binary: what it prints, where, and what it exits with.

use std::fs;

use crate::support::{Folder, code, ferrybus, stderr, stdout};

#[test]
fn help_and_version_are_done() {
    let folder = Folder::new("help");
    for line in [&["--help"][..], &["--version"], &["send", "--help"], &["cert", "dev", "--help"]] {
        let output = ferrybus(&folder.0, line);
        assert_eq!(code(&output), 0, "{line:?}");
        assert!(stdout(&output).contains("ferrybus"), "{line:?}");
    }
}

#[test]
fn misuse_exits_with_2_and_names_the_expected_arguments() {
    let folder = Folder::new("misuse");
    folder.write("bad.toml", "listen = [\"127.0.0.1\"]\n\n[limits]\nmax_frame_byte = 512\n");
    folder.write("small.toml", "[limits]\nmax_frame_bytes = 256\n");
    folder.write("bad.json", "{\n  \"UserConfig\": [ oops ]\n}");
    let cases: [(&[&str], &str); 8] = [
        (&["nonsense"], "unrecognized subcommand 'nonsense'"),
        (&["--config", "none.toml"], "error: cannot read configuration `none.toml`"),
        (
            &["--config", "bad.toml"],
            "error: bad configuration in `bad.toml`, line 4: unknown key `max_frame_byte`\nhint: did you mean \
             `max_frame_bytes`?\n",
        ),
        (
            &["--config", "small.toml"],
            "error: `limits.max_frame_bytes` is 256, expected 512 to 16777216 bytes\n",
        ),
        (
            &["--emulator-config", "bad.json"],
            "error: bad emulator configuration in `bad.json`: Unexpected word on line 2",
        ),
        (
            &["--listen", "0.0.0.0:5672"],
            "nobody is configured who may log in\nhint: add a `[[key]]`, `[[user]]`",
        ),
        (&["--log-level", "a=b=c"], "is not a log filter"),
        (
            &["send", "orders", "--body", "x", "--connection-string", "Endpoin=sb://x"],
            "unknown key `Endpoin`\nhint: did you mean `Endpoint`?",
        ),
    ];
    for (line, expected) in cases {
        let output = ferrybus(&folder.0, line);
        assert_eq!(code(&output), 2, "{line:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{line:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{line:?}");
    }
}

#[test]
fn a_broker_that_is_not_there_is_a_failure_with_a_hint() {
    let folder = Folder::new("nobody");
    // Port 1 is not listened on, and a refused connection takes no time.
    let string = "Endpoint=sb://127.0.0.1:1;UseDevelopmentEmulator=true";
    for command in ["send", "receive", "peek", "bench"] {
        let mut line = vec![command, "orders", "--connection-string", string];
        if command == "send" {
            line.extend(["--body", "x"]);
        }
        let output = ferrybus(&folder.0, &line);
        assert_eq!(code(&output), 1, "{command}");
        let text = stderr(&output);
        assert!(
            text.starts_with("error: cannot connect to 127.0.0.1:1: ") && text.contains("hint: "),
            "{text}"
        );
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn a_connection_string_for_one_entity_opens_no_other() {
    let folder = Folder::new("entity");
    let string = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=n;SharedAccessKey=hush;EntityPath=audit";
    let output = ferrybus(&folder.0, &["peek", "orders", "--connection-string", string]);
    assert_eq!(code(&output), 2);
    assert_eq!(stderr(&output), "error: the connection string is for `audit`, not for `orders`\n");
}

#[cfg(unix)]
#[test]
fn development_certificates_are_made_once_and_keys_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("cert");
    let line = ["cert", "dev", "--out", "certs", "--host", "broker.test", "--client", "till"];
    let first = ferrybus(&folder.0, &line);
    assert_eq!(code(&first), 0, "{}", stderr(&first));
    assert!(stdout(&first).contains("certs/server.pem"));
    let read = |name: &str| fs::read_to_string(folder.0.join("certs").join(name)).unwrap();
    for name in ["ca.pem", "server.pem", "client-till.pem"] {
        assert!(read(name).starts_with("-----BEGIN CERTIFICATE-----"), "{name}");
    }
    for name in ["ca-key.pem", "server-key.pem", "client-till-key.pem"] {
        assert!(read(name).starts_with("-----BEGIN PRIVATE KEY-----"), "{name}");
        let mode = fs::metadata(folder.0.join("certs").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let (authority, server) = (read("ca.pem"), read("server.pem"));
    let again = ferrybus(&folder.0, &line);
    assert_eq!(code(&again), 1);
    assert!(stderr(&again).contains("hint: `--force` replaces certificates"), "{}", stderr(&again));
    let another = ferrybus(&folder.0, &["cert", "dev", "--out", "certs", "--client", "second"]);
    assert_eq!(code(&another), 0, "{}", stderr(&another));
    assert_eq!((read("server.pem"), stdout(&another).contains("server.pem")), (server.clone(), false));
    assert!(read("client-second.pem").starts_with("-----BEGIN CERTIFICATE-----"));
    let mut forced = line.to_vec();
    forced.extend(["--force", "--json"]);
    let told = ferrybus(&folder.0, &forced);
    assert_eq!((code(&told), stderr(&told).as_str()), (0, ""));
    let told: serde_json::Value = serde_json::from_str(&stdout(&told)).unwrap();
    let file = |name: &str| serde_json::json!(folder.0.join("certs").join(name));
    assert_eq!((&told["authority"], &told["server"]["key"]), (&file("ca.pem"), &file("server-key.pem")));
    assert_eq!(told["server"]["hosts"], serde_json::json!(["broker.test"]));
    assert_eq!(
        (&told["clients"][0]["certificate"], &told["clients"][0]["subject"]),
        (&file("client-till.pem"), &serde_json::json!("CN=till"))
    );
    assert_eq!(read("ca.pem"), authority);
    assert_ne!(read("server.pem"), server);
}
