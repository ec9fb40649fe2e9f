use amqp_codec::performative::{SaslChallenge, SaslInit, SaslResponse};
use bytes::Bytes;

use super::*;

fn init(mechanism: &'static str) -> SaslFrame {
    SaslFrame::Init(SaslInit { mechanism: mechanism.into(), initial_response: None, hostname: None })
}

fn response() -> SaslFrame {
    SaslFrame::Response(SaslResponse { response: Bytes::from_static(b"r") })
}

#[test]
fn each_state_takes_the_one_frame_that_is_due() {
    let offered = [Symbol::from("PLAIN")];
    let await_init = Sasl::AwaitInit;
    let deciding = Sasl::Deciding { challenges: 1 };
    let await_response = Sasl::AwaitResponse { challenges: 1 };
    let challenge = || SaslFrame::Challenge(SaslChallenge { challenge: Bytes::new() });
    let cases = [
        // state, frame, asks, fails
        (await_init, init("PLAIN"), true, false),
        (await_init, init("plain"), false, true),
        (await_init, response(), false, false),
        (await_init, mechanisms(&offered), false, false),
        (await_init, challenge(), false, false),
        (await_init, outcome(SaslCode::Ok), false, false),
        (await_response, response(), true, false),
        (await_response, init("PLAIN"), false, false),
        (await_response, outcome(SaslCode::Ok), false, false),
        (deciding, response(), false, false),
        (deciding, init("PLAIN"), false, false),
    ];
    for (state, frame, asks, fails) in cases {
        let mut sasl = state;
        let reaction = sasl.on_frame(&offered, frame.clone());
        let got = (matches!(reaction, Reaction::Ask(_)), matches!(reaction, Reaction::Fail));
        assert_eq!(got, (asks, fails), "{state:?} {frame:?}");
        assert_eq!(sasl.is_deciding(), asks || state.is_deciding());
    }
}

#[test]
fn challenges_end_at_the_limit() {
    let mut sasl = Sasl::AwaitInit;
    let offered = [Symbol::from("PLAIN")];
    sasl.on_frame(&offered, init("PLAIN"));
    for n in 0..MAX_SASL_CHALLENGES {
        assert!(sasl.challenge(), "challenge {n}");
        sasl.on_frame(&offered, response());
    }
    assert!(!sasl.challenge());
}

#[test]
fn a_challenge_is_for_a_peer_that_waits_for_one() {
    assert!(!Sasl::AwaitInit.challenge());
    assert!(!Sasl::AwaitResponse { challenges: 0 }.challenge());
}
