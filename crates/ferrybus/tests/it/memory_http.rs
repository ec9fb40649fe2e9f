//! Memory under those who ask over HTTP and are wrong, slow or greedy: as `memory.rs`.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use crate::memory::{IDLE, KIB, MIB, Scene, pour};

/// Bytes of the largest body that is read, and of the largest head.
const BODY: u64 = MIB;
const HEAD: u64 = 32 * KIB;
/// `RootManageSharedAccessKey:SAS_KEY_VALUE`.
const LOGIN: &str = "Authorization: Basic Um9vdE1hbmFnZVNoYXJlZEFjY2Vzc0tleTpTQVNfS0VZX1ZBTFVF\r\n";

fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn put(headers: &str) -> Vec<u8> {
    format!("PUT /made?api-version=2021-05 HTTP/1.1\r\nHost: x\r\n{LOGIN}{headers}\r\n").into_bytes()
}

/// The status of the one answer on a connection.
fn status(mut stream: TcpStream) -> u16 {
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    std::str::from_utf8(&head[9..]).unwrap().parse().unwrap()
}

/// A body of so many bytes, each in a chunk of its own.
fn crumbs(bytes: usize) -> Vec<u8> {
    b"1\r\nx\r\n".repeat(bytes)
}

#[test]
fn bodies_that_do_not_end_cost_the_largest_body_each() {
    const CONNECTIONS: u64 = 30;
    const ALMOST: usize = (1 << 20) - 1;
    let mut scene = Scene::with("memory-http-bodies", "");
    let chunked = put("Transfer-Encoding: chunked\r\n");
    let mut open = Vec::new();
    for round in 0..CONNECTIONS {
        let mut stream = connected(scene.address());
        let (head, body) = match round % 3 {
            0 => (put("Content-Length: 1073741824\r\n"), vec![b'x'; ALMOST]),
            1 => (chunked.clone(), [&b"fffff\r\n"[..], &vec![b'x'; ALMOST]].concat()),
            // A third of them costs as much as the others if what came is kept in one piece.
            _ => (chunked.clone(), crumbs(60_000)),
        };
        assert!(pour(&mut stream, &head) && pour(&mut stream, &body));
        open.push(stream);
    }
    scene.innocent_works();
    // More than there may be; or the time for a body was over meanwhile.
    let chunk = [&b"fffff\r\n"[..], &vec![b'x'; ALMOST]].concat();
    for (round, mut stream) in open.into_iter().enumerate() {
        pour(&mut stream, if round % 3 == 2 { &chunk } else { b"\r\n2\r\nxx\r\n" });
        let status = status(stream);
        assert!([413, 408].contains(&status), "{round}: {status}");
    }
    // The buffer of a body may have doubled, and what came last waits in front of it.
    scene.bounded_by(CONNECTIONS * (IDLE + 2 * BODY + 2 * HEAD));
}

#[test]
fn documents_that_grow_cost_a_few_times_their_size() {
    const AT_ONCE: u64 = 8;
    let entity = |name: char| {
        format!("<!ENTITY {name} \"{}\">", format!("&{};", char::from(name as u8 - 1)).repeat(10))
    };
    let entities = ('b'..='j').map(entity).collect::<Vec<_>>().concat();
    let laughs = format!("<!DOCTYPE x [<!ENTITY a \"ha\">{entities}]><x>&j;</x>");
    let many = |count: u32, one: fn(u32) -> String| (0..count).map(one).collect::<Vec<_>>().concat();
    let documents = [
        ("entities", laughs),
        ("depth", "<a>".repeat(300_000)),
        ("elements", format!("<x>{}</x>", "<a/>".repeat(250_000))),
        ("attributes", format!("<x {}/>", many(90_000, |n| format!("a{n}=\"\" ")))),
        ("namespaces", format!("<x {}/>", many(40_000, |n| format!("xmlns:a{n}=\"b{n}\" ")))),
        ("references", format!("<x>{}</x>", "&amp;".repeat(200_000))),
    ];
    let mut scene = Scene::with("memory-http-documents", "");
    for (what, document) in documents {
        assert!(document.len() as u64 <= BODY, "{what}: {}", document.len());
        let request =
            [put(&format!("Content-Length: {}\r\n", document.len())), document.into_bytes()].concat();
        let asking: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (request, mut stream) = (request.clone(), connected(scene.address()));
                thread::spawn(move || {
                    stream.write_all(&request).unwrap();
                    status(stream)
                })
            })
            .collect();
        for asking in asking {
            assert_eq!(asking.join().unwrap(), 400, "{what}");
        }
        scene.innocent_works();
    }
    // A body whose buffer has doubled; each of the two threads reads one document at a time, whose 20,000 nodes have far
    // less than 200 bytes each.
    scene.bounded_by(AT_ONCE * (IDLE + 2 * BODY + 2 * HEAD) + 2 * (20_000 * 200 + BODY));
}

#[test]
fn heads_that_do_not_end_cost_the_largest_head_each() {
    const CONNECTIONS: u64 = 200;
    let mut scene = Scene::with("memory-http-heads", "");
    let line = format!("X-{}: {}\r\n", "a".repeat(100), "b".repeat(800));
    let head = format!("GET /orders HTTP/1.1\r\n{}", line.repeat(34));
    assert!((head.len() as u64) < HEAD);
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = connected(scene.address());
        assert!(pour(&mut stream, head.as_bytes()));
        open.push(stream);
    }
    scene.innocent_works();
    scene.bounded_by(CONNECTIONS * (IDLE + 2 * HEAD));
}

#[test]
fn a_client_that_reads_no_answers_costs_one_answer() {
    const CLIENTS: u64 = 20;
    let queues = (0..500).map(|number| format!("[[queue]]\nname = \"q{number:03}\"\n"));
    let queues = queues.collect::<Vec<_>>().concat();
    for (what, path) in [("list", "/$Resources/queues?api-version=2021-05&$top=500"), ("metrics", "/metrics")]
    {
        let mut scene = Scene::with(&format!("memory-http-answers-{what}"), &queues);
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{LOGIN}\r\n");
        let mut stream = connected(scene.address());
        stream.write_all(request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 ") && text.len() > 400_000, "{what}: {}", text.len());
        let answer = text.len() as u64;
        scene.measure();
        let mut open = Vec::new();
        for _ in 0..CLIENTS {
            let mut stream = connected(scene.address());
            // Each asks for far more than one, and reads nothing.
            assert!(pour(&mut stream, request.repeat(100).as_bytes()));
            open.push(stream);
        }
        for _ in 0..20 {
            scene.innocent_works();
        }
        // The first byte of each comes when its answer was made.
        for mut stream in open.iter().map(|stream| stream.try_clone().unwrap()) {
            assert!(stream.read(&mut [0]).is_ok_and(|count| count == 1), "{what}");
        }
        // One answer in pieces, and one that is being made.
        scene.bounded_by(CLIENTS * (IDLE + 2 * HEAD + answer) + 2 * answer);
    }
}
