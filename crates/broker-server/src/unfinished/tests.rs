use super::*;

#[test]
fn a_connection_has_its_own_bytes_and_what_the_others_leave() {
    let account = Arc::new(IngressCredit::new(10));
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
    let account = Arc::new(IngressCredit::new(10));
    let mut share = UnfinishedShare::of(Arc::clone(&account));
    share.count(OWN_BYTES + 50);
    assert!(account.has_room() && account.bytes() == 0);
    assert_eq!(share.limit(), OWN_BYTES + 50);
}
