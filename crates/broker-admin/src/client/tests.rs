use super::*;
use crate::description;

const ENTRY: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><title type="text">orders</title>
  <content type="application/xml">
  <QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
      xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
    <LockDuration>PT30S</LockDuration><MessageCount>9</MessageCount><Novelty>a &amp; b</Novelty>
    <AuthorizationRules><AuthorizationRule i:type="SharedAccessAuthorizationRule"><KeyName>k</KeyName>
      </AuthorizationRule></AuthorizationRules>
    <CountDetails xmlns:d2p1="http://schemas.microsoft.com/netservices/2011/06/servicebus"><d2p1:ActiveMessageCount>7</d2p1:ActiveMessageCount></CountDetails>
  </QueueDescription></content></entry>"#;

#[test]
fn an_answer_is_read_by_the_names_of_its_elements() {
    let queue = read_entity(ENTRY.as_bytes()).unwrap().unwrap();
    assert_eq!((queue.kind, &*queue.name), (EntityKind::Queue, "orders"));
    assert_eq!(queue.text("LockDuration"), Some("PT30S"));
    assert_eq!(queue.text("Novelty"), Some("a & b"));
    assert_eq!(queue.text("AuthorizationRules"), None);
    assert_eq!(queue.count("ActiveMessageCount"), Some(7));
    assert_eq!(queue.count("DeadLetterMessageCount"), None);
}

#[test]
fn an_update_sends_what_nobody_here_knows_and_nothing_that_only_the_broker_sets() {
    let mut queue = read_entity(ENTRY.as_bytes()).unwrap().unwrap();
    queue.set("MaxDeliveryCount", Some("5"));
    queue.set("LockDuration", None);
    let body = queue.body();
    let kept =
        ["<Novelty>a &amp; b</Novelty>", "<KeyName>k</KeyName>", "<MaxDeliveryCount>5</MaxDeliveryCount>"];
    for expected in kept {
        assert!(body.contains(expected), "{expected} in {body}");
    }
    for unexpected in ["LockDuration", "CountDetails", "MessageCount"] {
        assert!(!body.contains(unexpected), "{unexpected} in {body}");
    }
    let again = read_entity(body.as_bytes()).unwrap().unwrap();
    assert_eq!(again.text("MaxDeliveryCount"), Some("5"));
}

#[test]
fn elements_are_sent_in_the_order_of_the_service() {
    let mut queue = Described::new(EntityKind::Queue, "orders");
    for element in ["UserMetadata", "Novelty", "LockDuration", "MaxMessageSizeInKilobytes", "Status"] {
        queue.set(element, Some("x"));
    }
    let body = queue.body();
    let order = ["<LockDuration", "<Status", "<UserMetadata", "<MaxMessageSizeInKilobytes", "<Novelty"];
    assert!(order.iter().map(|element| body.find(element).unwrap()).is_sorted(), "{body}");
}

#[test]
fn a_subscription_is_created_with_its_first_rule() {
    // A text that names the elements of rules is still that text.
    let texts = ["n > 5", "n = 'RuleDescription'", "n = '</RuleDescription>' OR DefaultRuleDescription = 1"];
    for text in texts {
        let filter = broker_filter::SqlFilter::parse(text, broker_filter::Parameters::new()).unwrap();
        let filter = broker_filter::Filter::Sql(filter);
        let rule = Rule { name: "big RuleDescription".into(), filter, action: None };
        let mut subscription = Described::new(EntityKind::Subscription, "audit");
        subscription.set("MaxDeliveryCount", Some("3"));
        subscription.set_first_rule(rule.clone());
        let read = xml::with_document(subscription.body().as_bytes(), |document| {
            let node = described(document).unwrap();
            let first = xml::child(node, rule::DEFAULT_RULE).unwrap();
            (description::read(node).unwrap().settings.max_delivery_count, rule::read(first, None).unwrap())
        });
        assert_eq!(read.unwrap(), (3, rule.clone()), "{text}");
        assert_eq!(read_rule(rule_body(rule.clone()).as_bytes()).unwrap(), Some(rule), "{text}");
    }
}

#[test]
fn the_empty_list_stands_for_nothing() {
    let feed = br#"<feed xmlns="http://www.w3.org/2005/Atom"><title type="text">Publicly Listed Services</title></feed>"#;
    assert_eq!(read_entity(feed).unwrap(), None);
    assert_eq!(read_rule(feed).unwrap(), None);
    assert_eq!(read_entities(feed).unwrap(), []);
    assert_eq!(read_rules(feed).unwrap(), []);
}

#[test]
fn refusals_are_told_without_their_code() {
    let refusal = |detail: &str| {
        read_refusal(format!("<Error><Code>409</Code><Detail>{detail}</Detail></Error>").as_bytes())
    };
    let expected = Refused { sub_code: Some(40_900), text: "Conflict. It exists.".into() };
    assert_eq!(refusal("SubCode=40900. Conflict. It exists."), Some(expected));
    // Nor is what stands behind them for whoever asks the operator.
    let trail = " TrackingId:6f6d_G2, SystemTracker:localhost:orders, Timestamp:2026-01-01T00:00:00";
    let answer = crate::Answer::error(400, "SubCode=40000. Bad Request. `a<b`.").with_trail(trail);
    assert!(answer.body.concat().ends_with(&format!("`a&lt;b`.{trail}</Detail></Error>")), "{answer:?}");
    let expected = Refused { sub_code: Some(40_000), text: "Bad Request. `a<b`.".into() };
    assert_eq!(read_refusal(answer.body.concat().as_bytes()), Some(expected));
    let hostile = crate::Answer::error(404, "No.").with_trail(" TrackingId:1_G1, SystemTracker:h:</Detail>&");
    assert_eq!(
        read_refusal(hostile.body.concat().as_bytes()),
        Some(Refused { sub_code: None, text: "No.".into() })
    );
    assert_eq!(refusal("No."), Some(Refused { sub_code: None, text: "No.".into() }));
    assert_eq!(read_refusal(b"{}"), None);
    assert_eq!(read_refusal(b"<Error/>"), None);
}

#[test]
fn nonsense_is_an_error_and_no_panic() {
    for answer in ["", "<a", "<a/>", "<entry xmlns=\"http://www.w3.org/2005/Atom\"/>", "\u{feff}"] {
        assert!(read_entity(answer.as_bytes()).is_err(), "{answer:?}");
    }
    let rule = ENTRY.replace("QueueDescription", "RuleDescription");
    let rule = rule.replace("<LockDuration>PT30S</LockDuration>", "<Filter/>");
    assert!(matches!(read_rule(rule.as_bytes()), Err(AnswerError::Rule(_))));
}
