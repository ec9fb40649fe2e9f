//! Topics, subscriptions and rules. The rules of most cases come from the broker's configuration;
//! `rules_are_managed` makes its own.

use std::time::{Duration, SystemTime};

use azservicebus::administration::{
    CorrelationRuleFilter, FalseRuleFilter, RuleAction, RuleFilter, RuleProperties, SqlRuleAction,
    SqlRuleFilter, TrueRuleFilter,
};
use azservicebus::primitives::service_bus_message_state::ServiceBusMessageState;
use azservicebus::receiver::DeadLetterOptions;
use azservicebus::{
    ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusRuleManager, ServiceBusSessionReceiverOptions,
};
use azure_core::Error;
use serde_amqp::Value;
use serde_amqp::primitives::OrderedMap;

use crate::Outcome;
use crate::cases::sessions::send_to_sessions;
use crate::setting::{Setting, all, assert_empty, assert_refused, many, one, text, texts};

pub async fn play(name: &str, setting: &Setting) -> Outcome {
    match name {
        "each-subscription-gets-its-copy" => copies(setting).await,
        "copies-are-settled-apart" => settled_apart(setting).await,
        "rules-choose" => rules_choose(setting).await,
        "actions-change-their-copy" => actions(setting).await,
        "a-failing-rule-makes-a-dead-letter" => failing_rule(setting).await,
        "schedule-and-cancel" => schedule(setting).await,
        "peek" => peek(setting).await,
        "copies-expire-apart" => expire_apart(setting).await,
        "what-is-refused" => refused(setting).await,
        "rules-are-managed" => rules_are_managed(setting).await,
        "sessions" => sessions(setting).await,
        other => Err(format!("no case named `topics/{other}`").into()),
    }
}

type Properties = OrderedMap<String, Value>;

