use std::io::{self, Cursor, Read, Write};

use amqp_codec::{
    performative::{DeliveryState, Error, Performative},
    types::Role,
    value::{Value, decode_value},
};
use bytes::BytesMut;

use super::{
    term::{Shape, Term},
    write::all,
    *,
};
use crate::{Script, Wire};

mod demands;

/// A broker that has said all of its answers already.
struct Canned {
    answers: Cursor<Vec<u8>>,
    heard: Vec<u8>,
}

impl Read for Canned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.answers.read(buffer)
    }
}

impl Write for Canned {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.heard.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Notes what is asked of it.
#[derive(Default)]
struct Notes(Vec<String>);

impl Environment for Notes {
    fn token(&mut self, key_name: &str, audience: &str) -> String {
        self.0.push(format!("token {key_name} {audience}"));
        "a token".to_owned()
    }

    fn store(&mut self, entity: &str, message: &[u8]) {
        self.0.push(format!("store {entity} {}", message.escape_ascii()));
    }

    fn advance(&mut self, millis: u64) {
        self.0.push(format!("advance {millis}"));
    }
}

/// Plays a text to a broker that says these answers and then closes.
fn play(text: &str, answers: &mut Script) -> Result<(), PlayError> {
    let stream = Canned { answers: Cursor::new(answers.take_output().to_vec()), heard: Vec::new() };
    let mut player = Player::new(Wire::over(stream), "localhost", 1);
    player.play(&Recording::read(text).unwrap(), &mut Notes::default())?;
    player.finish()
}

/// A client that has a session and a link to send on, and waits for the outcomes of two messages.
const SENDS: &str = r#"
> 0 begin(next-outgoing-id: 1, incoming-window: 5000, outgoing-window: 5000)
< 0 begin(remote-channel: 0u16)
> 0 attach(name: "out", handle: 0, role: false, target: target(address: "q"))
< 0 attach(name: "out", role: true, target: target(address: "q"))
< 0 flow(handle: 0, link-credit: ?positive)
> 0 transfer(handle: 0, delivery-id: 0, delivery-tag: b"\x01")
    data b"one"
> 0 transfer(handle: 0, delivery-id: 1, delivery-tag: b"\x02")
    data b"two"
< 0 disposition(role: true, first: 0, last: 1, settled: true, state: accepted())
"#;

/// The broker's side of [`SENDS`] up to the credit, with numbers of its own: channel 7, handle 9.
fn answers() -> Script {
    let mut script = Script::new();
    let begin = amqp_codec::performative::Begin {
        remote_channel: Some(0),
        next_outgoing_id: 40,
        incoming_window: 100,
        outgoing_window: 100,
        handle_max: 10,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    };
    script.send(7, &Performative::Begin(Box::new(begin)), b"");
    let mut attach = amqp_codec::performative::Attach::new("out", 9, Role::Receiver);
    attach.target = Some(amqp_codec::performative::Target::new("q"));
    script.attach(7, attach).credit(7, 9, 0, 10, false);
    script
}

fn answer(script: &mut Script, first: u32, last: u32, state: DeliveryState) {
    let disposition = amqp_codec::performative::Disposition {
        role: Role::Receiver,
        first,
        last: Some(last),
        settled: true,
        state: Some(state),
        batchable: false,
    };
    script.send(7, &Performative::Disposition(disposition), b"");
}

#[test]
fn a_play_goes_on_however_the_broker_counts_and_splits_its_answers() {
    for split in [vec![(0, 1)], vec![(0, 0), (1, 1)], vec![(1, 1), (0, 0)]] {
        let mut script = answers();
        for (first, last) in &split {
            answer(&mut script, *first, *last, DeliveryState::Accepted);
        }
        play(SENDS, &mut script).unwrap_or_else(|error| panic!("{split:?}: {error}"));
    }
}

type Change = Box<dyn Fn(&mut Script)>;

/// Each wrong answer of a broker, as a change of a right one, has its error.
#[test]
fn a_play_ends_with_the_step_that_a_wrong_broker_does_not_permit() {
    let refusal = || {
        let error = Error { condition: "amqp:internal-error".into(), description: None, info: None };
        DeliveryState::Rejected(Some(Box::new(error)))
    };
    let rows: [(Change, &[&str]); 5] = [
        (
            Box::new(|script| answer(script, 0, 0, DeliveryState::Accepted)),
            &["line 11", "disposition(role: true, first: 0, last: 1", "the broker closed the socket"],
        ),
        (
            Box::new(move |script| {
                answer(script, 0, 0, DeliveryState::Accepted);
                answer(script, 1, 1, refusal());
            }),
            &["line 11", "state: demanded accepted", "found rejected", "amqp:internal-error"],
        ),
        (
            Box::new(|script| {
                let error = Error { condition: "amqp:link:stolen".into(), description: None, info: None };
                let detach = amqp_codec::performative::Detach { handle: 9, closed: true, error: Some(error) };
                script.send(7, &Performative::Detach(Box::new(detach)), b"");
            }),
            &["line 11", "the broker has ended it", "amqp:link:stolen"],
        ),
        (
            Box::new(|script| {
                answer(script, 0, 1, DeliveryState::Accepted);
                answer(script, 1, 1, DeliveryState::Accepted);
            }),
            &["at the end of the recording", "disposition(role: true, first: 1, last: 1"],
        ),
        (
            Box::new(|script| {
                script.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }),
            &["line 11", "not AMQP"],
        ),
    ];
    for (number, (change, texts)) in rows.iter().enumerate() {
        let mut script = answers();
        change(&mut script);
        let error = play(SENDS, &mut script).expect_err(&number.to_string()).to_string();
        for text in *texts {
            assert!(error.contains(text), "row {number}: `{text}` is not in: {error}");
        }
    }
}

#[test]
fn an_attach_that_is_refused_is_told_at_once() {
    let mut script = answers();
    let mut refused = amqp_codec::performative::Attach::new("out", 9, Role::Receiver);
    refused.source = None;
    let text =
        SENDS.replace("name: \"out\", role: true", "name: \"out\", role: true, max-message-size: ?positive");
    let error = play(&text, script.attach(7, refused)).expect_err("no size").to_string();
    assert!(error.contains("line 5") && error.contains("max-message-size: demanded ?positive"), "{error}");
}

#[test]
fn a_variable_without_a_value_ends_a_play() {
    let error = play("> 0 detach(handle: $link)", &mut Script::new()).expect_err("no value").to_string();
    assert_eq!(error, "line 1: nothing has given `$link` a value");
    let error = play("> 0 detach(handle: ?uint)", &mut Script::new()).expect_err("a demand").to_string();
    assert_eq!(error, "line 1: a demand is no value");
}

#[test]
fn the_environment_signs_stores_and_moves_the_clock() {
    let text = "! token t KEY sb://${host}/q\n! store q data b\"x\"\n! advance 5000\n";
    let stream = Canned { answers: Cursor::default(), heard: Vec::new() };
    let mut player = Player::new(Wire::over(stream), "localhost", 1);
    let mut notes = Notes::default();
    player.play(&Recording::read(text).unwrap(), &mut notes).unwrap();
    assert_eq!(notes.0, ["token KEY sb://localhost/q", r"store q \x00Su\xa0\x01x", "advance 5000"]);
    assert_eq!(player.get("t"), Some(Value::String("a token".to_owned())));
}

/// Frames of the recordings, whose bytes are those that `Microsoft.Azure.Amqp` 2.7.1 wrote.
#[test]
fn terms_become_the_bytes_of_the_recorded_client() {
    let mut variables = Variables::new(0);
    for (name, value) in
        [("reply", "b55af6ddc2b642d3b707cb844569e819"), ("request", "16dfef6c-04aa-4f97-b00f-eb99f6d15104")]
    {
        variables.set(name, Value::String(value.to_owned()));
    }
    variables.set("next", Value::Uint(1));
    for (text, bytes) in [
        (
            r#"attach(name: "duplex0:1:2:receiver", handle: 1, role: true, snd-settle-mode: 1u8,
               source: source(address: "$$cbs"), target: target(address: "${reply}"),
               properties: {'com.microsoft:timeout': 59706})"#,
            "005312c0860ea1146475706c6578303a313a323a7265636569766572520141500140005328c0110ba10424636273404040\
             40404040404040005329c02907a1206235356166366464633262363432643362373037636238343435363965383139404040\
             404040404040404040c11d02a315636f6d2e6d6963726f736f66743a74696d656f7574700000e93a",
        ),
        (
            "flow(next-incoming-id: $next, incoming-window: 5000, next-outgoing-id: 1, outgoing-window: 5000,
             handle: 1, delivery-count: 0, link-credit: 50, available: 0, echo: false)",
            "005313c0180b5201700000138852017000001388520143523243404240",
        ),
        (
            r#"application-properties {"operation": "com.microsoft:cancel-scheduled-message",
               "com.microsoft:server-timeout": 60000, "com.microsoft:tracking-id": "${request}"}
               value {"sequence-numbers": array[1i64]}"#,
            "005374c19806a1096f7065726174696f6ea126636f6d2e6d6963726f736f66743a63616e63656c2d7363686564756c65642d6d\
             657373616765a11c636f6d2e6d6963726f736f66743a7365727665722d74696d656f7574700000ea60a119636f6d2e6d696372\
             6f736f66743a747261636b696e672d6964a12431366466656636632d303461612d346639372d623030662d6562393966366431\
             35313034005377c12502a11073657175656e63652d6e756d62657273f00000000d00000001810000000000000001",
        ),
    ] {
        let (_, written) = all(&Term::read_all(text).unwrap(), &variables).unwrap();
        let hex: String = written.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect();
        assert_eq!(hex, bytes, "{text}");
    }
}

