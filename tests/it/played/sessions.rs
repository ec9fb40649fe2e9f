//! Sessions: order, and waits for the next one.

use super::driver::{Driver, Link, message_of};
use crate::replayed::broker_with;

const ACCEPTED: &str = "accepted()";

impl Driver<'_> {
    /// Takes a session, or the next one, on an AMQP session of its own; it must be this one.
    pub(super) fn accept(&mut self, entity: &str, id: Option<&str>, expected: &str) -> Link {
        self.authorize(entity);
        let channel = self.session();
        self.accept_on(channel, entity, id, expected)
    }

    fn accept_on(&mut self, channel: u16, entity: &str, id: Option<&str>, expected: &str) -> Link {
        let filter = id.map_or_else(|| "null".to_owned(), |id| format!("\"{id}\""));
        let properties = if id.is_none() { "'com.microsoft:timeout': 20000" } else { "" };
        let filter = format!("'com.microsoft:session-filter': {filter}");
        let (handle, name) = self.attach(channel, entity, &filter, properties);
        self.play(&format!(
            r#"< {channel} attach(name: "{name}", role: false, rcv-settle-mode: 1u8, source: source(address: "/{entity}",
    filter: {{'com.microsoft:session-filter': "{expected}"}}), initial-delivery-count: ?uint,
    properties: {{'com.microsoft:locked-until-utc': ?long}})
"#
        ));
        Link { channel, handle, count: 0 }
    }

    /// Waits for the next session in vain.
    fn accept_in_vain(&mut self, channel: u16, entity: &str) {
        let filter = "'com.microsoft:session-filter': null";
        let (handle, name) = self.attach(channel, entity, filter, "'com.microsoft:timeout': 2000");
        self.play(&format!(
            r#"! advance 2000
< {channel} attach(name: "{name}", role: false, source: null, target: null)
< {channel} detach(handle: {handle}, closed: true, error: error(condition: 'com.microsoft:timeout'))
> {channel} detach(handle: {handle}, closed: true)
"#
        ));
    }
}

#[test]
fn scripted_dotnet_receives_a_session_in_order_with_and_without_prefetch() {
    for prefetch in [0, 5] {
        let broker = broker_with(&["s/sessions"]);
        let mut driver = Driver::connect(&broker, 1);
        let sending = driver.session();
        let sender = driver.sender(sending, "s");
        for number in 0..20 {
            for session in ["alpha", "beta"] {
                driver.send(&sender, None, &message_of(session, &format!("{session}{number}")), ACCEPTED);
            }
        }
        for session in ["beta", "alpha"] {
            let mut link = driver.accept("s", Some(session), session);
            if prefetch > 0 {
                driver.flow(&link, prefetch, false);
            }
            for number in 0..20 {
                if prefetch == 0 {
                    driver.flow(&link, 1, false);
                }
                let delivery = driver.delivery(&mut link, 0, &format!("{session}{number}"));
                driver.settle(&delivery, ACCEPTED);
                if prefetch > 0 && number + prefetch < 20 {
                    driver.flow(&link, prefetch, false);
                }
            }
            driver.detach(&link);
        }
        driver.close();
    }
}

#[test]
fn scripted_dotnet_waits_for_the_next_session_in_vain_and_keeps_the_one_that_it_has() {
    for cross_entity in [false, true] {
        let broker = broker_with(&["s/sessions", "q"]);
        let mut driver = Driver::connect(&broker, 1);
        let channel = driver.session();
        if cross_entity {
            driver.controller(channel);
        }
        let mut link = {
            driver.authorize("s");
            let sending = driver.session();
            let sender = driver.sender(sending, "s");
            for text in ["one", "two"] {
                driver.send(&sender, None, &message_of("alpha", text), ACCEPTED);
            }
            driver.accept_on(channel, "s", None, "alpha")
        };
        let one = driver.receive(&mut link, 0, "one");
        driver.settle(&one, ACCEPTED);
        let waiting = if cross_entity { channel } else { driver.session() };
        driver.accept_in_vain(waiting, "s");
        let two = driver.receive(&mut link, 0, "two");
        driver.settle(&two, ACCEPTED);
        driver.drain(&mut link, 1);
        driver.close();
    }
}
