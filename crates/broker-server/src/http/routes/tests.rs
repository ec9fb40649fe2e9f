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
        ("/$ferrybus/faults/7/8", None),
        ("/", None),
        ("", None),
        ("/$ferrybus", None),
        ("/$ferrybus/clockwork", None),
        ("/$ferrybus/clock/../clock", None),
        ("//$ferrybus/clock", None),
        ("/orders/$ferrybus/clock", None),
        ("/ferrybus/clock", None),
    ];
    for (path, expected) in cases {
        assert_eq!(route(path), expected, "{path}");
    }
}