fn digit(half: u8) -> char {
    char::from_digit(half.into(), 16).unwrap()
}

#[test]
fn a_large_message_is_sent_in_frames_of_the_size_that_the_client_has_said() {
    let text = "> 0 open(container-id: \"me\", max-frame-size: 600)\n\
                > 0 transfer(handle: 3, delivery-id: 0, more: false)\n    data letters(1500)\n";
    let stream = Canned { answers: Cursor::default(), heard: Vec::new() };
    let mut player = Player::new(Wire::over(stream), "localhost", 1);
    player.play(&Recording::read(text).unwrap(), &mut Notes::default()).unwrap();
    let mut script = Script::new();
    script.handle_input(&player.wire().stream().heard.clone());
    let frames: Vec<_> = std::iter::from_fn(|| script.poll()).skip(1).collect();
    let sizes: Vec<(bool, Option<u32>)> = frames
        .iter()
        .map(|frame| match frame {
            crate::Incoming::Frame(crate::Received {
                performative: Performative::Transfer(transfer),
                ..
            }) => {
                assert_eq!(transfer.handle, 3);
                (transfer.more, transfer.delivery_id)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [(true, Some(0)), (true, None), (false, None)]);
}

#[test]
fn what_is_no_recording_is_told_with_its_line() {
    for (text, expected) in [
        ("hello", "line 1: a step begins with"),
        ("\n    data b\"x\"", "line 2: a step begins with"),
        ("> q begin()", "line 1: `q` is neither a channel"),
        ("> 0 begin(channel: 1)", "line 1: expected a field of begin instead of `channel`"),
        ("> 0 begin(remote-channel: 1q)", "line 1: expected a number"),
        ("> 0 begins()", "line 1: expected a known name"),
        ("> 0 end(", "line 1: expected a field of end"),
        ("> 0 end(error: \"x)", "line 1: expected the end of a text"),
        ("< 0 end()\n! wait 5", "line 2: `wait 5` is no control line"),
        ("! advance soon", "line 1: `advance soon` is no control line"),
    ] {
        let error = Recording::read(text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

/// The value that a text is.
fn value(text: &str) -> Value {
    let mut bytes = BytesMut::new();
    let terms = Term::read_all(text).unwrap();
    assert_eq!(terms.len(), 1, "{text}");
    terms[0].write(&mut bytes, &Variables::new(0)).unwrap();
    decode_value(&bytes).unwrap()
}

#[test]
fn a_lock_token_is_the_tag_with_its_first_fields_turned() {
    let mut variables = Variables::new(0);
    let tag: Vec<u8> = (0..16).collect();
    variables.set("tag", Value::Binary(tag.into()));
    let token = Term::read_all("uuid($tag)").unwrap().remove(0);
    assert!(matches!(token.0, Shape::LockToken(_)));
    let expected = value("uuid(0x03020100050407060809 0a0b0c0d0e0f)".replace(' ', "").as_str());
    assert!(token.fits(&expected, &mut variables).is_ok());
}
