//! What the log shows of sessions and links.

use std::{cell::RefCell, io};

use tracing::{Level, callsite, subscriber::set_global_default};

use crate::harness::World;

thread_local! {
    /// What was logged on this thread: each test has its own.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn each_link_has_a_span_below_its_session_and_messages_have_none() {
    let lines = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false).without_time();
    // For all threads: what one of them has found to be off stays off for the others.
    set_global_default(lines.with_writer(|| Log).finish()).unwrap();
    callsite::rebuild_interest_cache();
    let mut world = World::new();
    world.create("orders", broker_core::EntitySettings::default());
    let client = world.plain();
    world.send(client, "orders", &["a", "b"]);
    assert_eq!(world.receive(client, "orders", 2).len(), 2);
    world.script(client).attach_sender(0, 99, "lost", Some("nowhere"));
    world.run();
    let (_, detaches) = world.link_frames(client);
    let told = detaches[0].error.as_ref().unwrap().description.clone().unwrap();
    // A mistake of the protocol, which the engine tells by itself.
    world.script(client).transfer(0, 77, 0, false, b"");
    world.run();
    let ended = world.frames(client).into_iter().find_map(|frame| match frame.performative {
        amqp_codec::performative::Performative::End(end) => end.error?.description,
        _ => None,
    });
    let text = String::from_utf8(LOG.take()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let count =
        |what: &[&str]| lines.iter().filter(|line| what.iter().all(|part| line.contains(part))).count();
    assert_eq!(count(&["session{number=", "role=\"sender\" address=\"orders\"}", "attached"]), 1, "{text}");
    assert_eq!(count(&["session{number=", "role=\"receiver\" address=\"orders\"}", "attached"]), 1, "{text}");
    let refused = ["link{name=\"lost\" role=\"sender\" address=\"nowhere\"}", "refused", "amqp:not-found"];
    assert_eq!(count(&refused), 1, "{text}");
    assert_eq!(count(&["role=\"sender\"", "gone"]), 2, "{text}");
    // Both texts are there as the client has them, with their tracking ids.
    for told in [told, ended.unwrap()] {
        assert!(told.contains("TrackingId:"), "{told}");
        assert_eq!(count(&["told", &told]), 1, "{told} in {text}");
    }
    assert_eq!(lines.len(), 8, "and nothing else: {text}");
    assert!(lines.iter().all(|line| line.trim_start().starts_with("DEBUG")), "{text}");
}
