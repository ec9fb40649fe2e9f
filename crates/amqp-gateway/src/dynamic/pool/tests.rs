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
fn namespaces_count_their_own_nodes_and_share_the_limit() {
    let one = Arc::new(DynamicNodePool::new([1; 16], 2, 1));
    let other = Arc::new(one.of_another_namespace());
    let (first, second) = (one.take().expect("there is room"), other.take().expect("there is room"));
    assert!(one.take().is_none() && other.take().is_none());
    assert_eq!((one.count(), other.count()), (1, 1));
    second.note_created();
    one.note_refused();
    assert_eq!((one.created(), one.refused()), (0, 1));
    assert_eq!((other.created(), other.refused()), (1, 0));
    drop(first);
    assert_eq!((one.count(), other.count()), (0, 1));
    assert!(other.take().is_some());
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

#[test]
fn the_seed_of_hashes_follows_from_the_key() {
    let pool = |key| DynamicNodePool::new([key; 16], 1, 1);
    assert_eq!(pool(1).hash_seed(), pool(1).of_another_namespace().hash_seed());
    assert_ne!(pool(1).hash_seed(), pool(2).hash_seed());
}
