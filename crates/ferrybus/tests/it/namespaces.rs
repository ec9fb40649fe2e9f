//! `ferrybus namespace` against a scripted broker: what it asks, and how it tells the answers.
//!
//! Invariant: the script is the documented interface (docs/features/namespaces.md); it proves nothing about a broker.

mod early_disconnects;
mod forwarding;
#[cfg(target_os = "linux")]
mod idle;
mod principals;
mod served;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::Output,
    thread::{self, JoinHandle},
};

use serde_json::{Value, json};

use crate::support::{Folder, code, command, stderr, stdout};

/// A request as the scripted broker has read it.
struct Asked {
    /// Method and path.
    line: String,
    /// Headers in lower case.
    headers: Vec<String>,
    body: Value,
}

impl Asked {
    fn has(&self, header: &str) -> bool {
        self.headers.iter().any(|line| line.eq_ignore_ascii_case(header))
    }
}

/// Answers requests of one connection with these, in this order.
fn script(answers: Vec<(u16, Value)>) -> (String, JoinHandle<Vec<Asked>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let answering = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let mut asked = Vec::new();
        for (status, body) in answers {
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the client asked {} times", asked.len());
                match line.trim_end() {
                    "" => break,
                    line => lines.push(line.to_owned()),
                }
            }
            let length = lines
                .iter()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut bytes = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut bytes).unwrap();
            let headers = lines.split_off(1);
            let line = lines[0].trim_end_matches(" HTTP/1.1").to_owned();
            asked.push(Asked { line, headers, body: serde_json::from_slice(&bytes).unwrap_or_default() });
            let body = body.to_string();
            write!(
                reader.get_mut(),
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\netag: \"7\"\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
        asked
    });
    (place, answering)
}

/// Runs `ferrybus namespace` with these words against a broker that answers so.
fn run(words: &[&str], answers: Vec<(u16, Value)>) -> (Output, Vec<Asked>) {
    let folder = Folder::new(&format!("namespace-{}", words.join("-").replace('/', "-")));
    let (place, answering) = script(answers);
    let string = format!("Endpoint=sb://{place};UseDevelopmentEmulator=true");
    let all = [&["namespace"], words, &["--connection-string", &string]].concat();
    let output = command(&folder.0, &all).env("FERRYBUS_ADMIN", "root:hush").output().unwrap();
    (output, answering.join().unwrap())
}

fn team_a() -> Value {
    json!({
        "name": "team-a", "uid": "0123456789abcdef0123456789abcdef", "state": "active", "slot": 1, "shard": 0,
        "from_file": false, "hostnames": ["a.example"], "weight": 1,
        "limits": { "max_entities": 1000, "max_bytes": null, "max_connections": null, "max_in_flight_bytes": null,
            "max_remembered_ids": null, "max_sends_per_second": null },
        "usage": { "entities": 3, "bytes": 2048, "connections": 2, "in_flight_bytes": 0 },
        "created_at": "2026-11-21T20:11:07.512Z", "updated_at": "2026-11-21T20:11:07.512Z"
    })
}

const CREATE: [&str; 4] = ["create", "team-a", "--hostname=a.example", "--max-entities=1000"];

#[test]
fn a_namespace_is_created_only_where_there_is_none() {
    let (output, asked) = run(&CREATE, vec![(201, team_a())]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "created namespace `team-a`\n"));
    assert_eq!(asked[0].line, "PUT /$ferrybus/namespaces/team-a");
    assert!(asked[0].has("if-none-match: *") && asked[0].has("authorization: Basic cm9vdDpodXNo"));
    let wanted =
        json!({ "hostnames": ["a.example"], "weight": 1, "held": false, "limits": team_a()["limits"] });
    assert_eq!(asked[0].body, wanted);
}

#[test]
fn creating_a_namespace_that_is_there_succeeds_if_it_has_the_same_settings() {
    let exists = || (412, json!({ "error": "there is one" }));
    let (output, asked) = run(&CREATE, vec![exists(), (200, team_a())]);
    let said = "namespace `team-a` is there already, with these settings\n";
    assert_eq!((code(&output), stdout(&output).as_str()), (0, said));
    assert_eq!(asked[1].line, "GET /$ferrybus/namespaces/team-a");
    let (output, _) = run(&["create", "team-a", "--weight=2"], vec![exists(), (200, team_a())]);
    assert_eq!(code(&output), 1);
    let expected = "error: namespace `team-a` is there already, with other settings: hostnames  a.example -> -, \
                    weight  1 -> 2, max_entities  1000 -> none\nhint: `ferrybus namespace set team-a` changes it\n";
    assert_eq!(stderr(&output), expected);
}

#[test]
fn a_change_writes_back_what_it_read_but_for_what_was_given() {
    let (output, asked) =
        run(&["set", "team-a", "--hold", "--max-bytes=1 GiB"], vec![(200, team_a()), (200, team_a())]);
    let said = "changed namespace `team-a`\n  held  no -> yes\n  max_bytes  none -> 1 GiB\n";
    assert_eq!((code(&output), stdout(&output).as_str()), (0, said));
    assert_eq!(asked[1].line, "PUT /$ferrybus/namespaces/team-a");
    assert!(asked[1].has("if-match: \"7\"") && !asked[1].has("if-none-match: *"));
    let body = &asked[1].body;
    assert_eq!((&body["held"], &body["hostnames"]), (&json!(true), &json!(["a.example"])));
    assert_eq!(
        (&body["limits"]["max_bytes"], &body["limits"]["max_entities"]),
        (&json!(1 << 30), &json!(1_000))
    );
    let (output, asked) = run(&["set", "team-a", "--no-hold"], vec![(200, team_a())]);
    assert_eq!((stdout(&output).as_str(), asked.len()), ("namespace `team-a` is like that already\n", 1));
}

