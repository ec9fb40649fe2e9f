//! Two who change the same entity at the same time, from the command line.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

use serde_json::{Value, json};

use crate::support::{Broker, Folder, code, command, ferrybus, stderr, stdout};

/// Reads one request: its head and its body.
fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Passes requests on to a broker; before the first of this method it lets somebody else do something. Says where it
/// listens.
fn meddled(broker: &Broker, method: &'static str, meddle: impl FnOnce() + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (here, there) = (listener.local_addr().unwrap().to_string(), broker.addresses[0].clone());
    thread::spawn(move || {
        let mut meddle = Some(meddle);
        for stream in listener.incoming() {
            let Ok(mut answers) = stream else { return };
            let mut requests = BufReader::new(answers.try_clone().unwrap());
            let Some((head, body)) = request(&mut requests) else { continue };
            if head.starts_with(method)
                && let Some(meddle) = meddle.take()
            {
                meddle();
            }
            let mut upstream = TcpStream::connect(&there).unwrap();
            let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
            upstream.write_all(head.as_bytes()).unwrap();
            upstream.write_all(&body).unwrap();
            let mut answer = Vec::new();
            upstream.read_to_end(&mut answer).unwrap();
            drop(answers.write_all(&answer));
        }
    });
    here
}

struct Setting {
    folder: Folder,
    broker: Broker,
}

impl Setting {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let broker = Broker::start(&folder.0, &["--listen", "127.0.0.1:0", "--durability", "none"]);
        Self { folder, broker }
    }

    fn run(&self, line: &str) -> String {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.extend(["--connection-string", &self.broker.connection_string]);
        let output = ferrybus(&self.folder.0, &words);
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        stdout(&output)
    }

    /// Runs `line` while another runs `meanwhile`, which begins later and ends sooner: just before the first request of
    /// this method.
    fn beside(&self, method: &'static str, meanwhile: &str, line: &str) -> (i32, String) {
        let mut words: Vec<&str> = meanwhile.split(' ').collect();
        words.extend(["--connection-string", &self.broker.connection_string]);
        let mut other = command(&self.folder.0, &words);
        let place = meddled(&self.broker, method, move || assert!(other.status().unwrap().success()));
        let mut words: Vec<&str> = line.split(' ').collect();
        words.extend(["--connection-string", &self.broker.connection_string, "--server", &place]);
        let output = ferrybus(&self.folder.0, &words);
        (code(&output), stderr(&output))
    }

    fn shown(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{line} --json"))).unwrap()
    }
}

const CHANGED: &str = "somebody else has changed it meanwhile, so nothing was done to it";

#[test]
fn an_update_overwrites_nothing_that_it_has_not_read() {
    let it = Setting::new("two-operators");
    it.run("queue create orders");
    it.run("topic create events");
    it.run("subscription create events audit");
    let cases = [
        ("queue", "orders", "--max-delivery-count 7", "--lock-duration 30s", "max_delivery_count", json!(7)),
        (
            "topic",
            "events",
            "--user-metadata mine",
            "--default-time-to-live 1h",
            "user_metadata",
            json!("mine"),
        ),
        (
            "subscription",
            "events audit",
            "--max-delivery-count 7",
            "--lock-duration 30s",
            "max_delivery_count",
            json!(7),
        ),
    ];
    for (kind, name, theirs, ours, key, expected) in cases {
        let (theirs, ours) =
            (format!("{kind} update {name} {theirs}"), format!("{kind} update {name} {ours}"));
        let (exit, complaint) = it.beside("PUT", &theirs, &ours);
        assert_eq!(exit, 1, "{ours}: {complaint}");
        let told = format!(
            "error: cannot update {kind} `{}`: {CHANGED}\nhint: run the command again",
            name.replace(' ', "/")
        );
        assert!(complaint.starts_with(&told), "{complaint}");
        assert_eq!(it.shown(&format!("{kind} show {name}"))[key], expected, "{kind}");
        // As the hint says; and both changes are there.
        it.run(&ours);
        assert_eq!(it.shown(&format!("{kind} show {name}"))[key], expected, "{kind}");
    }
}

