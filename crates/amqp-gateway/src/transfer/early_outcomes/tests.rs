use amqp_codec::performative::{DeliveryState, TxnId};

use super::differs_from_accepted;

#[test]
fn accepted_alone_may_be_taken_for_accepted() {
    let txn_id = || TxnId::from(&[1][..]);
    let inside = |outcome: Option<DeliveryState>| DeliveryState::Transactional {
        txn_id: txn_id(),
        outcome: outcome.map(Box::new),
    };
    let cases = [
        (DeliveryState::Accepted, false),
        (inside(Some(DeliveryState::Accepted)), false),
        (DeliveryState::Rejected(None), true),
        (DeliveryState::Released, true),
        (DeliveryState::Declared { txn_id: txn_id() }, true),
        (inside(Some(DeliveryState::Rejected(None))), true),
        (inside(None), true),
    ];
    for (state, expected) in cases {
        assert_eq!(differs_from_accepted(&state), expected, "{state:?}");
    }
}
