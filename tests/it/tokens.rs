//! Tokens of an identity provider, whose keys come from a URL and change.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use amqp_codec::{
    performative::{Attach, Source, Target},
    types::Role,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use broker_auth::{
    Access, Anonymous, Authority, ClaimGrant, Credentials, Issuer, IssuerConfig, KeySet, Right, Rights, Scope,
};
use broker_server::{KeySource, ReloadableConfig};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::{
    broker::{Broker, QUEUE},
    dialect::Sdk,
    http::{ask_over, connect},
    sdk_go::GO,
    tls::Certificates,
};

pub(crate) const ISSUER: &str = "https://login.test/";
pub(crate) const AUDIENCE: &str = "https://servicebus.azure.net";

/// An identity provider on this machine: it signs tokens, and publishes its keys.
pub(crate) struct Provider {
    key: Mutex<(String, EcdsaKeyPair)>,
    /// How often somebody asked for the keys.
    asked: AtomicUsize,
    /// It answers nobody.
    fails: AtomicBool,
}

fn new_key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Provider {
    /// Serves its keys on a port of its own, for as long as the test runs.
    pub(crate) fn start() -> (Arc<Self>, String) {
        Self::serve("http://127.0.0.1", |tcp| tcp)
    }

    /// The same over TLS, as `localhost`.
    fn start_tls(certificates: &Certificates) -> (Arc<Self>, String) {
        let config = Arc::new(certificates.server());
        Self::serve("https://localhost", move |tcp| {
            StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), tcp)
        })
    }

    fn serve<S: Read + Write>(
        host: &str,
        over: impl Fn(TcpStream) -> S + Send + 'static,
    ) -> (Arc<Self>, String) {
        let provider = Arc::new(Self {
            key: Mutex::new(("one".into(), new_key())),
            asked: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{host}:{}/keys?version=2", listener.local_addr().unwrap().port());
        let serving = Arc::clone(&provider);
        thread::spawn(move || {
            for tcp in listener.incoming() {
                // Who does not trust the provider goes away before it has asked.
                let _gone = serving.answer(over(tcp.unwrap()));
            }
        });
        (provider, url)
    }

    fn answer(&self, stream: impl Read + Write) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        assert!(head.starts_with("GET /keys?version=2 HTTP/1.1\r\n"), "{head}");
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let keys = self.keys().to_string();
        let length = keys.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{keys}");
        stream.get_mut().write_all(answer.as_bytes())?;
        stream.get_mut().flush()
    }

    fn keys(&self) -> Value {
        let key = self.key.lock().unwrap();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (x, y) = key.1.public_key().as_ref()[1..].split_at(32);
        json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": key.0, "use": "sig", "x": text(x), "y": text(y) }] })
    }

    fn change_key(&self, id: &str) {
        *self.key.lock().unwrap() = (id.into(), new_key());
    }

    /// A token with these roles.
    pub(crate) fn token(&self, roles: &[&str], seconds: u64) -> String {
        let key = self.key.lock().unwrap();
        let text = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "till-7",
            "exp": now() + seconds, "roles": roles });
        let signed = format!("{}.{}", text(json!({ "alg": "ES256", "kid": key.0 })), text(claims));
        let signature = key.1.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    /// A broker that takes its tokens.
    fn broker(url: &str) -> Broker {
        Self::broker_with(url, |_| {})
    }

    /// The same where certificates of these authorities are good.
    fn broker_that_trusts(url: &str, authorities: PathBuf) -> Broker {
        Self::broker_with(url, |broker| broker.key_sources[0].authorities = Some(authorities))
    }

    /// The provider as a broker knows it, which grants something to these roles of two.
    fn issuer(roles: &[&str]) -> Issuer {
        let grant = |value: &str, right: Right, place: &[&str]| ClaimGrant {
            claim: "roles".into(),
            value: value.into(),
            access: Access {
                rights: Rights::from_iter([right]),
                scopes: place.iter().map(|place| Scope::of(place)).collect(),
            },
        };
        let config = IssuerConfig {
            issuer: ISSUER.into(),
            audiences: vec![AUDIENCE.into()],
            skew_seconds: 0,
            grants: [grant("sender", Right::Send, &[QUEUE]), grant("admin", Right::Manage, &[])]
                .into_iter()
                .filter(|grant| roles.contains(&grant.value.as_str()))
                .collect(),
            refreshable: true,
        };
        Issuer::new(config, KeySet::default())
    }

    /// What a reload may bring: these issuers, whose keys are at `url`.
    fn reloadable(url: &str, issuers: Vec<Issuer>) -> ReloadableConfig {
        let key_sources = (0..issuers.len())
            .map(|issuer| KeySource { issuer, url: url.to_owned(), authorities: None })
            .collect();
        let credentials = Credentials::development(Anonymous::Deny);
        let authority = Authority::new(credentials).with_issuers(issuers);
        ReloadableConfig { key_sources, ..ReloadableConfig::new(authority) }
    }

    /// The same broker with changed settings.
    fn broker_with(url: &str, change: impl FnOnce(&mut broker_server::ServerConfig)) -> Broker {
        let issuers = vec![Self::issuer(&["sender", "admin"])];
        Broker::with(|broker| {
            let credentials = Credentials::development(Anonymous::Deny);
            broker.authority = Arc::new(Authority::new(credentials).with_issuers(issuers));
            broker.key_sources = vec![KeySource { issuer: 0, url: url.to_owned(), authorities: None }];
            change(broker);
        })
    }
}

