use super::*;

#[test]
fn paths_are_found_in_every_spelling_of_theirs_and_no_other() {
    let cases = [
        ("/$ferrybus/clock", Some(Route::Clock)),
        ("/$ferrybus/clock/", Some(Route::Clock)),
        ("/%24Ferrybus/Clock", Some(Route::Clock)),
        ("/$ferrybus/clock/advance", Some(Route::Advance)),
        ("/$servicebus/websocket", Some(Route::WebSocket)),
        ("/$servicebus/websocket/", Some(Route::WebSocket)),
        ("/$ferrybus/faults", Some(Route::Faults)),
        ("/$ferrybus/faults/7/", Some(Route::Fault(7))),
        ("/$ferrybus/faults/-7", None),
        ("/$ferrybus/connections", Some(Route::Connections)),
        ("/%24ferrybus/Connections/17", Some(Route::Connection(17))),
        ("/$ferrybus/connections/x", None),
        ("/$ferrybus/faults/7/8", None),
        ("/", None),
        ("/$ferrybus", None),
        ("/$ferrybus/clockwork", None),
        ("/$ferrybus/clock/../clock", None),
        ("/orders/$ferrybus/clock", None),
        ("/ferrybus/clock", None),
        ("/metrics", Some(Route::Metrics)),
        ("/Metrics/", Some(Route::Metrics)),
        ("/metrics?api-version=2021-05", None),
        ("/metrics?enrich=false&API-Version=2017-04", None),
        ("/metrics/x", None),
        ("/orders/metrics", None),
        ("/healthz", Some(Route::Health(Probe::Alive))),
        ("/readyz?verbose", Some(Route::Health(Probe::Ready))),
        ("/readyz/sends/", Some(Route::Health(Probe::Sends))),
        ("/readyz/receives", None),
        ("/readyz/sends?api-version=2021-05", None),
        ("/health", Some(Route::Health(Probe::Emulator))),
        ("/health?api-version=2021-05", None),
    ];
    for (path, expected) in cases {
        let uri = Uri::try_from(path).unwrap();
        assert_eq!(route(&uri), expected, "{path}");
    }
}

#[test]
fn the_brokers_own_paths_are_told_from_those_of_entities() {
    let cases = [
        ("/$ferrybus/nothing", true),
        ("/%24FerryBus", true),
        ("/$servicebus/web", true),
        ("/q/$ferrybus", false),
        ("/$Resources", false),
    ];
    for (path, expected) in cases {
        assert_eq!(is_ours(&Uri::try_from(path).unwrap()), expected, "{path}");
    }
}
