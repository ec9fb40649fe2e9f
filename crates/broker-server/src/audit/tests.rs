use super::text::short;

#[test]
fn long_names_are_cut_between_letters() {
    let cases = [
        ("", 0),
        ("orders", 6),
        (&*"a".repeat(512), 512),
        (&*"a".repeat(513), 512),
        (&*"ä".repeat(600), 1_024),
    ];
    for (text, bytes) in cases {
        assert_eq!(short(text).len(), bytes, "{text}");
    }
}
