use super::*;

#[test]
fn an_account_below_counts_in_both_and_needs_room_in_both() {
    let all = Arc::new(IngressCredit::new(100));
    let [a, b] = [60, usize::MAX].map(|limit| IngressCredit::below(Arc::clone(&all), limit));
    a.add(60);
    assert_eq!((a.has_room(), b.has_room(), all.bytes()), (false, true, 60));
    b.add(40);
    assert_eq!((b.has_room(), all.has_room()), (false, false));
    a.remove(1);
    assert_eq!((a.has_room(), b.has_room(), a.bytes(), b.bytes()), (true, true, 59, 40));
}

#[test]
fn who_waits_for_a_namespace_or_for_all_is_woken_when_that_has_room() {
    let all = Arc::new(IngressCredit::new(100));
    let account = Arc::new(IngressCredit::below(Arc::clone(&all), 50));
    let queue = Arc::new(EffectQueue::new(Arc::clone(&account)));
    account.add(50);
    assert!(!queue.may_read());
    account.remove(1);
    assert!(queue.may_read());
    all.add(60);
    assert!(!queue.may_read(), "the account of all is full");
    all.remove(60);
    assert!(queue.may_read());
}

#[test]
fn a_raised_limit_lets_those_read_that_wait() {
    let account = Arc::new(IngressCredit::new(10));
    let queue = Arc::new(EffectQueue::new(Arc::clone(&account)));
    account.add(20);
    assert!(!queue.may_read());
    account.set_limit(30);
    assert!(account.waiting.lock().unwrap().is_empty() && queue.may_read());
    account.set_limit(20);
    assert!(!queue.may_read());
}
