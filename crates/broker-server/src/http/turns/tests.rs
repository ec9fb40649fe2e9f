use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::*;

/// Requests that a client sends in one piece.
const REQUESTS: usize = 40;

#[test]
fn another_task_has_a_turn_for_each_answer_to_requests_that_came_together() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = duplex(1 << 20);
        let turns_of_other = Arc::new(AtomicUsize::new(0));
        let at_answers = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (seen, answered) = (Arc::clone(&turns_of_other), Arc::clone(&at_answers));
        let service = service_fn(move |_: Request<Incoming>| {
            let (seen, answered) = (Arc::clone(&seen), Arc::clone(&answered));
            after_others(async move {
                answered.lock().unwrap().push(seen.load(Ordering::Relaxed));
                Ok::<_, Infallible>(Response::new(String::new()))
            })
        });
        let request = "GET / HTTP/1.1\r\nhost: here\r\n";
        let requests = format!("{request}\r\n").repeat(REQUESTS - 1);
        let all = format!("{requests}{request}connection: close\r\n\r\n");
        client.write_all(all.as_bytes()).await.unwrap();
        let other = tokio::spawn(async move {
            loop {
                turns_of_other.fetch_add(1, Ordering::Relaxed);
                task::yield_now().await;
            }
        });
        let serving = http1::Builder::new().serve_connection(TokioIo::new(server), service);
        tokio::spawn(serving).await.unwrap().unwrap();
        other.abort();
        let mut answers = Vec::new();
        client.read_to_end(&mut answers).await.unwrap();
        assert_eq!(String::from_utf8(answers).unwrap().matches("HTTP/1.1 200").count(), REQUESTS);
        let at_answers = at_answers.lock().unwrap();
        // The runtime gives each task one turn in a round, in the opposite order of the round before.
        assert!(at_answers.windows(3).all(|three| three[0] < three[2]), "{at_answers:?}");
        assert!(at_answers.last().is_some_and(|turns| *turns + 1 >= REQUESTS), "{at_answers:?}");
    });
}
