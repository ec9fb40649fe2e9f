use std::collections::BTreeSet;

use super::*;

#[test]
fn as_many_permits_are_given_as_the_limit_says() {
    let pool = Arc::new(DynamicNodePool::new([1; 16], 2, 1));
    let first = pool.take().expect("there is room");
    let second = pool.take().expect("there is room for another");
    assert!(pool.take().is_none());
    assert_eq!(pool.count(), 2);
    drop(first);
    assert_eq!(pool.count(), 1);
    assert!(pool.take().is_some());
    drop(second);
    assert_eq!(pool.count(), 0);
}

#[test]
fn names_differ_by_key_client_and_number() {
    let mut seen = BTreeSet::new();
    for key in [[1; 16], [2; 16]] {
        let pool = DynamicNodePool::new(key, 1, 1);
        for (client, number) in [(1, 1), (1, 2), (2, 1), (256, 1), (1, 256)] {
            assert!(seen.insert(pool.chance(ClientId(client), number)), "{client} {number}");
            assert_eq!(
                pool.chance(ClientId(client), number),
                pool.chance(ClientId(client), number),
                "the same input gives the same name"
            );
        }
    }
}

#[test]
fn the_key_is_in_no_text() {
    let pool = DynamicNodePool::new(*b"0123456789abcdef", 7, 3);
    assert_eq!(format!("{pool:?}"), "DynamicNodePool { limit: 7, connection_limit: 3, count: 0, .. }");
}
