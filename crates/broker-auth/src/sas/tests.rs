use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> Result<SasToken<'_>, SasError> {
    SasToken::parse(text, &HostNames::NONE)
}

#[test]
fn captured_tokens_verify_and_changed_ones_do_not() {
    // Signatures made with the Python, JavaScript and Rust SDKs.
    let cases = [
        ("sb%3A%2F%2Flocalhost%3A15672%2Fq1", "1795198930", "J0eFnkNjHZ3Idj9PZc8ysCdJMxwHeHIN4tIbLsD1Dbg="),
        ("sb%3A%2F%2Flocalhost%3A15672%2Fjq", "1795201303", "Rkey3skqtGxvb/0724H9o7L9t8Q04NRM/YsJSmTp5Gc="),
        ("amqp%3A%2F%2Flocalhost", "1795200180", "VLVcsKnh+fS+tXhD/YQx4Xm2T4NMCaMmysuGvJ2oVpI="),
    ];
    let key = Secret::new("SAS_KEY_VALUE");
    for (resource, expiry, signature) in cases {
        let encoded = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        for signature in
            [signature, &encoded, encoded.trim_end_matches("%3D"), &encoded.replace("%2F", "%2f")]
        {
            let text = format!("SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn=K");
            let token = parsed(&text).unwrap();
            assert!(token.is_signed_with(&key), "{text}");
            assert!(!token.is_signed_with(&Secret::new("SAS_KEY_VALUE2")), "{text}");
        }
        let later = format!("SharedAccessSignature sr={resource}&sig={encoded}&se=9{expiry}&skn=K");
        assert!(!parsed(&later).unwrap().is_signed_with(&key), "{later}");
        let decoded = format!("SharedAccessSignature sr=sb://localhost/q1&sig={encoded}&se={expiry}&skn=K");
        assert!(!parsed(&decoded).unwrap().is_signed_with(&key), "{decoded}");
    }
}

#[test]
fn parameters_come_in_any_order_and_unknown_ones_are_ignored() {
    for text in [
        "SharedAccessSignature sr=a&sig=AAAA&se=7&skn=K",
        "SharedAccessSignature sig=AAAA&se=7&skn=K&sr=a",
        "sharedaccesssignature SKN=K&Sr=a&se=7&sig=AAAA",
        "SharedAccessSignature  sr=a&x=1&sig=AAAA&novalue&se=7&skn=K&",
    ] {
        assert!(is_sas(text), "{text}");
        let token = parsed(text).unwrap();
        assert!(token.is_by("K") && token.expires_at == 7 && token.signature == [0, 0, 0], "{text}");
    }
}

#[test]
fn faulty_tokens_are_named() {
    let cases = [
        ("", SasError::Missing("sr")),
        ("sr=a&sig=AAAA&se=7", SasError::Missing("skn")),
        ("sr=&sig=AAAA&se=7&skn=K", SasError::Missing("sr")),
        ("sr=a&sr=b&sig=AAAA&se=7&skn=K", SasError::Twice("sr")),
        ("sr=a&sig=AAAA&se=7&se=8&skn=K", SasError::Twice("se")),
        ("sr=a&sig=AAAA&se=7.5&skn=K", SasError::Unreadable("se")),
        ("sr=a&sig=AAAA&se=-7&skn=K", SasError::Unreadable("se")),
        ("sr=a&sig=AAAA&se=99999999999999999999&skn=K", SasError::Unreadable("se")),
        ("sr=a&sig=A_A&se=7&skn=K", SasError::Unreadable("sig")),
        ("sr=%ff&sig=AAAA&se=7&skn=K", SasError::Unreadable("sr")),
    ];
    for (parameters, expected) in cases {
        let text = format!("SharedAccessSignature {parameters}");
        assert_eq!(parsed(&text).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn key_names_may_be_encoded_twice() {
    for name in ["a key/1", "a%20key%2F1", "a%2520key%252F1"] {
        let text = format!("SharedAccessSignature sr=a&sig=AAAA&se=7&skn={name}");
        assert!(parsed(&text).unwrap().is_by("a key/1"), "{name}");
    }
}

#[test]
fn our_own_tokens_carry_the_captured_signature() {
    let token = sign_token("amqp://localhost", "a/b", &Secret::new("SAS_KEY_VALUE"), 1_795_200_180);
    assert_eq!(
        token,
        "SharedAccessSignature sr=amqp%3A%2F%2Flocalhost&sig=VLVcsKnh%2BfS%2BtXhD%2FYQx4Xm2T4NMCaMmysuGvJ2oVpI%3D\
         &se=1795200180&skn=a%2Fb"
    );
    assert!(parsed(&token).unwrap().is_by("a/b"));
}

proptest! {
    #[test]
    fn what_is_signed_verifies(resource in "\\PC{0,30}", name in "\\PC{1,9}", key in "\\PC{1,20}", expiry in 0_u64..) {
        let token = sign_token(&format!("sb://h/{resource}"), &name, &Secret::new(key.as_str()), expiry);
        let parsed = parsed(&token).unwrap();
        prop_assert!(parsed.is_signed_with(&Secret::new(key.as_str())) && parsed.is_by(&name));
        let other = Secret::new(key + "x");
        prop_assert!(!parsed.is_signed_with(&other));
    }

    #[test]
    fn a_token_is_read_only_where_it_has_each_parameter_once(
        text in "SharedAccessSignature (&?(sr|SE|se|sig|skn)=[a-z0-9%=+/]{0,6}){0,6}",
    ) {
        let once = |name: &str| {
            let pairs = text.split(['&', ' ']).filter_map(|pair| pair.split_once('='));
            pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name)).count() == 1
        };
        if parsed(&text).is_ok() {
            prop_assert!(["sr", "se", "sig", "skn"].into_iter().all(once), "{text}");
        }
    }

    #[test]
    fn reading_parameters_never_panics(sr in "\\PC{0,20}", sig in "\\PC{0,20}", se in "[0-9]{0,25}", skn in "\\PC{0,9}") {
        let text = format!("SharedAccessSignature sr={sr}&sig={sig}&se={se}&skn={skn}");
        if let Ok(token) = parsed(&text) {
            prop_assert!(!token.is_signed_with(&Secret::new("key")));
        }
    }
}
