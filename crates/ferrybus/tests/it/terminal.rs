//! Interactive output: the commands on a pseudo-terminal.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    net::TcpListener,
    process::{Child, Command, ExitStatus},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::support::{Broker, Folder, code, ferrybus, stderr, stdout};

/// A command that runs on a terminal of its own.
struct Terminal {
    master: File,
    process: Child,
    seen: Arc<(Mutex<String>, Condvar)>,
}

impl Terminal {
    fn start(folder: &Folder, line: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = || OpenOptions::new().read(true).write(true).open(&name).unwrap();
        let size = Winsize { ws_row: 20, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let process = Command::new("setsid")
            .args(["--ctty", env!("CARGO_BIN_EXE_ferrybus")])
            .args(line)
            .current_dir(&folder.0)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .env_remove("FERRYBUS_CONNECTION_STRING")
            .stdin(slave())
            .stdout(slave())
            .stderr(slave())
            .spawn()
            .unwrap();
        let master = File::from(master);
        let seen = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let (mut reader, seeing) = (master.try_clone().unwrap(), Arc::clone(&seen));
        thread::spawn(move || {
            let mut bytes = [0; 4_096];
            // The last process on the terminal is gone when reading fails.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                seeing.0.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
                seeing.1.notify_all();
            }
        });
        Self { master, process, seen }
    }

    /// Waits until this was written to the screen, and takes everything up to it away.
    fn see(&mut self, text: &str) -> String {
        let found = self.take(text, Duration::from_secs(60));
        found.unwrap_or_else(|| panic!("no {text:?} in {:?}", self.seen.0.lock().unwrap()))
    }

    /// Presses these keys until this is written. The library that reads them may keep one that comes together with a
    /// change of size until the next one comes.
    fn press_until(&mut self, keys: &str, text: &str) -> String {
        for _ in 0..30 {
            // Once the command has ended nobody takes them.
            drop(self.master.write_all(keys.as_bytes()));
            if let Some(found) = self.take(text, Duration::from_secs(2)) {
                return found;
            }
        }
        panic!("no {text:?} in {:?}", self.seen.0.lock().unwrap())
    }

    fn take(&mut self, text: &str, patience: Duration) -> Option<String> {
        let (seen, news) = &*self.seen;
        let (mut seen, waited) =
            news.wait_timeout_while(seen.lock().unwrap(), patience, |seen| !seen.contains(text)).unwrap();
        if waited.timed_out() {
            return None;
        }
        let end = seen.find(text).unwrap() + text.len();
        let rest = seen.split_off(end);
        Some(std::mem::replace(&mut *seen, rest))
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).unwrap();
    }

    fn end(mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
            thread::yield_now();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Something that tells figures as a broker does, more messages each time.
fn figures() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (count, stream) in (1_u32..).zip(listener.incoming()) {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).to_lowercase();
            assert!(
                head.starts_with("get /metrics ") && head.contains("authorization: sharedaccesssignature "),
                "{head}"
            );
            let entity = |name: &str, active: u32| {
                format!(
                    "ferrybus_entity_messages{{entity=\"{name}\",kind=\"queue\",state=\"active\"}} {active}\n\
                     ferrybus_entity_incoming_messages_total{{entity=\"{name}\",kind=\"queue\"}} {}\n",
                    count * active * 100
                )
            };
            let body = entity("orders", 7) + &entity("audit", 4_321);
            let length = body.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    format!("Endpoint=sb://{address};SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true")
}

