use super::*;
use crate::in_flight_limit::InFlightLimit;

fn account(limit: usize) -> Arc<IngressCredit> {
    Arc::new(IngressCredit::of_namespace(Arc::new(InFlightLimit::new(limit))))
}

#[test]
fn a_connection_has_its_own_bytes_and_what_the_others_leave() {
    let account = account(10);
    let (mut first, mut second) =
        (UnfinishedShare::of(Arc::clone(&account)), UnfinishedShare::of(Arc::clone(&account)));
    assert_eq!(first.limit(), OWN_BYTES + 10);
    first.count(OWN_BYTES);
    assert_eq!(second.limit(), OWN_BYTES + 10, "its own bytes take nothing from others");
    first.count(OWN_BYTES + 7);
    assert_eq!((first.limit(), second.limit()), (OWN_BYTES + 10, OWN_BYTES + 3));
    second.count(OWN_BYTES + 3);
    assert_eq!((first.limit(), second.limit()), (OWN_BYTES + 7, OWN_BYTES + 3));
    first.count(0);
    assert_eq!((first.limit(), second.limit()), (OWN_BYTES + 7, OWN_BYTES + 10));
    drop(second);
    assert_eq!(account.unfinished_left(), 10, "a connection that ends holds nothing");
}

#[test]
fn unfinished_messages_keep_no_connection_from_reading() {
    let account = account(10);
    let mut share = UnfinishedShare::of(Arc::clone(&account));
    share.count(OWN_BYTES + 50);
    assert!(account.has_room() && account.bytes() == 0);
    assert_eq!(share.limit(), OWN_BYTES + 50);
}

#[test]
fn a_connection_that_enters_its_namespace_takes_along_what_it_holds() {
    let all = Arc::new(InFlightLimit::new(1_000));
    let [none, full, other] =
        [IngressCredit::without_namespace, IngressCredit::of_namespace, IngressCredit::of_namespace]
            .map(|new| Arc::new(new(Arc::clone(&all))));
    let mut share = UnfinishedShare::of(Arc::clone(&none));
    share.count(OWN_BYTES + 990);
    share.count_in(Arc::clone(&full));
    // The last ten are shared, and this namespace has more of them than it may.
    assert_eq!((full.unfinished_left(), other.unfinished_left(), none.unfinished_left()), (0, 5, 5));
    drop(share);
    assert_eq!([&full, &other, &none].map(|account| account.unfinished_left()), [900; 3]);
}
