use proptest::prelude::*;
use serde_json::json;

use super::*;

fn rsa(bytes: usize) -> Value {
    json!({ "kty": "RSA", "kid": "r", "n": URL_SAFE_NO_PAD.encode(vec![0xC5; bytes]), "e": "AQAB" })
}

fn ec(bytes: usize) -> Value {
    let coordinate = URL_SAFE_NO_PAD.encode(vec![7; bytes]);
    json!({ "kty": "EC", "crv": "P-256", "kid": "e", "x": coordinate, "y": coordinate })
}

fn with(mut key: Value, name: &str, value: &str) -> Value {
    key[name] = value.into();
    key
}

#[test]
fn keys_that_can_verify_are_kept_and_others_left_out() {
    let cases = [
        ("an RSA key of 2,048 bits", rsa(256), 1),
        ("one of 8,192", rsa(1024), 1),
        ("one that is too short", rsa(255), 0),
        ("a point", ec(32), 1),
        ("half a point", ec(31), 0),
        ("another curve", with(ec(32), "crv", "P-384"), 0),
        ("for signatures", with(rsa(256), "use", "sig"), 1),
        ("for secrets", with(rsa(256), "use", "enc"), 0),
        ("for another algorithm", with(rsa(256), "alg", "RS512"), 0),
        ("for the algorithm of another kind", with(rsa(256), "alg", "ES256"), 0),
        ("a shared secret", json!({ "kty": "oct", "k": "c2VjcmV0", "alg": "HS256" }), 0),
        ("a number that is none", with(rsa(256), "n", "%"), 0),
        ("nothing", json!({}), 0),
        ("no object", json!(7), 0),
    ];
    for (what, key, expected) in cases {
        // A good one is beside it, so that the set is never empty.
        let set = KeySet::parse(json!({ "keys": [rsa(256), key] }).to_string().as_bytes()).unwrap();
        assert_eq!(set.len(), 1 + expected, "{what}");
    }
}

#[test]
fn what_is_no_set_is_refused() {
    let many = json!({ "keys": vec![rsa(256); KEYS_MAX + 1] }).to_string();
    assert_eq!(KeySet::parse(many.as_bytes()).unwrap().len(), KEYS_MAX);
    let padded = |length: usize| format!("{}{}", json!({ "keys": [rsa(256)] }), " ".repeat(length));
    let fits = padded(KEY_SET_BYTES_MAX - padded(0).len());
    assert!(KeySet::parse(fits.as_bytes()).is_ok());
    let cases = [
        (format!("{fits} "), KeySetError::TooLong(KEY_SET_BYTES_MAX + 1)),
        (String::new(), KeySetError::Malformed),
        ("[]".into(), KeySetError::Malformed),
        (r#"{"keys":{}}"#.into(), KeySetError::Malformed),
        (r#"{"keys":[]}"#.into(), KeySetError::NoKeys),
        (json!({ "keys": [{ "kty": "oct", "k": "c2VjcmV0" }] }).to_string(), KeySetError::NoKeys),
    ];
    for (text, expected) in cases {
        assert_eq!(KeySet::parse(text.as_bytes()), Err(expected));
    }
}

#[test]
fn a_point_that_is_not_on_the_curve_verifies_nothing() {
    let set = KeySet::parse(json!({ "keys": [ec(32)] }).to_string().as_bytes()).unwrap();
    assert_eq!(set.verify(Some("e"), Algorithm::Es256, b"text", &[1; 64]), Verification::Forged);
    assert_eq!(set.verify(Some("e"), Algorithm::Rs256, b"text", &[1; 256]), Verification::NoKey);
    assert_eq!(KeySet::default().verify(None, Algorithm::Es256, b"text", &[1; 64]), Verification::NoKey);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        drop(KeySet::parse(&bytes));
    }
}