#[test]
fn namespaces_are_listed_page_by_page() {
    let mut file = team_a();
    file["name"] = json!("default");
    file["from_file"] = json!(true);
    let first = json!({ "namespaces": [file], "next": "default" });
    let last = json!({ "namespaces": [team_a()] });
    let (output, asked) = run(&["list"], vec![(200, first), (200, last)]);
    let expected = "NAME     STATE   DECLARED BY  ENTITIES   SIZE  CONNECTIONS\n\
                    default  active  file                3  2 KiB            2\n\
                    team-a   active  interface           3  2 KiB            2\n";
    assert_eq!(stdout(&output), expected);
    assert_eq!(asked[0].line, "GET /$ferrybus/namespaces?top=500");
    assert_eq!(asked[1].line, "GET /$ferrybus/namespaces?top=500&after=default");
}

#[test]
fn a_namespace_is_shown_with_its_settings_and_what_it_uses() {
    let (output, _) = run(&["show", "team-a"], vec![(200, team_a())]);
    let text = stdout(&output);
    for line in ["namespace", "declared by", "hostnames", "max_entities", "connections", "uid", "updated_at"]
    {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}: {text}");
    }
    let (output, _) = run(&["show", "team-a", "--json"], vec![(200, team_a())]);
    assert_eq!(serde_json::from_str::<Value>(&stdout(&output)).unwrap(), team_a());
    let none = || (404, json!({ "error": "there is nothing" }));
    let (output, _) = run(&["show", "teem-a"], vec![none(), (200, json!({ "namespaces": [team_a()] }))]);
    assert_eq!(stderr(&output), "error: there is no namespace `teem-a`\nhint: did you mean `team-a`?\n");
}

#[test]
fn a_namespace_is_deleted_only_when_that_is_meant() {
    let (output, asked) = run(&["delete", "team-a"], vec![(200, team_a())]);
    assert_eq!((code(&output), asked.len()), (1, 1));
    let expected = "error: namespace `team-a` has 3 entities, 2 KiB of data and 2 connections, which would be gone\n\
                    hint: `--yes` deletes it\n";
    assert_eq!(stderr(&output), expected);
    let (output, asked) = run(&["delete", "team-a", "--yes"], vec![(200, team_a()), (200, team_a())]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "deleted namespace `team-a`\n"));
    assert_eq!(asked[1].line, "DELETE /$ferrybus/namespaces/team-a");
    let of_file = (409, json!({ "error": "the configuration declares it" }));
    let (output, _) = run(&["delete", "team-a", "--yes"], vec![(200, team_a()), of_file]);
    let expected = "error: cannot delete namespace `team-a`: the configuration declares it (409)\n";
    assert_eq!(stderr(&output), expected);
}

#[test]
fn a_new_key_is_printed_as_a_connection_string_alone() {
    let string = "Endpoint=sb://team-a.localhost;SharedAccessKeyName=app;SharedAccessKey=k";
    let made = json!({ "name": "app", "rights": ["send"], "primary": "k", "secondary": "l", "connection_string": string });
    let create = ["key", "create", "team-a", "app", "--rights", "send,listen"];
    let (output, asked) = run(&create, vec![(201, made)]);
    assert_eq!(stdout(&output), format!("{string}\n"));
    assert_eq!(stderr(&output), "created key `app` of namespace `team-a`\n");
    assert_eq!(asked[0].line, "PUT /$ferrybus/namespaces/team-a/keys/app");
    assert!(asked[0].has("if-none-match: *"));
    assert_eq!(asked[0].body, json!({ "rights": ["send", "listen"] }));
    let (output, _) = run(&create, vec![(412, json!({ "error": "there is one" }))]);
    assert!(stderr(&output).starts_with("error: namespace `team-a` has a key `app` already\n"));
    let keys = json!({ "keys": [{ "name": "app", "rights": ["send", "listen"] }] });
    let (output, _) = run(&["key", "list", "team-a"], vec![(200, keys)]);
    assert_eq!(stdout(&output), "NAME  RIGHTS\napp   send,listen\n");
    let (output, asked) = run(&["key", "delete", "team-a", "app"], vec![(200, json!({}))]);
    assert_eq!(stdout(&output), "deleted key `app` of namespace `team-a`\n");
    assert_eq!(asked[0].line, "DELETE /$ferrybus/namespaces/team-a/keys/app");
}

#[test]
fn a_client_that_is_no_administrator_is_told_how_to_become_one() {
    let refused = |status| vec![(status, json!({ "error": "no" }))];
    for (status, expected) in [
        (401, "check the name and password in `--admin-file` or FERRYBUS_ADMIN"),
        (403, "an `[[admin]]` of the configuration"),
    ] {
        let (output, _) = run(&["list"], refused(status));
        assert!(code(&output) == 1 && stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn the_host_of_requests_is_the_namespace_that_is_named() {
    let folder = Folder::new("namespace-host");
    let (place, answering) = script(vec![(200, json!({ "connections": [] }))]);
    let string = format!("Endpoint=sb://{place};UseDevelopmentEmulator=true");
    let words = ["connection", "list", "--namespace", "Team-A", "--connection-string", &string];
    let output = command(&folder.0, &words).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(answering.join().unwrap()[0].has("host: team-a"));
}