/// A link that sends to `queue`.
fn sender(queue: &str) -> Attach {
    let mut attach = Attach::new(format!("link-{queue}"), 7, Role::Sender);
    attach.source = Some(Source::new("identifier"));
    attach.target = Some(Target::new((GO.address)(queue)));
    attach.initial_delivery_count = Some(0);
    attach
}

#[test]
fn a_token_opens_what_its_claims_are_granted_and_nothing_else() {
    let (provider, url) = Provider::start();
    let broker = Provider::broker(&url);
    let mut sdk = Sdk::connect(&broker, &GO);
    // The keys may not be there yet: then the answer waits for them.
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 600)), 202);
    let channel = sdk.session();
    assert!(sdk.client.attach(channel, sender(QUEUE)).max_message_size.is_some());
    assert_eq!(sdk.put("jwt", "innocent", provider.token(&["sender"], 600)), 401, "another queue");
    let channel = sdk.session();
    assert_eq!(sdk.client.refused(channel, sender("innocent")).condition, "amqp:unauthorized-access");
    assert_eq!(sdk.put("jwt", "innocent", provider.token(&["admin"], 600)), 202);
    sdk.client.close();
}

#[test]
fn a_principal_without_a_right_is_not_told_that_an_entity_is_missing() {
    let (provider, url) = Provider::start();
    let broker = Provider::broker_with(&url, |broker| broker.auto_create = false);
    let mut sdk = Sdk::connect(&broker, &GO);
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 600)), 202);
    assert_eq!(sdk.put("jwt", "missing", provider.token(&["sender"], 600)), 401);
    assert_eq!(sdk.put("jwt", "missing", provider.token(&["admin"], 600)), 404);
    sdk.client.close();
}

#[test]
fn tokens_that_are_no_good_are_refused() {
    let (provider, url) = Provider::start();
    let broker = Provider::broker(&url);
    let mut sdk = Sdk::connect(&broker, &GO);
    let good = provider.token(&["sender"], 600);
    assert_eq!(sdk.put("jwt", QUEUE, good.clone()), 202);
    let parts: Vec<&str> = good.split('.').collect();
    let unsigned = format!("{}.{}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), parts[1]);
    let (stranger, _) = Provider::start();
    let cases = [
        ("expired", provider.token(&["sender"], 0)),
        ("forged", stranger.token(&["sender"], 600)),
        ("not signed", unsigned),
        ("cut", good[..good.len() - 10].to_owned()),
        ("no role", provider.token(&["sommelier"], 600)),
        ("no token", "hello".into()),
        ("too long", "x".repeat(17 << 10)),
    ];
    for (what, token) in cases {
        assert_eq!(sdk.put("jwt", QUEUE, token), 401, "{what}");
    }
    sdk.client.close();
}

#[test]
fn a_link_goes_when_its_token_has_expired() {
    let (provider, url) = Provider::start();
    let broker = Provider::broker(&url);
    let mut sdk = Sdk::connect(&broker, &GO);
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 600)), 202);
    // The shorter one replaces it: same provider, same subject.
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 6)), 202);
    let channel = sdk.session();
    sdk.client.attach(channel, sender(QUEUE));
    let detach = sdk.client.wire.detached().unwrap();
    assert_eq!(detach.error.unwrap().condition, "amqp:unauthorized-access");
}

