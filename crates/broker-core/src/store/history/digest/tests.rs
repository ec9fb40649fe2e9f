use super::*;

#[test]
fn a_digest_follows_the_record_format() {
    // SHA-256 of `00 00 61 62 63`: two bytes of length, then `abc`.
    let expected: [u8; 32] = Sha256::digest(b"\x00\x00abc").into();
    assert_eq!(Digest::of("", "abc").0, expected[..16]);
    let expected: [u8; 32] = Sha256::digest(b"\x02\x00abc").into();
    assert_eq!(Digest::of("ab", "c").0, expected[..16]);
}

#[test]
fn key_and_id_do_not_run_into_each_other() {
    let all = [("", "abc"), ("a", "bc"), ("ab", "c"), ("abc", "")];
    for (one, left) in all.iter().enumerate() {
        for (other, right) in all.iter().enumerate() {
            let same = Digest::of(left.0, left.1) == Digest::of(right.0, right.1);
            assert_eq!(same, one == other, "{left:?} {right:?}");
        }
    }
}
