//! Tokens of one namespace shown in another, where both have a key of the same name and text.

use std::io::Write as _;

use amqp_codec::{
    performative::{Attach, Open, Source, Target},
    types::Role,
};
use broker_auth::{
    Anonymous, Authority, Credentials, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, Secret, sign_token,
};
use broker_core::{EntitySettings, NamespaceSettings};
use broker_server::{EntityPlan, NamespacePlan};
use testkit::Wire;

use crate::{
    broker::{Broker, QUEUE, config},
    dialect::Sdk,
    http::{answer, connect},
    sdk_go::GO,
};

const TEAMS: [&str; 2] = ["team-a", "team-b"];

/// A broker with a queue of the same name and the development key in the default namespace and in two more.
fn broker() -> Broker {
    Broker::with(|config| {
        config.namespaces = TEAMS.map(plan).to_vec();
    })
}

/// A namespace with a queue, which the development key opens.
pub(crate) fn plan(name: &str) -> NamespacePlan {
    NamespacePlan {
        name: name.into(),
        settings: NamespaceSettings::default(),
        authority: Authority::new(Credentials::development(Anonymous::Deny)).into(),
        key_sources: Vec::new(),
        entities: vec![EntityPlan::queue(QUEUE, EntitySettings::default())],
    }
}

fn signed(resource: &str) -> String {
    let until = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() + 600;
    sign_token(resource, DEVELOPMENT_KEY_NAME, &Secret::new(DEVELOPMENT_KEY), until)
}

/// A client of Service Bus that has opened its connection to this host.
fn client_at(broker: &Broker, host: &str) -> Sdk<'static> {
    let open = Open { hostname: Some(host.to_owned()), ..(GO.open)() };
    Sdk::open_over(Wire::connect(broker.address).unwrap(), &GO, open)
}

/// Status and text of the answer to a request for the queue at a host, with this token.
fn get(broker: &Broker, host: &str, token: &str) -> (u16, String) {
    let mut stream = connect(broker.http_address());
    let request = format!(
        "GET /{QUEUE} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut stream)
}

fn names_both(text: &str, leads_to: &str, here: &str) -> bool {
    text.contains(&format!("`{leads_to}`")) && text.contains(&format!("this is the namespace `{here}`"))
}

#[test]
fn over_amqp_a_token_of_another_namespace_opens_nothing() {
    let broker = broker();
    for (own, other) in
        [("team-a", "team-b"), ("team-b", "team-a"), ("team-b", "default"), ("default", "team-a")]
    {
        let (here, there) = (format!("{own}.localhost"), format!("{other}.localhost"));
        let mut sdk = client_at(&broker, &here);
        let kind = "servicebus.windows.net:sastoken";
        let place = |host: &str| format!("amqps://{host}/{QUEUE}");
        // Signed for the other namespace, shown for either; and signed for this one, shown for the other.
        for (resource, audience) in [(&there, &there), (&there, &here), (&here, &there)] {
            let (status, text) = sdk.put_for(kind, &place(audience), signed(&place(resource)));
            assert_eq!(status, 401, "{resource} {audience} in {own}: {text}");
            assert!(names_both(&text, other, own), "{text}");
            let channel = sdk.session();
            let mut attach = Attach::new("sender", 7, Role::Sender);
            (attach.source, attach.target) = (Some(Source::new("here")), Some(Target::new(QUEUE)));
            attach.initial_delivery_count = Some(0);
            assert_eq!(sdk.client.refused(channel, attach).condition, "amqp:unauthorized-access");
        }
        let upper = here.to_ascii_uppercase();
        for resource in [here.as_str(), &format!("{upper}:5671")] {
            let (status, text) = sdk.put_for(kind, &place(resource), signed(&place(resource)));
            assert_eq!(status, 202, "{resource} in {own}: {text}");
        }
        // A token that names no host is for the namespace where it is shown.
        assert_eq!(sdk.put_for(kind, QUEUE, signed(QUEUE)).0, 202, "{own}");
    }
}

#[test]
fn over_http_a_token_of_another_namespace_opens_nothing() {
    let broker = broker();
    for (own, other) in
        [("team-a", "team-b"), ("team-b", "team-a"), ("team-b", "default"), ("default", "team-a")]
    {
        let here = format!("{own}.localhost");
        let (status, text) = get(&broker, &here, &signed(&format!("http://{other}.localhost:5672/{QUEUE}")));
        assert_eq!(status, 401, "{other} in {own}: {text}");
        assert!(names_both(&text, other, own), "{text}");
        for resource in [format!("http://{here}/{QUEUE}"), format!("HTTPS://{own}:5671/"), QUEUE.to_owned()] {
            let (status, text) = get(&broker, &here, &signed(&resource));
            assert_eq!(status, 200, "{resource} in {own}: {text}");
        }
    }
}

#[test]
fn with_one_namespace_a_token_for_any_host_opens_it() {
    let broker = Broker::of(&config());
    let resource = format!("amqps://somewhere.example/{QUEUE}");
    let mut sdk = client_at(&broker, "elsewhere.example");
    assert_eq!(sdk.put_for("servicebus.windows.net:sastoken", &resource, signed(&resource)).0, 202);
    assert_eq!(get(&broker, "localhost", &signed(&resource)).0, 200);
}
