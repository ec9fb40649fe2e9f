use super::*;

#[test]
fn slips_of_the_fingers_are_recognised() {
    let names = ["listen", "data_dir", "durability", "auto_create", "max_frame_bytes"];
    let cases = [
        ("lisen", Some("listen")),
        ("lsiten", Some("listen")),
        ("Listen", Some("listen")),
        ("data-dir", Some("data_dir")),
        ("datadir", Some("data_dir")),
        ("autocreate", Some("auto_create")),
        ("max_frame_byte", Some("max_frame_bytes")),
        ("segment_bytes", None),
        ("port", None),
        ("", None),
    ];
    for case @ (name, expected) in cases {
        assert_eq!(suggest(name, names), expected, "{case:?}");
    }
}

#[test]
fn the_closest_of_several_wins() {
    assert_eq!(suggest("ordres", ["order", "orders", "ordered"]), Some("orders"));
}
