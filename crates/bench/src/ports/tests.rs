use std::net::{Ipv4Addr, TcpListener};

use super::{answers, listener, listening_inode};

#[test]
fn the_listening_socket_is_told_from_connected_ones() {
    let listening =
        "   0: 0100007F:1628 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0";
    let connected =
        "   1: 0100007F:1628 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0";
    assert_eq!(listening_inode(listening, 0x1628).as_deref(), Some("4242"));
    assert_eq!(listening_inode(listening, 1), None);
    assert_eq!(listening_inode(connected, 0x1628), None);
}

#[test]
fn our_own_listener_is_ours() {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    assert_eq!(listener(socket.local_addr().unwrap().port()), Some(std::process::id()));
}

#[test]
fn a_port_without_a_broker_does_not_answer() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    assert!(!answers(port));
}
