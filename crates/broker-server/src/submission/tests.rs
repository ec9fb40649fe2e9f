use broker_core::{
    EntityPath, LockId, LockToken, Properties, PropertyValue, QueueId, SequenceNumber, SubQueue, Ticket,
    TransactionId,
};

use super::*;

#[test]
fn settlements_weigh_the_properties_that_they_share_once() {
    let value = PropertyValue::Encoded(Bytes::from(vec![0; 60_000]));
    let properties = Properties(vec![("name".into(), value)].into());
    let settle = |outcome| Command::Settle {
        queue: QueueId(1),
        sequence: SequenceNumber(1),
        lock: LockId(1),
        outcome,
        ticket: None,
    };
    let bare = weight(&settle(Outcome::Complete));
    let mut range: Vec<Command> = (0..9).map(|_| settle(Outcome::Abandon(properties.clone()))).collect();
    range.push(settle(Outcome::Defer(properties)).within(TransactionId(1)));
    let shared: usize = range.iter().map(weight).sum::<usize>() - 10 * bare;
    assert!((60_000..61_000).contains(&shared), "{shared} bytes");
    range.truncate(1);
    let alone = weight(&range[0]) - bare;
    assert!((60_000..61_000).contains(&alone), "{alone} bytes");
    let Some(Command::Settle { outcome, .. }) = range.pop() else { panic!() };
    let path = EntityPath { entity: "q".into(), sub_queue: SubQueue::Main };
    let tokens = vec![LockToken(1)];
    let by_token = Command::SettleByToken { path, session: None, tokens, outcome, ticket: Ticket(1) };
    assert!((60_000..61_000).contains(&(weight(&by_token) - bare)));
}
