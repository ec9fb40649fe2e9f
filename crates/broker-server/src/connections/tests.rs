use super::*;

fn entry() -> Entry {
    let address = SocketAddr::from(([127, 0, 0, 1], 4_000));
    Entry::new(address, Transport::Plain, Timestamp::from_millis(5), Arc::default())
}

#[test]
fn a_connection_is_listed_from_its_begin_to_its_end() {
    let connections = Arc::new(Connections::default());
    let first = connections.enter(ClientId(7), entry());
    let second = connections.enter(ClientId(3), entry());
    assert_eq!(connections.all().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [3, 7]);
    assert!(connections.get(7).is_some() && connections.get(8).is_none());
    drop(first);
    assert!(connections.get(7).is_none());
    drop(second);
    assert!(connections.all().is_empty());
}
