//! Clients that send a change over HTTP and disconnect before it is made.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::support::{Broker, Folder, until};

const BASIC: &str = "Basic Um9vdE1hbmFnZVNoYXJlZEFjY2Vzc0tleTpTQVNfS0VZX1ZBTFVF";
/// Changes of each kind.
const CHANGES: u32 = 60;
/// Each client disconnects so much later than the one before.
const STEP: Duration = Duration::from_micros(50);

fn connect(broker: &Broker) -> TcpStream {
    TcpStream::connect(&broker.addresses[0]).unwrap()
}

fn send(stream: &mut TcpStream, request: &str, body: &str) {
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {BASIC}\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
}

/// Status and body of the answer.
fn ask(broker: &Broker, request: &str, body: &str) -> (u16, String) {
    let mut stream = connect(broker);
    send(&mut stream, request, body);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn a_change_that_is_made_is_noted_though_its_client_disconnects() {
    let folder = Folder::new("early-disconnects");
    folder.write("ferrybus.toml", "listen = [\"127.0.0.1:0\"]\nshards = 2\ndurability = \"fsync\"\n");
    let log = folder.0.join("log");
    let broker = Broker::logged(&folder.0, &["--log-level", "info"], &log);
    let entity = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>"#;
    let kinds = [
        // action in the audit log, path, body, what an answer shows if it is there
        ("\"namespace-set\"", "/$ferrybus/namespaces/team", "{}", "\"uid\""),
        ("\"create\"", "/queue", entity, "QueueDescription"),
    ];
    for (action, path, body, shown) in kinds {
        let path = |number| format!("{path}-{number}?api-version=2021-05");
        for number in 0..CHANGES {
            let mut stream = connect(&broker);
            send(&mut stream, &format!("PUT {}", path(number)), body);
            // It disconnects before its request is looked at, in the middle of it, or after it.
            let begun = Instant::now();
            while begun.elapsed() < STEP * number {
                std::hint::spin_loop();
            }
        }
        // By the time at which these are answered, those before have begun, if they ever do.
        for number in CHANGES..CHANGES + 4 {
            assert_eq!(ask(&broker, &format!("PUT {}", path(number)), body).0, 201);
        }
        until(|| {
            let is_there =
                |number: &u32| ask(&broker, &format!("GET {}", path(*number)), "").1.contains(shown);
            let made = (0..CHANGES + 4).filter(is_there).count();
            let text = fs::read_to_string(&log).unwrap();
            let noted = text.lines().filter(|line| line.contains("administration") && line.contains(action));
            made == noted.count()
        });
    }
}
