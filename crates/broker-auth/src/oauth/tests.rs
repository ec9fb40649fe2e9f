use proptest::prelude::*;

use super::*;

#[test]
fn tokens_are_found_in_the_forms_of_both_mechanisms_alone() {
    let cases = [
        (XOAUTH2, "user=ann\u{1}auth=Bearer a.b.c\u{1}\u{1}", Some("a.b.c")),
        (XOAUTH2, "user=\u{1}auth=bearer  a.b.c\u{1}\u{1}", Some("a.b.c")),
        (XOAUTH2, "user=ann\u{1}auth=Bearer a.b.c\u{1}", None),
        (XOAUTH2, "auth=Bearer a.b.c\u{1}\u{1}", None),
        (XOAUTH2, "user=ann\u{1}auth=Basic a.b.c\u{1}\u{1}", None),
        (XOAUTH2, "user=ann\u{1}auth=Bearer \u{1}\u{1}", None),
        (XOAUTH2, "user=ann\u{1}auth=Bearer\u{1}\u{1}", None),
        (XOAUTH2, "user=ann\u{1}auth=Bearer a\u{1}auth=Bearer b\u{1}\u{1}", None),
        (XOAUTH2, "n,,\u{1}auth=Bearer a.b.c\u{1}\u{1}", None),
        (XOAUTH2, "", None),
        (OAUTHBEARER, "n,,\u{1}auth=Bearer a.b.c\u{1}\u{1}", Some("a.b.c")),
        (OAUTHBEARER, "y,,\u{1}auth=Bearer a.b.c\u{1}\u{1}", Some("a.b.c")),
        // The example of RFC 7628, section 4.1.
        (
            OAUTHBEARER,
            "n,a=user@example.com,\u{1}host=server.example.com\u{1}port=143\u{1}auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\u{1}\u{1}",
            Some("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="),
        ),
        (OAUTHBEARER, "p=tls-unique,,\u{1}auth=Bearer a.b.c\u{1}\u{1}", None),
        (OAUTHBEARER, "n,a=,\u{1}auth=Bearer a.b.c\u{1}\u{1}", None),
        (OAUTHBEARER, "n,b=c,\u{1}auth=Bearer a.b.c\u{1}\u{1}", None),
        (OAUTHBEARER, "n\u{1}auth=Bearer a.b.c\u{1}\u{1}", None),
        (OAUTHBEARER, "user=ann\u{1}auth=Bearer a.b.c\u{1}\u{1}", None),
        // To ask which scope is wanted; discovery is not offered.
        (OAUTHBEARER, "n,,\u{1}auth=\u{1}\u{1}", None),
        (OAUTHBEARER, "\u{1}", None),
    ];
    for (mechanism, response, expected) in cases {
        assert_eq!(token(mechanism, response.as_bytes()), expected, "{mechanism} {response:?}");
    }
    assert_eq!(token(XOAUTH2, b"user=\xff\x01auth=Bearer a\x01\x01"), None);
}

proptest! {
    #[test]
    fn any_token_comes_back_and_nothing_panics(
        name in "[^\u{1},]{0,20}",
        said in "[A-Za-z0-9._~+/=-]{1,100}",
        other in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let x = format!("user={name}\u{1}auth=Bearer {said}\u{1}\u{1}");
        prop_assert_eq!(token(XOAUTH2, x.as_bytes()), Some(&*said));
        let header = if name.is_empty() { String::new() } else { format!("a={name}") };
        let bearer = format!("n,{header},\u{1}auth=Bearer {said}\u{1}\u{1}");
        prop_assert_eq!(token(OAUTHBEARER, bearer.as_bytes()), Some(&*said));
        token(XOAUTH2, &other);
        token(OAUTHBEARER, &other);
    }
}
