use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use broker_auth::{Credentials, Issuer, IssuerConfig, KeySet, PeerFacts};

use super::*;

const PROVIDER: &str = "https://provider.example";

/// An authority that takes tokens of the provider, whose keys can be had.
fn authority() -> Arc<Authority> {
    let config = IssuerConfig {
        issuer: PROVIDER.into(),
        audiences: vec!["bus".into()],
        refreshable: true,
        ..IssuerConfig::default()
    };
    let issuers = vec![Issuer::new(config, KeySet::default())];
    Arc::new(Authority::new(Credentials::default()).with_issuers(issuers))
}

/// A client logs in with a token that names a key that the provider has got since.
fn names_a_new_key(authority: &Authority) {
    let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
    let header = part(r#"{"alg":"RS256","kid":"new"}"#);
    let body = part(&format!(r#"{{"iss":"{PROVIDER}","aud":"bus","exp":4000000000}}"#));
    let peer = PeerFacts { loopback: true, ..PeerFacts::default() };
    let response = format!("n,,\x01auth=Bearer {header}.{body}.YQ\x01\x01");
    assert!(authority.sasl(&peer, "OAUTHBEARER", Some(response.as_bytes()), 0).is_err());
}

#[test]
fn a_namespace_that_leaves_the_configuration_and_comes_back_asks_for_keys_as_before() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut keys = NamespaceKeys::new(runtime.handle().clone());
    let source = KeySource { issuer: 0, url: "http://127.0.0.1:1/keys".into(), authorities: None };
    let (first, second) = (authority(), authority());
    // The namespace is the same; it leaves the file and comes back; it is deleted and created again.
    for authority in [Some(&first), None, Some(&first), Some(&second)] {
        let sources: &[_] = if authority.is_some() { std::slice::from_ref(&source) } else { &[] };
        let fetchers = Fetcher::all(sources).unwrap();
        let named = authority.map(|_| ("team-a".into(), fetchers));
        keys.keep(named.into_iter().collect(), |_| authority.map(Arc::clone));
        let Some(authority) = authority else { continue };
        let mut wanted = keys.by_namespace["team-a"].watch_wanted();
        names_a_new_key(authority);
        assert!(wanted.has_changed().unwrap());
        wanted.mark_unchanged();
    }
}
