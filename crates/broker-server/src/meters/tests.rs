use super::*;

fn here() -> SocketAddr {
    "127.0.0.1:1".parse().unwrap()
}

fn open(meters: &Meters, transport: &'static str, authentication: &'static str) -> i64 {
    meters.open.get_or_create(&[("transport", transport), ("authentication", authentication)]).get()
}

#[test]
fn a_seat_counts_its_connection_once_under_its_last_log_in() {
    let meters = Arc::new(Meters::default());
    let mut seat = Seat::take(Arc::clone(&meters), Transport::new(true, false), here());
    assert_eq!(open(&meters, "tls", "none"), 1);
    for class in ["anonymous", "anonymous", "token"] {
        seat.note(class);
    }
    let now = ["none", "anonymous", "token"].map(|class| open(&meters, "tls", class));
    assert_eq!(now, [0, 0, 1]);
    drop(seat);
    assert_eq!(open(&meters, "tls", "token"), 0);
    assert_eq!(meters.begun.get_or_create(&[("transport", "tls")]).get(), 1, "what was begun stays counted");
}

#[test]
fn each_transport_has_its_own_label() {
    let cases = [
        (false, false, "plain"),
        (true, false, "tls"),
        (false, true, "websocket"),
        (true, true, "websocket_tls"),
    ];
    for case @ (tls, web_socket, name) in cases {
        assert_eq!(Transport::new(tls, web_socket).label(), ("transport", name), "{case:?}");
    }
}
