use super::*;

#[test]
fn a_private_key_is_open_if_others_or_a_group_of_a_common_user_can_read_it() {
    let cases = [
        // mode, owner, open
        (0o600, 1000, false),
        (0o400, 0, false),
        (0o640, 1000, true),
        (0o640, 0, false),
        (0o644, 0, true),
        (0o644, 1000, true),
        (0o604, 1000, true),
        (0o620, 1000, false),
    ];
    for case @ (mode, owner, open) in cases {
        assert_eq!(is_open_key(mode, owner), open, "{case:?}");
    }
}
