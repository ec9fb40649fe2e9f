//! Logs, metrics and health of the broker, for operators.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Stdio,
};

use serde_json::Value;

use crate::support::{Broker, Folder, code, command, ferrybus, stderr, stdout};

/// The lines of a log in JSON that are of this target.
fn lines(log: &Path, target: &str) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == target).collect()
}

/// Ends the connection of a client that receives from `orders`. Says its number and its address.
fn end_a_receiver(folder: &Folder, connection_string: &str) -> String {
    let receive =
        ["receive", "orders", "--timeout", "60s", "--json", "--connection-string", connection_string];
    let mut receiver = command(&folder.0, &receive).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(receiver.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let run =
        |words: &[&str]| ferrybus(&folder.0, &[words, &["--connection-string", connection_string]].concat());
    let listed = stdout(&run(&["connection", "list", "--json"]));
    let listed: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let id = listed["id"].to_string();
    assert_eq!(code(&run(&["connection", "close", &id])), 0);
    assert!(!receiver.wait().unwrap().success());
    format!("{id} {}", listed["peer"].as_str().unwrap())
}

#[test]
fn changes_are_in_the_audit_log_and_long_operations_in_the_log() {
    let folder = Folder::new("audit");
    let log = folder.0.join("log");
    let config = folder.write("ferrybus.toml", "[log]\nslow_operation = \"0s\"\n");
    let config = config.to_str().unwrap();
    let serve = ["--config", config, "--listen", "127.0.0.1:0", "--durability", "none"];
    let broker = Broker::logged(
        &folder.0,
        &[&serve[..], &["--log-level", "info", "--log-format", "json"]].concat(),
        &log,
    );
    let run = |words: &[&str], connection_string: &str| {
        let words: Vec<&str> =
            words.iter().copied().chain(["--connection-string", connection_string]).collect();
        ferrybus(&folder.0, &words)
    };
    let wrong = broker.connection_string.replace("SAS_KEY_VALUE", "another");
    assert_eq!(code(&run(&["queue", "create", "orders"], &broker.connection_string)), 0);
    assert_eq!(code(&run(&["queue", "create", "orders"], &broker.connection_string)), 1);
    assert_eq!(code(&run(&["queue", "create", "another"], &wrong)), 1);
    assert_eq!(code(&run(&["send", "orders", "--body", "a secret"], &broker.connection_string)), 0);
    let receiver = end_a_receiver(&folder, &broker.connection_string);
    assert_eq!(code(&run(&["queue", "delete", "orders"], &broker.connection_string)), 0);
    // Refused clients are logged, also when they only read.
    assert_eq!(code(&run(&["queue", "show", "orders"], &wrong)), 1);
    let mut client = TcpStream::connect(&broker.addresses[0]).unwrap();
    client.write_all(b"AMQP\x03\x01\x00\x00").unwrap();
    client.read_exact(&mut [0; 8]).unwrap();
    let listed = stdout(&run(&["connection", "list", "--json"], &broker.connection_string));
    let id = serde_json::from_str::<Value>(listed.lines().next().unwrap()).unwrap()["id"].to_string();
    assert_eq!(code(&run(&["connection", "close", &id], &wrong)), 1);
    assert_eq!(code(&run(&["connection", "close", &id], &broker.connection_string)), 0);
    assert_eq!(code(&run(&["connection", "close", "999999"], &broker.connection_string)), 1);
    let peer = client.local_addr().unwrap();
    drop(client);
    assert!(broker.stop().success());

    let told: Vec<[String; 6]> = lines(&log, "ferrybus::audit")
        .iter()
        .map(|line| {
            ["who", "action", "namespace", "entity", "result", "reason"]
                .map(|field| line[field].as_str().unwrap().to_owned())
        })
        .collect();
    let key = "RootManageSharedAccessKey";
    let expected = [
        [key, "create", "default", "orders", "done", ""],
        [key, "create", "default", "orders", "refused", "status 409"],
        ["", "login", "default", "another", "refused", "wrong_key"],
        [key, "connection-close", "default", "", "done", ""],
        [key, "delete", "default", "orders", "done", ""],
        ["", "login", "default", "orders", "refused", "wrong_key"],
        ["", "login", "default", "", "refused", "wrong_key"],
        // It had no namespace yet.
        [key, "connection-close", "", "", "done", ""],
        [key, "connection-close", "", "", "refused", "status 404"],
    ];
    assert_eq!(told, expected);
    let subjects: Vec<String> = lines(&log, "ferrybus::audit")
        .iter()
        .filter(|line| line["subject"].as_str().unwrap().contains(|letter: char| letter.is_ascii_digit()))
        .map(|line| line["subject"].as_str().unwrap().to_owned())
        .collect();
    let expected = [receiver, format!("connection-close {id}"), format!("{id} {peer}"), "999999".to_owned()];
    assert_eq!(subjects, expected);
    for line in lines(&log, "ferrybus::audit") {
        assert!(line["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    }
    tells_slow_operations_and_no_secrets(&log);
}

#[test]
fn each_thing_that_an_administrator_does_is_in_the_audit_log() {
    let folder = Folder::new("audit-actions");
    let log = folder.0.join("log");
    let empty = folder.write("empty.toml", "");
    let serve = ["--testing", "--listen", "127.0.0.1:0", "--durability", "none", "--log-level", "info"];
    let broker = Broker::logged(&folder.0, &[&serve[..], &["--log-format", "json"]].concat(), &log);
    let wrong = broker.connection_string.replace("SAS_KEY_VALUE", "another");
    let apply = format!("config apply {}", empty.to_str().unwrap());
    // The command line, whether the key is good, and what is told of it: action, entity, subject.
    let cases = [
        ("topic create events", true, ["create", "events", ""]),
        ("topic update events --user-metadata mine", true, ["update", "events", ""]),
        ("subscription create events audit", true, ["create", "events/Subscriptions/audit", ""]),
        (
            "subscription update events audit --lock-duration 5s",
            true,
            ["update", "events/Subscriptions/audit", ""],
        ),
        (
            "rule create events audit big --sql a>1",
            true,
            ["create", "events/Subscriptions/audit/Rules/big", ""],
        ),
        (
            "rule update events audit big --sql a>2",
            true,
            ["update", "events/Subscriptions/audit/Rules/big", ""],
        ),
        ("rule delete events audit big", true, ["delete", "events/Subscriptions/audit/Rules/big", ""]),
        ("send events --body tea --count 3", true, [""; 3]),
        ("purge events/Subscriptions/audit", true, ["purge", "events/Subscriptions/audit", "3 messages"]),
        ("fault add server-busy --count 2", true, ["fault-add", "", "ServerBusy the namespace"]),
        ("fault clear 1", true, ["fault-clear", "", "1"]),
        ("fault clear", true, ["faults-clear", "", "all"]),
        ("clock advance 5m", true, ["clock-advance", "", "300000 ms"]),
        ("clock show", true, [""; 3]),
        ("clock show", false, ["login", "", "clock-read"]),
        ("fault list", false, ["login", "", "fault-list"]),
        ("connection list", false, ["login", "", "connection-list"]),
        (&*apply, false, ["login", "", "limits-read"]),
        ("subscription delete events audit", true, ["delete", "events/Subscriptions/audit", ""]),
        ("topic delete events", true, ["delete", "events", ""]),
    ];
    for (line, is_good, _) in &cases {
        let words: Vec<&str> = line.split(' ').collect();
        let string = if *is_good { &broker.connection_string } else { &wrong };
        let output = ferrybus(&folder.0, &[&words[..], &["--connection-string", string]].concat());
        assert_eq!(code(&output), i32::from(!is_good), "{line}: {}", stderr(&output));
    }
    assert!(broker.stop().success());
    let mut told = lines(&log, "ferrybus::audit");
    // A purge asks until nothing is left.
    told.retain(|line| line["subject"] != "0 messages");
    let expected: Vec<_> = cases.iter().filter(|(.., told)| !told[0].is_empty()).collect();
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (line, (command, is_good, expected)) in told.iter().zip(expected) {
        assert_eq!(
            ["action", "entity", "subject"].map(|field| line[field].as_str().unwrap()),
            *expected,
            "{command}"
        );
        let (who, result) = if *is_good { ("RootManageSharedAccessKey", "done") } else { ("", "refused") };
        assert_eq!((line["who"].as_str(), line["result"].as_str()), (Some(who), Some(result)), "{command}");
        let is_of_broker = ["clock", "fault"].iter().any(|word| command.starts_with(word)) && *is_good;
        assert_eq!(line["namespace"], if is_of_broker { "" } else { "default" }, "{command}");
    }
}

/// The text of the key in a connection string at the end of an output.
fn key_in(output: &str) -> String {
    let text = output.trim_end().split(';').find_map(|part| part.strip_prefix("SharedAccessKey="));
    text.unwrap().to_owned()
}

#[test]
fn each_change_of_a_namespace_and_in_it_is_in_the_audit_log_with_its_name() {
    let folder = Folder::new("audit-namespaces");
    let log = folder.0.join("log");
    let config = "[[key]]\nname = \"root\"\nkey = \"root-secret\"\nrights = [\"manage\"]\n\
         [[key]]\nname = \"till\"\nkey = \"till-secret\"\nrights = [\"send\"]\n";
    folder.write("ferrybus.toml", config);
    let serve = ["--listen", "127.0.0.1:0", "--durability", "none", "--log-level", "info"];
    let broker = Broker::logged(&folder.0, &[&serve[..], &["--log-format", "json"]].concat(), &log);
    let run = |who: &str, key: &str, line: &str| {
        let place = &broker.addresses[0];
        let string = format!(
            "Endpoint=sb://{place};SharedAccessKeyName={who};SharedAccessKey={key};UseDevelopmentEmulator=true"
        );
        let words: Vec<&str> = line.split(' ').chain(["--connection-string", &string]).collect();
        ferrybus(&folder.0, &words)
    };
    let set = |reason| Some(["namespace-set", "team-a", "", "", reason]);
    let key = |action, reason| Some([action, "team-a", "", "app", reason]);
    let close = Some(["connection-close", "team-a", "", "99", "status 404"]);
    let delete = |namespace, reason| Some(["namespace-delete", namespace, "", "", reason]);
    // The name of the key (none: `root`, with a wrong text), the command line, and what is told of it: action, namespace, entity, subject, and the reason of a refusal.
    let cases = [
        ("root", "namespace create team-a --max-entities 9", set("")),
        ("root", "namespace create team-a --max-entities 8", set("status 412")),
        ("root", "namespace set team-a --weight 2", set("")),
        ("till", "namespace create team-a", set("status 403")),
        ("root", "namespace list", None),
        ("till", "namespace list", Some(["namespace-read", "", "", "", "status 403"])),
        ("till", "namespace show team-a", Some(["namespace-read", "team-a", "", "", "status 403"])),
        ("", "namespace create team-b", Some(["login", "default", "", "namespace-set team-b", "wrong_key"])),
        ("", "namespace list", Some(["login", "default", "", "namespace-read", "wrong_key"])),
        ("root", "namespace key create team-a app --rights manage", key("namespace-key-set", "")),
        ("app", "queue create orders --namespace team-a", Some(["create", "team-a", "orders", "", ""])),
        ("root", "queue create orders", Some(["create", "default", "orders", "", ""])),
        ("app", "send orders --body tea --count 3 --namespace team-a", None),
        ("app", "purge orders --namespace team-a", Some(["purge", "team-a", "orders", "3 messages", ""])),
        ("app", "connection close 99 --namespace team-a", close),
        ("root", "namespace key delete team-a app", key("namespace-key-delete", "")),
        ("root", "namespace key delete team-a app", key("namespace-key-delete", "status 404")),
        ("root", "namespace delete default --yes", delete("default", "status 400")),
        ("root", "namespace delete team-a --yes", delete("team-a", "")),
    ];
    let mut app = String::new();
    for (who, line, told) in &cases {
        let key = if *who == "app" { app.clone() } else { format!("{who}-secret") };
        let output = run(if who.is_empty() { "root" } else { who }, &key, line);
        let is_good = told.is_none_or(|told| told[4].is_empty());
        assert_eq!(code(&output), i32::from(!is_good), "{line}: {}", stderr(&output));
        if line.starts_with("namespace key create") {
            app = key_in(&stdout(&output));
        }
    }
    assert!(broker.stop().success());
    let told: Vec<_> = lines(&log, "ferrybus::audit")
        .iter()
        // A purge asks until nothing is left.
        .filter(|line| line["subject"] != "0 messages")
        .map(|line| {
            ["who", "result", "action", "namespace", "entity", "subject", "reason"]
                .map(|field| line[field].as_str().unwrap().to_owned())
        })
        .collect();
    let expected: Vec<_> = cases
        .iter()
        .filter_map(|(who, _, told)| {
            let [action, namespace, entity, subject, reason] = (*told)?;
            let result = if reason.is_empty() { "done" } else { "refused" };
            Some([*who, result, action, namespace, entity, subject, reason].map(str::to_owned))
        })
        .collect();
    assert_eq!(told, expected);
}

/// Asks a thousand times on one connection, and is refused each time.
fn keep_on_trying(address: &str, login: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("DELETE /orders HTTP/1.1\r\nHost: x\r\n{login}Content-Length: 0\r\n\r\n");
    let last = request.replace("Content-Length", "Connection: close\r\nContent-Length");
    let mut writer = stream.try_clone().unwrap();
    let asking = std::thread::spawn(move || {
        writer.write_all((request.repeat(999) + &last).as_bytes()).unwrap();
    });
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    asking.join().unwrap();
    assert_eq!(text.matches("HTTP/1.1 40").count(), 1_000, "{text}");
}

#[test]
fn repeated_refused_attempts_do_not_fill_the_audit_log_and_hide_nothing() {
    let folder = Folder::new("audit-flood");
    let log = folder.0.join("log");
    let config = "[log]\nrefused_attempts_per_minute = 5\n[metrics]\nanonymous = true\n\
         [[key]]\nname = \"root\"\nkey = \"SAS_KEY_VALUE\"\nrights = [\"manage\"]\n\
         [[key]]\nname = \"till\"\nkey = \"SAS_KEY_VALUE\"\nrights = [\"send\"]\n";
    let config = folder.write("ferrybus.toml", config);
    let serve = ["--config", config.to_str().unwrap(), "--listen", "127.0.0.1:0", "--durability", "none"];
    let broker = Broker::logged(
        &folder.0,
        &[&serve[..], &["--log-level", "info", "--log-format", "json"]].concat(),
        &log,
    );
    let begun = std::time::Instant::now();
    let address = &broker.addresses[0];
    // Nobody who is known, and `till:SAS_KEY_VALUE`, who may not.
    keep_on_trying(address, "");
    keep_on_trying(address, "Authorization: Basic dGlsbDpTQVNfS0VZX1ZBTFVF\r\n");
    let string = "Endpoint=sb://localhost;SharedAccessKeyName=root;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true";
    for name in 0..7 {
        let name = format!("q{name}");
        let output = ferrybus(
            &folder.0,
            &["queue", "create", &name, "--server", address, "--connection-string", string],
        );
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    assert!(broker.stop().success());
    // Five at once, and one for every twelve seconds that this took.
    let most = 5 + begun.elapsed().as_secs() / 12;

    let lines = lines(&log, "ferrybus::audit");
    let told = |who: &str, action: &str| {
        let of = lines.iter().filter(|line| line["who"] == who && line["action"] == action);
        of.count() as u64
    };
    for (who, action) in [("", "login"), ("till", "delete")] {
        assert!((5..=most).contains(&told(who, action)), "{who}: {}", told(who, action));
        assert!((1..=most).contains(&told(who, "attempts-left-out")), "{who}");
    }
    assert_eq!(told("root", "create"), 7, "what was done is told, whatever else is tried");
    let left_out = 2_000 - told("", "login") - told("till", "delete");
    let counted = format!("\nferrybus_audit_attempts_left_out_total {left_out}\n");
    assert!(metrics.contains(&counted), "{counted}: {metrics}");
}

fn tells_slow_operations_and_no_secrets(log: &Path) {
    let slow = lines(log, "ferrybus::slow");
    assert!(!slow.is_empty());
    for line in slow {
        assert!(
            line["operation"].is_string() && line["took_ms"].is_number() && line["queued_ms"].is_number(),
            "{line}"
        );
    }
    let text = fs::read_to_string(log).unwrap();
    assert!(!text.contains("a secret") && !text.contains("SAS_KEY_VALUE"), "{text}");
}

#[test]
fn health_says_whether_the_broker_can_be_used() {
    let folder = Folder::new("health");
    let data = folder.0.join("data");
    let data = data.to_str().unwrap();
    let config = folder.write("ferrybus.toml", "[journal]\ndisk_reserve_bytes = 17592186044416\n");
    let serve = ["--listen", "127.0.0.1:0", "--data-dir", data];
    let broker = Broker::start(&folder.0, &[&serve[..], &["--config", "/dev/null"]].concat());
    let address = broker.addresses[0].clone();
    let output = ferrybus(&folder.0, &["health", "--server", &address]);
    assert_eq!((code(&output), stdout(&output).contains("is ready")), (0, true), "{}", stderr(&output));
    let output = ferrybus(&folder.0, &["health", "--json", "--server", &address]);
    assert_eq!(serde_json::from_str::<Value>(&stdout(&output)).unwrap()["status"], "ready");
    assert!(broker.stop().success());

    let output = ferrybus(&folder.0, &["health", "--server", &address]);
    assert_eq!(code(&output), 1, "nobody is there");

    let broker = Broker::start(&folder.0, &[&serve[..], &["--config", config.to_str().unwrap()]].concat());
    let output = ferrybus(&folder.0, &["health", "--server", &broker.addresses[0]]);
    let said = format!("{} is degraded: the disk is full, sends are refused\n", broker.addresses[0]);
    assert_eq!((code(&output), stdout(&output)), (0, said), "{}", stderr(&output));
    let output = ferrybus(&folder.0, &["health", "--sends", "--server", &broker.addresses[0]]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("the disk is full"), "{}", stderr(&output));
    // It lives, and no restart would help.
    let output = ferrybus(&folder.0, &["health", "--live", "--server", &broker.addresses[0]]);
    assert_eq!((code(&output), stdout(&output).contains("is alive")), (0, true), "{}", stderr(&output));
}

#[test]
fn health_asks_the_broker_that_the_configuration_names() {
    let folder = Folder::new("health-config");
    assert_eq!(code(&ferrybus(&folder.0, &["cert", "dev", "--out", "certs"])), 0);
    let tls = "[tls]\ncertificate = \"certs/server.pem\"\nkey = \"certs/server-key.pem\"\n";
    let plain = free_port();
    for (text, place) in [
        (format!("listen = [\"127.0.0.1:{plain}\"]\n"), format!("127.0.0.1:{plain}")),
        // All addresses, and a certificate that is not for the name by which the probe asks.
        (
            format!("listen = []\nlisten_tls = [\"[::]:{plain}\"]\nanonymous = \"allow\"\n{tls}"),
            format!("localhost:{plain}"),
        ),
    ] {
        let text = format!("durability = \"none\"\n{text}");
        folder.write("broker.toml", &text);
        let serve = ["--config", "broker.toml"];
        let mut serve = command(&folder.0, &serve);
        serve.stderr(Stdio::null());
        let broker = Broker::ready(&mut serve);
        let by_file = ferrybus(&folder.0, &["health", "--config", "broker.toml"]);
        assert_eq!(
            (code(&by_file), stdout(&by_file)),
            (0, format!("{place} is ready\n")),
            "{}",
            stderr(&by_file)
        );
        for (arguments, said) in [(&["health"][..], "ready"), (&["health", "--live"], "alive")] {
            let mut health = command(&folder.0, arguments);
            let found = health.env("FERRYBUS_CONFIG", "broker.toml").output().unwrap();
            assert_eq!(
                (code(&found), stdout(&found)),
                (0, format!("{place} is {said}\n")),
                "{}",
                stderr(&found)
            );
        }
        // Beside it, as `serve` finds it.
        folder.write("ferrybus.toml", &text);
        assert_eq!(code(&ferrybus(&folder.0, &["health"])), 0);
        // A named broker goes before the configured one.
        let mut other = command(&folder.0, &["health"]);
        let other = other.env("FERRYBUS_CONNECTION_STRING", "Endpoint=amqp://127.0.0.1:1").output().unwrap();
        assert_eq!(code(&other), 1);
        assert!(stderr(&other).contains("127.0.0.1:1"), "{}", stderr(&other));
        fs::remove_file(folder.0.join("ferrybus.toml")).unwrap();
        assert!(broker.stop().success());
        assert_eq!(
            code(&ferrybus(&folder.0, &["health", "--live", "--config", "broker.toml"])),
            1,
            "it has ended"
        );
    }
    assert_eq!(code(&ferrybus(&folder.0, &["health", "--config", "missing.toml"])), 2);
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}