#[test]
fn force_writes_over_the_changes_of_another_operator() {
    let it = Setting::new("two-operators-force");
    it.run("queue create orders");
    let (exit, complaint) = it.beside(
        "PUT",
        "queue update orders --max-delivery-count 7",
        "queue update orders --lock-duration 30s --force",
    );
    assert_eq!(exit, 0, "{complaint}");
    let shown = it.shown("queue show orders");
    // All that it has read, and its own change.
    assert_eq!((&shown["lock_duration"], &shown["max_delivery_count"]), (&json!("PT30S"), &json!(10)));
}

#[test]
fn rules_and_files_overwrite_nothing_that_they_have_not_read() {
    let it = Setting::new("two-operators-rules");
    it.run("queue create orders");
    it.run("topic create events");
    it.run("subscription create events audit");
    it.run("rule create events audit big --sql amount>1");
    let theirs = "rule update events audit big --sql amount>2";
    let (exit, complaint) = it.beside("PUT", theirs, "rule update events audit big --sql amount>3");
    assert_eq!(exit, 1, "{complaint}");
    assert!(complaint.contains(&format!("cannot update rule `big`: {CHANGED}")), "{complaint}");
    let sql = || it.shown("rule show events audit big")["filter"]["sql"].clone();
    assert_eq!(sql(), "amount>2");
    let forced = "rule update events audit big --sql amount>4 --force";
    let (exit, complaint) = it.beside("PUT", theirs, forced);
    assert_eq!((exit, sql()), (0, json!("amount>4")), "{complaint}");

    // A plan that was made for another state is not carried out.
    it.folder.write("queue.toml", "[[queue]]\nname = \"orders\"\nlock_duration = \"30s\"\n");
    let theirs = "queue update orders --max-delivery-count 7";
    let (exit, complaint) = it.beside("PUT", theirs, "config apply queue.toml");
    assert_eq!(exit, 1, "{complaint}");
    assert!(complaint.contains(&format!("cannot update queue `orders`: {CHANGED}")), "{complaint}");
    assert_eq!(it.shown("queue show orders")["max_delivery_count"], 7);
    it.folder.write(
        "rule.toml",
        "[[topic]]\nname = \"events\"\n[[topic.subscription]]\nname = \"audit\"\n\
         [[topic.subscription.rule]]\nname = \"big\"\nsql = \"amount>5\"\n\
         [[topic.subscription.rule]]\nname = \"$Default\"\nsql = \"1=1\"\n",
    );
    let theirs = "rule update events audit big --sql amount>6";
    let (exit, complaint) = it.beside("PUT", theirs, "config apply rule.toml");
    assert_eq!((exit, sql()), (1, json!("amount>6")), "{complaint}");
    assert!(complaint.contains(&format!("cannot update rule `big`: {CHANGED}")), "{complaint}");
}

#[test]
fn a_file_deletes_nothing_that_another_has_changed() {
    let it = Setting::new("two-operators-prune");
    it.run("queue create orders");
    it.run("topic create events");
    it.run("subscription create events audit");
    it.run("rule create events audit big --sql amount>1");
    let events = "[[topic]]\nname = \"events\"\n[[topic.subscription]]\nname = \"audit\"\n";
    it.folder.write("prune.toml", events);
    let theirs = "rule update events audit big --sql amount>2";
    let (exit, complaint) = it.beside("DELETE", theirs, "config apply prune.toml");
    assert_eq!(exit, 1, "{complaint}");
    assert!(complaint.contains(&format!("cannot delete rule `big`: {CHANGED}")), "{complaint}");
    assert_eq!(it.shown("rule show events audit big")["filter"]["sql"], "amount>2");
    it.run("config apply prune.toml");
    let theirs = "queue update orders --max-delivery-count 7";
    let (exit, complaint) = it.beside("DELETE", theirs, "config apply prune.toml --prune");
    assert_eq!(exit, 1, "{complaint}");
    assert!(complaint.contains(&format!("cannot delete queue `orders`: {CHANGED}")), "{complaint}");
    assert_eq!(it.shown("queue show orders")["max_delivery_count"], 7);
    // A deletion by name takes the entity as it is.
    let (exit, complaint) =
        it.beside("DELETE", "queue update orders --max-delivery-count 8", "queue delete orders");
    assert_eq!(exit, 0, "{complaint}");
}
