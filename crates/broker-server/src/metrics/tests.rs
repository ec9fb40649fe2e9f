use super::*;

fn here() -> SocketAddr {
    "127.0.0.1:1".parse().unwrap()
}

fn open(metrics: &Metrics, transport: &'static str, authentication: &'static str) -> i64 {
    metrics.open.get_or_create(&[("transport", transport), ("authentication", authentication)]).get()
}

#[test]
fn a_seat_counts_its_connection_once_under_its_last_log_in() {
    let metrics = Arc::new(Metrics::default());
    let mut connection_gauge =
        ConnectionGauge::take(Arc::clone(&metrics), Transport::new(true, false), here());
    assert_eq!(open(&metrics, "tls", "none"), 1);
    for class in ["anonymous", "anonymous", "token"] {
        connection_gauge.note(class);
    }
    let now = ["none", "anonymous", "token"].map(|class| open(&metrics, "tls", class));
    assert_eq!(now, [0, 0, 1]);
    drop(connection_gauge);
    assert_eq!(open(&metrics, "tls", "token"), 0);
    assert_eq!(metrics.begun.get_or_create(&[("transport", "tls")]).get(), 1, "what was begun stays counted");
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
