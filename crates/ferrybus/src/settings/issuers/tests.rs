use crate::settings::{Limits, Settings};

const GRANT: &str = "[[issuer.grant]]\nclaim = \"roles\"\nvalue = \"sender\"\nrights = [\"send\"]\n";

fn check(issuer: &str, grant: &str) -> Result<Limits, String> {
    let text = format!("[[issuer]]\n{issuer}\n{grant}");
    Settings::parse(&text, "f").and_then(Settings::check).map_err(|failure| failure.to_string())
}

#[test]
fn an_issuer_says_whose_tokens_where_its_keys_are_and_what_they_permit() {
    let base = "name = \"n\"\naudiences = [\"a\"]\n";
    let limits = check(&format!("{base}keys_url = \"http://127.0.0.1:1/keys\""), GRANT).unwrap();
    let config = limits.reloadable.default_namespace.issuers.issuers[0].config();
    assert_eq!((config.issuer.as_str(), config.skew_seconds, config.refreshable), ("n", 60, true));
    assert_eq!((config.grants[0].claim.as_str(), config.grants[0].value.as_str()), ("roles", "sender"));
    let sources = &limits.reloadable.default_namespace.issuers.key_sources;
    assert_eq!((sources[0].issuer, sources[0].url.as_str()), (0, "http://127.0.0.1:1/keys"));
    assert!(!limits.reloadable.development, "an issuer is a log-in of the operator's own");
}

#[test]
fn an_issuer_that_is_not_whole_is_refused() {
    let url = "keys_url = \"http://localhost/keys\"\n";
    let cases = [
        ("audiences = [\"a\"]".to_owned(), GRANT, "needs a `name`"),
        (format!("name = \"n\"\n{url}"), GRANT, "needs `audiences`"),
        (format!("name = \"n\"\naudiences = [\"\"]\n{url}"), GRANT, "needs `audiences`"),
        (format!("name = \"n\"\naudiences = [\"a\"]\n{url}"), "", "grants nothing"),
        ("name = \"n\"\naudiences = [\"a\"]".into(), GRANT, "either `keys_file` or `keys_url`"),
        (format!("name = \"n\"\naudiences = [\"a\"]\nkeys_file = \"f\"\n{url}"), GRANT, "cannot read keys"),
        (format!("name = \"n\"\naudiences = [\"a\"]\nskew = \"11m\"\n{url}"), GRANT, "expected 0ns to 600s"),
        (
            format!("name = \"n\"\naudiences = [\"a\"]\n{url}"),
            "[[issuer.grant]]\nrights = [\"send\"]",
            "needs a `claim`",
        ),
        (
            format!("name = \"n\"\naudiences = [\"a\"]\n{url}"),
            "[[issuer.grant]]\nclaim = \"roles\"\nvalue = \"\"\nrights = [\"send\"]",
            "empty `value`",
        ),
        (
            format!("name = \"n\"\naudiences = [\"a\"]\n{url}"),
            "[[issuer.grant]]\nclaim = \"roles\"\nrights = [\"sent\"]",
            "did you mean `send`?",
        ),
    ];
    for (issuer, grant, expected) in cases {
        let said = check(&issuer, grant).unwrap_err();
        assert!(said.contains(expected), "{issuer}: {said}");
    }
}

#[test]
fn keys_come_over_the_network_only_where_nobody_can_exchange_them() {
    let cases = [
        ("http://localhost/keys", true),
        ("http://localhost:8080/keys", true),
        ("http://127.0.0.1/keys", true),
        ("http://[::1]:8080/keys", true),
        ("http://login.test/keys", false),
        ("http://localhost.login.test/keys", false),
        ("http://localhost@login.test/keys", false),
        ("http://localhost:80@login.test/keys", false),
        ("http://192.0.2.1/keys", false),
        ("ftp://localhost/keys", false),
        ("localhost/keys", false),
    ];
    for (url, taken) in cases {
        let checked = check(&format!("name = \"n\"\naudiences = [\"a\"]\nkeys_url = \"{url}\""), GRANT);
        assert_eq!(checked.is_ok(), taken, "{url}: {:?}", checked.err());
    }
}