fn properties<const N: usize>(pairs: [(&str, Value); N]) -> Properties {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn word(text: &str) -> Value {
    Value::from(text)
}

/// A message with application properties, and the subject `order` unless it is named `other`.
fn order<const N: usize>(body: &str, pairs: [(&str, Value); N]) -> ServiceBusMessage {
    let mut message = ServiceBusMessage::new(body);
    message.set_subject((if body == "other" { "x" } else { "order" }).to_owned());
    let own = message.application_properties_mut().get_or_insert_default();
    for (key, value) in pairs {
        own.insert(key.to_owned(), value.try_into().expect("a simple value"));
    }
    message
}

/// The application properties of a message, as text to compare.
fn told(message: &ServiceBusReceivedMessage) -> Vec<String> {
    let own = message.application_properties();
    let mut all: Vec<String> =
        own.into_iter().flat_map(|own| own.0.iter()).map(|(key, value)| format!("{key}={value:?}")).collect();
    all.sort_unstable();
    all
}

/// Receives and completes the `count` messages that a subscription must hold.
async fn taken(
    setting: &Setting,
    subscription: &str,
    count: usize,
) -> Result<Vec<ServiceBusReceivedMessage>, Error> {
    let mut client = setting.client().await?;
    let mut receiver = setting.subscription(&mut client, subscription).await?;
    let taken = all(&mut receiver, count).await?;
    receiver.dispose().await?;
    client.dispose().await?;
    Ok(taken)
}

async fn publish(setting: &Setting, messages: Vec<ServiceBusMessage>) -> Result<(), Error> {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    for message in messages {
        sender.send_message(message).await?;
    }
    sender.dispose().await?;
    client.dispose().await
}

fn because(reason: &str) -> DeadLetterOptions {
    DeadLetterOptions {
        dead_letter_reason: Some(reason.to_owned()),
        dead_letter_error_description: None,
        properties_to_modify: None,
    }
}

async fn copies(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    let mut first = ServiceBusMessage::new("one");
    first.set_message_id("m1")?;
    sender.send_message(first).await?;
    sender.send_messages(["two", "three"]).await?;
    sender.dispose().await?;
    client.dispose().await?;
    for subscription in ["a", "b"] {
        let got = taken(setting, subscription, 3).await?;
        assert_eq!(texts(&got), ["one", "two", "three"]);
        let numbers: Vec<_> = got
            .iter()
            .map(|message| (message.sequence_number(), message.enqueued_sequence_number()))
            .collect();
        assert_eq!(numbers, [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(got[0].message_id().as_deref(), Some("m1"));
    }
    Ok(())
}

async fn settled_apart(setting: &Setting) -> Outcome {
    publish(setting, ["m0", "m1", "m2", "m3"].map(ServiceBusMessage::new).into()).await?;
    let mut client = setting.client().await?;
    let mut receiver = setting.subscription(&mut client, "a").await?;
    let got = many(&mut receiver, 4).await?;
    receiver.complete_message(&got[0]).await?;
    receiver.dead_letter_message(&got[1], because("why")).await?;
    receiver.defer_message(&got[2], None).await?;
    receiver.abandon_message(&got[3], None).await?;
    let deferred =
        receiver.receive_deferred_message(got[2].sequence_number()).await?.expect("it is deferred");
    assert_eq!(text(&deferred), "m2");
    receiver.complete_message(&deferred).await?;
    let again = one(&mut receiver).await?;
    assert_eq!((text(&again), again.delivery_count()), ("m3", Some(2)));
    receiver.complete_message(&again).await?;
    assert_empty(&mut receiver).await?;
    let mut dead_letters = setting.dead_letters_of(&mut client, "a").await?;
    let dead = all(&mut dead_letters, 1).await?;
    assert_eq!((text(&dead[0]), dead[0].dead_letter_reason()), ("m1", Some("why")));
    receiver.dispose().await?;
    dead_letters.dispose().await?;
    client.dispose().await?;
    assert_eq!(texts(&taken(setting, "b", 4).await?), ["m0", "m1", "m2", "m3"]);
    Ok(())
}

async fn rules_choose(setting: &Setting) -> Outcome {
    let messages = vec![
        order("small", [("amount", Value::Int(5)), ("colour", word("red")), ("n", Value::Int(5))]),
        order("large", [("amount", Value::Int(500)), ("colour", word("blue"))]),
        order("other", [("amount", Value::Int(500))]),
        order("bare", []),
    ];
    publish(setting, messages).await?;
    let expected: [(&str, &[&str]); 4] = [
        ("all", &["small", "large", "other", "bare"]),
        ("none", &[]),
        ("big", &["large"]),
        ("red", &["small"]),
    ];
    for (subscription, bodies) in expected {
        assert_eq!(texts(&taken(setting, subscription, bodies.len()).await?), bodies, "{subscription}");
    }
    Ok(())
}

async fn actions(setting: &Setting) -> Outcome {
    let given = [("amount", Value::Int(5_000)), ("colour", word("red")), ("priority", word("low"))];
    let mut message = order("m", given);
    message.set_to("there".to_owned());
    publish(setting, vec![message]).await?;
    let got = taken(setting, "changed", 3).await?;
    let by_rule = |name: &str| {
        let named = format!("RuleName=String({name:?})");
        got.iter().find(|message| told(message).contains(&named)).expect("a copy by this rule")
    };
    let plain = got
        .iter()
        .find(|message| !told(message).concat().contains("RuleName"))
        .expect("a copy without action");
    let (first, second) = (by_rule("first"), by_rule("second"));
    let untouched = taken(setting, "all", 1).await?;
    assert_eq!(told(plain), told(&untouched[0]), "the plain copy is the message itself");
    assert_eq!(told(plain), ["amount=Int(5000)", "colour=String(\"red\")", "priority=String(\"low\")"]);
    assert_eq!(plain.to(), Some("there"));
    assert_eq!(told(first), ["RuleName=String(\"first\")", "amount=Int(5000)", "priority=String(\"high\")"]);
    assert_eq!((first.to(), first.subject()), (Some("Entity"), Some("order")));
    let second = told(second);
    assert_eq!(second[0], "RuleName=String(\"second\")");
    assert!(second[1].contains("5001") && second[2..] == told(plain)[1..], "{second:?}");
    Ok(())
}

async fn failing_rule(setting: &Setting) -> Outcome {
    publish(setting, vec![ServiceBusMessage::new("m")]).await?;
    assert_eq!(texts(&taken(setting, "good", 1).await?), ["m"]);
    taken(setting, "bad", 0).await?;
    let mut client = setting.client().await?;
    let mut dead_letters = setting.dead_letters_of(&mut client, "bad").await?;
    let dead = all(&mut dead_letters, 1).await?;
    assert_eq!((text(&dead[0]), dead[0].dead_letter_reason()), ("m", Some("FilterException")));
    dead_letters.dispose().await?;
    Ok(client.dispose().await?)
}

/// What is scheduled waits at the topic, and the rules choose when it is due. The clock is the case's own.
async fn schedule(setting: &Setting) -> Outcome {
    let due = SystemTime::now() + Duration::from_secs(600);
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    let wanted = || [("colour", word("red"))];
    let messages =
        [order("later", wanted()), order("cancelled", wanted()), order("blue", [("colour", word("blue"))])];
    let numbers = sender.schedule_messages(messages, due.into()).await?;
    sender.cancel_scheduled_message(numbers[1]).await?;
    assert_refused(sender.cancel_scheduled_message(numbers[1]).await, "404");
    let mut receiver = setting.subscription(&mut client, "red").await?;
    assert!(receiver.peek_message(Some(1)).await?.is_none(), "it waits at the topic");
    assert_empty(&mut receiver).await?;
    setting.control.advance_clock(Duration::from_secs(601))?;
    assert_eq!(texts(&all(&mut receiver, 1).await?), ["later"]);
    assert_refused(sender.cancel_scheduled_message(numbers[0]).await, "404");
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

async fn peek(setting: &Setting) -> Outcome {
    publish(setting, vec![ServiceBusMessage::new("m")]).await?;
    let mut client = setting.client().await?;
    let mut receiver = setting.subscription(&mut client, "a").await?;
    let peeked = receiver.peek_messages(5, Some(1)).await?;
    assert_eq!(peeked.len(), 1);
    assert_eq!((peeked[0].body()?, peeked[0].state()), (&b"m"[..], ServiceBusMessageState::Active));
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

/// `short` keeps its copies for a minute, `long` for ever. The clock is the case's own.
async fn expire_apart(setting: &Setting) -> Outcome {
    publish(setting, vec![ServiceBusMessage::new("m")]).await?;
    setting.control.advance_clock(Duration::from_secs(61))?;
    taken(setting, "short", 0).await?;
    let mut client = setting.client().await?;
    let mut dead_letters = setting.dead_letters_of(&mut client, "short").await?;
    let dead = all(&mut dead_letters, 1).await?;
    assert_eq!((text(&dead[0]), dead[0].dead_letter_reason()), ("m", Some("TTLExpiredException")));
    assert_eq!(texts(&taken(setting, "long", 1).await?), ["m"]);
    dead_letters.dispose().await?;
    Ok(client.dispose().await?)
}

async fn refused(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    assert_refused(setting.subscription(&mut client, "missing").await, "NotFound");
    let mut client = setting.client().await?;
    assert_refused(setting.receiver(&mut client).await, "NotAllowed");
    let mut client = setting.client().await?;
    let straight = setting.with_queue(&format!("{}/Subscriptions/a", setting.queue));
    assert_refused(straight.sender(&mut client).await, "NotAllowed");
    Ok(())
}

fn names(rules: &[RuleProperties]) -> Vec<&str> {
    rules.iter().map(|rule| rule.name.as_str()).collect()
}

async fn add_rules(rules: &mut ServiceBusRuleManager, equal: &CorrelationRuleFilter) -> Outcome {
    rules.create_rule("equal", equal.clone()).await?;
    let action = SqlRuleAction::new("SET big = 'yes'");
    rules.create_rule("large", (SqlRuleFilter::new("n > 3"), action)).await?;
    rules.create_rule("everything", TrueRuleFilter).await?;
    rules.create_rule("nothing", FalseRuleFilter).await?;
    assert_refused(rules.create_rule("large", TrueRuleFilter).await, "409");
    assert_refused(rules.create_rule("bad", SqlRuleFilter::new("n >")).await, "line 1, column 4");
    assert_refused(rules.delete_rule("missing").await, "404");
    Ok(())
}

async fn rules_are_managed(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut rules = client.create_rule_manager(&setting.queue, "s").await?;
    let found = rules.get_rules().await?;
    assert_eq!(names(&found), ["$Default"]);
    assert_eq!(found[0].filters, RuleFilter::True(TrueRuleFilter));
    rules.delete_rule("$Default").await?;
    assert!(rules.get_rules().await?.is_empty(), "a list without rules is a list");
    publish(setting, vec![order("for nobody", [])]).await?;

    let equal = CorrelationRuleFilter::builder()
        .subject("order")
        // The broker tells integers of a filter as `long`, whatever their size was.
        .properties(properties([("colour", word("red")), ("n", Value::Long(5))]))
        .build();
    add_rules(&mut rules, &equal).await?;
    let found = rules.get_rules().await?;
    assert_eq!(names(&found), ["equal", "everything", "large", "nothing"]);
    assert_eq!(found[0].filters, RuleFilter::Correlation(equal));
    assert!(matches!(&found[0].actions, RuleAction::Empty(_)));
    let (RuleFilter::Sql(filter), RuleAction::Sql(action)) = (&found[2].filters, &found[2].actions) else {
        panic!("{:?}", found[2])
    };
    assert_eq!((filter.expression.as_str(), action.expression.as_str()), ("n > 3", "SET big = 'yes'"));
    assert!(found.iter().all(|rule| rule.created_at.is_some()), "{found:?}");
    rules.delete_rule("everything").await?;
    rules.delete_rule("nothing").await?;

    let wanted = [("colour", word("red")), ("n", Value::Int(5))];
    publish(setting, vec![order("both", wanted), order("other", [("n", Value::Int(1))])]).await?;
    let mut got = taken(setting, "s", 2).await?;
    got.sort_by_key(|message| told(message).len());
    assert_eq!(texts(&got), ["both", "both"]);
    assert_eq!(told(&got[0]), ["colour=String(\"red\")", "n=Int(5)"]);
    let changed = ["RuleName=String(\"large\")", "big=String(\"yes\")", "colour=String(\"red\")", "n=Int(5)"];
    assert_eq!(told(&got[1]), changed);
    rules.dispose().await?;
    Ok(client.dispose().await?)
}

/// The subscription has sessions.
async fn sessions(setting: &Setting) -> Outcome {
    let (topic, options) = (&setting.queue, ServiceBusSessionReceiverOptions::default);
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    send_to_sessions(&mut sender, &["b1", "a2", "b3"]).await?;
    let mut next = client.accept_next_session_for_subscription(topic, "s", options()).await?;
    assert_eq!(next.session_id(), "b");
    let mut other = setting.client().await?;
    let taken = other.accept_session_for_subscription(topic, "s", "b", options()).await;
    assert_refused(taken, "session-cannot-be-locked");
    let mut named = client.accept_session_for_subscription(topic, "s", "a", options()).await?;
    let message = one(&mut named).await?;
    assert_eq!((text(&message), message.session_id()), ("a2", Some("a")));
    named.complete_message(&message).await?;
    assert_empty(&mut named).await?;
    next.set_session_state(b"of the copy".to_vec()).await?;
    assert_eq!(next.session_state().await?, b"of the copy");
    let peeked = next.peek_messages(9, Some(1)).await?;
    assert_eq!(
        peeked.iter().map(|message| message.body().expect("data")).collect::<Vec<_>>(),
        [b"b1", b"b3"]
    );
    for expected in ["b1", "b3"] {
        let message = one(&mut next).await?;
        assert_eq!(text(&message), expected);
        next.complete_message(&message).await?;
    }
    next.renew_session_lock().await?;
    next.dispose().await?;
    named.dispose().await?;
    sender.dispose().await?;
    Ok(client.dispose().await?)
}
