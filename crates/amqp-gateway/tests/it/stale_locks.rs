//! Settlements by a receiver whose session lock has ended.

use amqp_codec::{
    performative::DeliveryState,
    raw::{AnnotationValue, RawMap, RawValue},
};

use crate::{
    harness::{World, property, status, texts},
    sessions::{LOCK, accept, lock_token, send, session, world},
};

/// State of the session after its holder's lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Since {
    /// The time of the lock has passed, and nothing has looked at it.
    Over,
    /// The holder was detached.
    Told,
    /// The holder was detached, and has detached as well.
    Left,
    /// Another client has accepted the session.
    Taken,
    /// Another client has accepted the session and was given the message.
    Delivered,
    /// The same client has accepted the session on another link, and was given the message.
    AcceptedAgain,
}

/// The holder's settlement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum By {
    /// A disposition that waits for an answer.
    Unsettled,
    /// A disposition that does not.
    Settled,
    /// The lock token, in a request that names the session or not, and its link or not.
    Token { names_session: bool, names_link: bool },
}

pub(crate) const SINCE: [Since; 6] =
    [Since::Over, Since::Told, Since::Left, Since::Taken, Since::Delivered, Since::AcceptedAgain];

const BY: [By; 6] = [
    By::Unsettled,
    By::Settled,
    By::Token { names_session: false, names_link: false },
    By::Token { names_session: true, names_link: false },
    By::Token { names_session: false, names_link: true },
    By::Token { names_session: true, names_link: true },
];

const HOLDER_LINK: u32 = 1;

/// A client that holds a delivery of session `a`, and its lock token in an array.
pub(crate) fn held() -> (World, usize, u32, Vec<u8>) {
    let mut world = world();
    let holder = world.service_bus();
    world.management(holder, "s");
    send(&mut world, holder, &["a1"]);
    accept(&mut world, holder, HOLDER_LINK, "a");
    world.credit(holder, 0, HOLDER_LINK, 0, 1, false);
    world.run();
    let (transfer, payload) = world.transfers(holder).remove(0);
    (world, holder, transfer.delivery_id.unwrap(), lock_token(&payload))
}

/// The same after the lock has ended so.
pub(crate) fn lapsed(since: Since) -> (World, usize, u32, Vec<u8>) {
    let (mut world, holder, delivery, tokens) = held();
    let other = world.service_bus();
    let found = (delivery, tokens);
    if since == Since::Over {
        world.now.instant += LOCK;
        world.now.utc = world.now.utc.after(LOCK);
        return (world, holder, found.0, found.1);
    }
    world.pass(LOCK);
    if since == Since::Left {
        world.script(holder).detach(0, HOLDER_LINK, true);
        world.run();
    }
    world.received(holder);
    let next = match since {
        Since::Over | Since::Told | Since::Left => None,
        Since::Taken | Since::Delivered => Some(other),
        Since::AcceptedAgain => Some(holder),
    };
    if let Some(next) = next {
        accept(&mut world, next, 7, "a");
        if since != Since::Taken {
            world.credit(next, 0, 7, 0, 1, false);
            world.run();
            assert_eq!(texts(&world.transfers(next)), ["a1"], "{since:?}");
        }
    }
    (world, holder, found.0, found.1)
}

/// Completes the message by what its holder has, and says the condition of the refusal, if there is an answer.
fn complete(world: &mut World, client: usize, by: By, delivery: u32, tokens: &[u8]) -> Option<String> {
    let By::Token { names_session, names_link } = by else {
        let settled = by == By::Settled;
        world.script(client).disposition(0, delivery, delivery, settled, Some(DeliveryState::Accepted));
        world.run();
        return world.dispositions(client).pop().map(|answer| match answer.state {
            Some(DeliveryState::Rejected(Some(error))) => error.condition.to_string(),
            other => panic!("{other:?}"),
        });
    };
    let tokens = ("lock-tokens", AnnotationValue::Raw(RawValue::first(tokens).unwrap()));
    let outcome = ("disposition-status", AnnotationValue::Str("completed"));
    let named = names_session.then(|| session("a"));
    let body = RawMap::with_string_keys(&[tokens, outcome].into_iter().chain(named).collect::<Vec<_>>());
    let link = names_link.then(|| format!("r{HOLDER_LINK}"));
    let operation = "com.microsoft:update-disposition";
    let reply = world.request_of_link(client, operation, link.as_deref(), &body);
    assert_eq!(status(&reply, "statusCode"), 410, "{reply:?}");
    property(&reply, "errorCondition")
}

#[test]
fn a_lock_of_a_session_that_has_ended_completes_nothing() {
    for since in SINCE {
        for by in BY {
            let (mut world, holder, delivery, tokens) = lapsed(since);
            let told = complete(&mut world, holder, by, delivery, &tokens);
            // A delivery whose link is gone on both sides is unknown, and a disposition of it has no answer.
            let is_answered = by != By::Settled && (by != By::Unsettled || since != Since::Left);
            let wanted = is_answered.then_some("com.microsoft:session-lock-lost");
            assert_eq!(told.as_deref(), wanted, "{since:?} {by:?}");
            assert_eq!(world.active("s"), 1, "{since:?} {by:?}");
        }
    }
}

#[test]
fn a_lock_of_a_session_that_runs_completes_the_message() {
    for by in BY {
        let (mut world, holder) = {
            let mut world = world();
            let holder = world.service_bus();
            (world, holder)
        };
        world.management(holder, "s");
        send(&mut world, holder, &["a1"]);
        accept(&mut world, holder, HOLDER_LINK, "a");
        world.credit(holder, 0, HOLDER_LINK, 0, 1, false);
        world.run();
        let (transfer, payload) = world.transfers(holder).remove(0);
        let (delivery, tokens) = (transfer.delivery_id.unwrap(), lock_token(&payload));
        world.now.instant += LOCK / 2;
        world.now.utc = world.now.utc.after(LOCK / 2);
        if let By::Token { .. } = by {
            let tokens = ("lock-tokens", AnnotationValue::Raw(RawValue::first(&tokens).unwrap()));
            let outcome = ("disposition-status", AnnotationValue::Str("completed"));
            let body = RawMap::with_string_keys(&[tokens, outcome]);
            let reply = world.request(holder, "com.microsoft:update-disposition", &body);
            assert_eq!(status(&reply, "statusCode"), 200);
        } else {
            let settled = by == By::Settled;
            world.script(holder).disposition(0, delivery, delivery, settled, Some(DeliveryState::Accepted));
            world.run();
        }
        assert_eq!(world.active("s"), 0, "{by:?}");
    }
}