#[test]
fn top_draws_sorts_filters_follows_the_size_and_leaves_the_terminal_as_it_was() {
    let folder = Folder::new("top");
    let string = figures();
    let mut terminal =
        Terminal::start(&folder, &["top", "--interval", "200ms", "--connection-string", &string]);
    let first = terminal.see("quit");
    assert!(first.contains("\x1b[?1049h"), "another screen: {first:?}");
    assert!(first.find("audit").unwrap() < first.find("orders").unwrap(), "by active messages: {first:?}");
    assert!(first.contains("CTIVEv") && first.contains("4321"), "{first:?}");
    terminal.press("i");
    terminal.see("N/Sv");
    terminal.press("/aud");
    terminal.see("filter:");
    terminal.press("\r");
    // The last line shows the keys again; from here on only the clock draws.
    terminal.see("q quit");
    terminal.resize(60, 12);
    terminal.see("\x1b[12;1H");
    let resized = terminal.press_until("a", "CTIVEv");
    assert!(!resized.contains("\x1b[20;1H"), "{resized:?}");
    let last = terminal.press_until("q", "\x1b[?1049l");
    if !last.contains("\x1b[?25h") {
        terminal.see("\x1b[?25h");
    }
    assert!(terminal.end().success());
}

#[test]
fn top_prints_one_sample_where_there_is_no_terminal() {
    let folder = Folder::new("top-once");
    let string = figures();
    let output = ferrybus(&folder.0, &["top", "--once", "--json", "--connection-string", &string]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let first: serde_json::Value = serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["entity"], &first["active"], &first["incoming_total"]),
        (&"audit".into(), &4321.into(), &432_100.0.into())
    );
    let output = ferrybus(&folder.0, &["top", "--once", "--filter", "ord", "--connection-string", &string]);
    assert_eq!(
        stdout(&output),
        "NAME    KIND   ACTIVE  SCHEDULED  DEAD-LETTER  LOCKED  OLDEST\n\
         orders  queue       7          0            0       0       -\n"
    );
    let output = ferrybus(&folder.0, &["top", "--connection-string", &string]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("hint: `ferrybus top --once` prints one sample"), "{}", stderr(&output));
}

#[test]
fn top_reads_the_counters_of_the_broker() {
    let folder = Folder::new("top-real");
    let line = ["--listen", "127.0.0.1:0", "--durability", "none", "--queue", "orders", "--queue", "audit"];
    let broker = Broker::start(&folder.0, &line);
    let run = |line: &[&str]| {
        let mut line = line.to_vec();
        line.extend(["--connection-string", &broker.connection_string]);
        let output = ferrybus(&folder.0, &line);
        assert_eq!(code(&output), 0, "{line:?}: {}", stderr(&output));
        stdout(&output)
    };
    run(&["send", "orders", "--body", "tea", "--count", "5"]);
    run(&["receive", "orders", "--count", "2"]);
    run(&["receive", "orders", "--count", "1", "--settle", "dead-letter"]);
    let samples = run(&["top", "--once", "--json", "--sort", "name", "--reverse"]);
    let samples: Vec<serde_json::Value> =
        samples.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((samples.len(), &samples[0]["entity"]), (2, &"orders".into()));
    let figure = |name: &str| samples[0][name].as_f64();
    let figures = ["active", "dead_letter", "locked", "incoming_total", "outgoing_total"].map(figure);
    assert_eq!(figures, [Some(2.0), Some(1.0), Some(0.0), Some(5.0), Some(3.0)]);
    assert!(figure("oldest_age_seconds").is_some() && samples[1]["oldest_age_seconds"].is_null());
    let string = broker.connection_string.clone();
    let mut terminal = Terminal::start(&folder, &["top", "--connection-string", &string]);
    terminal.see("orders");
    terminal.press("\x03");
    assert!(terminal.end().success());
}