#[test]
fn a_reload_takes_the_rights_of_grants_and_issuers_that_are_gone_and_keeps_the_keys_that_are_known() {
    let (provider, url) = Provider::start();
    let mut broker = Provider::broker(&url);
    let mut sdk = Sdk::connect(&broker, &GO);
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 600)), 202);
    let channel = sdk.session();
    sdk.client.attach(channel, sender(QUEUE));
    // The provider cannot be reached, and need not be.
    provider.fails.store(true, Ordering::Relaxed);
    broker.reload(Provider::reloadable(&url, vec![Provider::issuer(&["sender", "admin"])]));
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 600)), 202);
    broker.reload(Provider::reloadable(&url, vec![Provider::issuer(&["admin", "sender"])]));
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 600)), 202);

    broker.reload(Provider::reloadable(&url, vec![Provider::issuer(&["admin"])]));
    let detach = sdk.client.wire.detached().unwrap();
    assert_eq!(detach.error.unwrap().condition, "amqp:unauthorized-access");
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 600)), 401);
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["admin"], 600)), 202);
    let channel = sdk.session();
    sdk.client.attach(channel, sender(QUEUE));

    broker.reload(Provider::reloadable(&url, Vec::new()));
    let detach = sdk.client.wire.detached().unwrap();
    assert_eq!(detach.error.unwrap().condition, "amqp:unauthorized-access");
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["admin"], 600)), 401);
    sdk.client.close();
}

#[test]
fn a_new_key_is_fetched_when_a_token_names_it_and_not_for_each() {
    let (provider, url) = Provider::start();
    let broker = Provider::broker(&url);
    let mut sdk = Sdk::connect(&broker, &GO);
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 600)), 202);
    assert_eq!(provider.asked.load(Ordering::Relaxed), 1);
    let old = provider.token(&["sender"], 600);
    provider.change_key("two");
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 600)), 202);
    assert_eq!(provider.asked.load(Ordering::Relaxed), 2);
    assert_eq!(sdk.put("jwt", QUEUE, old), 401, "the old key is withdrawn");
    assert!(provider.asked.load(Ordering::Relaxed) <= 4, "once in five seconds at most");
    sdk.client.close();
}

#[test]
fn http_takes_them_as_bearer_tokens() {
    let (provider, url) = Provider::start();
    let broker = Provider::broker(&url);
    let mut sdk = Sdk::connect(&broker, &GO);
    assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 600)), 202);
    for (role, status) in [("admin", 200), ("sender", 403), ("nobody", 403)] {
        let login = format!("Bearer {}", provider.token(&[role], 600));
        for path in ["/$ferrybus/clock", "/$namespaceinfo"] {
            let mut stream = connect(broker.http_address());
            let (said, body) = ask_over(&mut stream, &format!("GET {path}"), Some(&login), "");
            assert_eq!(said, status, "{role} {path}: {body}");
        }
    }
}

#[test]
fn keys_come_over_tls_from_whom_the_configured_authorities_know() {
    let (own, other) = (Certificates::new(), Certificates::new());
    for (authorities, status) in [(&own, 202), (&other, 401)] {
        let (provider, url) = Provider::start_tls(&own);
        let broker = Provider::broker_that_trusts(&url, authorities.authorities());
        let mut sdk = Sdk::connect(&broker, &GO);
        assert_eq!(sdk.put("jwt", QUEUE, provider.token(&["sender"], 600)), status);
        assert_eq!(provider.asked.load(Ordering::Relaxed) > 0, status == 202, "asked by whom it is known to");
        sdk.client.close();
    }
}
