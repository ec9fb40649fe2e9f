//! What the log shows of sessions, links and refusals.

use std::{
    cell::RefCell,
    io,
    sync::{Arc, Once},
    time::Duration,
};

use amqp_gateway::{GatewayConfig, RefusalLog};
use broker_auth::Anonymous;
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

/// From now on the log of this thread is kept.
fn keep_log() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let lines = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false).without_time();
        // For all threads: what one of them has found to be off stays off for the others.
        set_global_default(lines.with_writer(|| Log).finish()).unwrap();
        callsite::rebuild_interest_cache();
    });
    LOG.take();
}

/// The log of this thread since the last call.
fn log() -> String {
    String::from_utf8(LOG.take()).unwrap()
}

#[test]
fn each_link_has_a_span_below_its_session_and_messages_have_none() {
    keep_log();
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
    let text = log();
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
        assert_eq!(count(&[" WARN ", "refused", &told, "others=0"]), 1, "{told} in {text}");
    }
    assert_eq!(lines.len(), 8, "and nothing else: {text}");
    assert_eq!(lines.iter().filter(|line| line.trim_start().starts_with("DEBUG")).count(), 6, "{text}");
}

#[test]
fn refusals_beyond_the_number_of_a_minute_are_counted_and_not_warned_of() {
    keep_log();
    let refusals = Arc::new(RefusalLog::new(2));
    let mut world = World::with(GatewayConfig { refusals, ..GatewayConfig::default() }, Anonymous::Deny);
    // The number is for all connections together.
    let clients = [world.plain(), world.plain()];
    let refuse = |world: &mut World, number: u32| {
        let client = clients[number as usize % 2];
        world.script(client).attach_sender(0, 10 + number, &format!("lost-{number}"), Some("nowhere"));
        world.run();
        let (_, detaches) = world.link_frames(client);
        detaches[0].error.as_ref().unwrap().description.clone().unwrap()
    };
    let told: Vec<String> = (0..6).map(|number| refuse(&mut world, number)).collect();
    let text = log();
    let has = |level: &str, what: &str| text.lines().any(|line| line.contains(level) && line.contains(what));
    for (number, told) in told.iter().enumerate() {
        assert_eq!(has(" WARN ", told), number < 2, "{number}: {text}");
        assert!(has(if number < 2 { " WARN " } else { "DEBUG " }, told), "{number}: {text}");
    }
    assert_eq!(text.matches("more is refused than is logged").count(), 1, "{text}");
    world.pass(Duration::from_secs(30));
    log();
    let told = refuse(&mut world, 6);
    let text = log();
    let line = text.lines().find(|line| line.contains(" WARN ")).unwrap();
    assert!(line.contains(&told) && line.contains("others=4"), "{text}");
}

#[test]
fn refusals_in_the_usual_course_of_things_are_no_warnings_and_hide_none() {
    keep_log();
    let refusals = Arc::new(RefusalLog::new(1));
    let mut world = World::with(GatewayConfig { refusals, ..GatewayConfig::default() }, Anonymous::Deny);
    let client = world.plain();
    world.clients[client].gateway.close(world.now, amqp_gateway::CloseReason::Shutdown);
    let text = log();
    assert!(text.contains(" INFO ") && text.contains("amqp:connection:forced"), "{text}");
    assert!(!text.contains(" WARN "), "{text}");
    let other = world.plain();
    world.script(other).attach_sender(0, 10, "lost", Some("nowhere"));
    world.run();
    let text = log();
    let line = text.lines().find(|line| line.contains(" WARN ")).unwrap();
    assert!(line.contains("namespace=\"default\"") && line.contains("amqp:not-found"), "{text}");
}
