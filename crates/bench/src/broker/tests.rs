use super::{Broker, BrokerKind};

#[test]
fn a_peer_is_a_name_a_command_a_port_and_an_address() {
    let peer = Broker::peer("qpidd=qpidd --port=5673 --auth no,5673,q{}").unwrap();
    assert_eq!((peer.name.as_str(), peer.port, peer.address.as_str()), ("qpidd", 5673, "q{}"));
    assert!(matches!(peer.kind, BrokerKind::Peer { start } if start == "qpidd --port=5673 --auth no"));
}

#[test]
fn a_peer_without_its_parts_is_refused() {
    for text in ["qpidd", "qpidd=run", "qpidd=run,5673", "qpidd=run,port,q{}"] {
        assert!(Broker::peer(text).is_err(), "{text}");
    }
}