#[test]
fn resubmitting_and_purging_dead_letters_show_how_far_they_are() {
    let folder = Folder::new("progress");
    let line = ["--listen", "127.0.0.1:0", "--durability", "none", "--queue", "orders"];
    let broker = Broker::start(&folder.0, &line);
    let words = |line: &str| -> Vec<String> {
        let words = line.split(' ').map(str::to_owned);
        words.chain(["--connection-string".to_owned(), broker.connection_string.clone()]).collect()
    };
    let run = |line: &str| {
        let words = words(line);
        let output = ferrybus(&folder.0, &words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
    };
    let shown = |line: &str, last: &str| {
        let words = words(line);
        let mut terminal = Terminal::start(&folder, &words.iter().map(String::as_str).collect::<Vec<_>>());
        let shown = terminal.see(last);
        assert!(terminal.end().success(), "{shown}");
        shown
    };
    // A bar is for what takes longer than a moment: the faster the machine, the more that is.
    for count in [600, 2_500, 10_000] {
        run(&format!("send orders --body tea --count {count}"));
        run(&format!("receive orders --settle dead-letter --reason cold --count {count}"));
        let resubmitted =
            shown("dead-letter resubmit orders", &format!("resubmitted {count} messages to `orders`"));
        run(&format!("receive orders --settle dead-letter --reason cold --count {count}"));
        // Without a word of which ones, all go at once.
        let removed =
            shown("dead-letter purge orders --reason cold", &format!("removed {count} messages from"));
        let both = [(&resubmitted, "resubmitted"), (&removed, "removed")];
        if both.iter().all(|(text, word)| text.contains(&format!("{word} ["))) {
            for (text, word) in both {
                let bar = text.split('\r').find(|part| part.starts_with(&format!("{word} ["))).unwrap();
                assert!(bar.contains(&format!("of {count}")) && bar.ends_with("\x1b[K"), "{text:?}");
                // Nothing of it is left in front of the last line.
                assert!(text.contains(&format!("\r\x1b[K{word} {count} messages")), "{text:?}");
            }
            return;
        }
    }
    panic!("no bar was shown");
}

#[test]
fn sending_and_measuring_show_how_far_they_are() {
    let folder = Folder::new("progress-of-sends");
    let line = ["--listen", "127.0.0.1:0", "--durability", "none", "--queue", "orders"];
    let broker = Broker::start(&folder.0, &line);
    for (command, word, last) in [
        ("send orders --body tea", "sent", "messages to `orders`"),
        ("bench orders --size 100", "received", "p99"),
    ] {
        let bar = |count: u32| {
            let count = count.to_string();
            let words = command.split(' ').chain(["--count", &count]);
            let words = words.chain(["--connection-string", &broker.connection_string]);
            let mut terminal = Terminal::start(&folder, &words.collect::<Vec<_>>());
            let shown = terminal.see(last);
            assert!(terminal.end().success(), "{shown}");
            let bar = shown.split('\r').find(|part| part.starts_with(&format!("{word} [")))?.to_owned();
            // Nothing of it is left in front of the result.
            assert!(shown.contains("\r\x1b[K") && bar.ends_with("\x1b[K"), "{shown:?}");
            Some((bar, count))
        };
        // It is for what takes longer than a moment: the faster the machine, the more that is.
        let (bar, count) = [2_000, 20_000, 200_000].into_iter().find_map(bar).expect(command);
        assert!(bar.contains(&format!("of {count}")), "{bar}");
    }
}

#[test]
fn tables_and_errors_are_coloured_on_a_terminal_only() {
    let folder = Folder::new("colours");
    let line = ["--listen", "127.0.0.1:0", "--durability", "none", "--queue", "orders"];
    let broker = Broker::start(&folder.0, &line);
    let list = ["queue", "list", "--connection-string", &broker.connection_string];
    let mut terminal = Terminal::start(&folder, &list);
    let seen = terminal.see("orders");
    assert!(seen.contains("\x1b[1mNAME"), "{seen:?}");
    assert!(terminal.end().success());
    assert!(stdout(&ferrybus(&folder.0, &list)).starts_with("NAME"));
    let mut terminal = Terminal::start(
        &folder,
        &["queue", "show", "ordrs", "--connection-string", &broker.connection_string],
    );
    let seen = terminal.see("did you mean");
    assert!(seen.contains("\x1b[1;31merror:\x1b[0m"), "{seen:?}");
    assert_eq!(terminal.end().code(), Some(1));
}
