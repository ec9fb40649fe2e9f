use clap::Parser as _;
use fe2o3_amqp_types::{
    messaging::{ApplicationProperties, Message, Properties},
    primitives::Binary,
};

use super::*;
use crate::arguments::{Arguments, Command, DeadLetterCommand};

fn filter(options: &[&str]) -> DeadLetterArguments {
    let line = ["ferrybus", "dead-letter", "list", "orders"];
    match Arguments::try_parse_from(line.iter().chain(options)).unwrap().command {
        Some(Command::DeadLetter(DeadLetterCommand::List(arguments))) => arguments,
        other => panic!("{other:?}"),
    }
}

fn message() -> Received {
    let properties = Properties::builder().message_id("m-1".to_owned()).subject("tea").build();
    let reason = ApplicationProperties::builder().insert(REASON, "cold").build();
    let message = Message::builder().properties(properties).application_properties(reason);
    message.data(Binary::from(Vec::new())).build().map_body(|data| Body::Data(vec![data].into()))
}

#[test]
fn dead_letters_are_picked_by_reason_subject_and_id() {
    let cases: [(&[&str], bool); 9] = [
        (&[], true),
        (&["--reason", "cold"], true),
        (&["--reason", "Cold"], false),
        (&["--subject", "tea"], true),
        (&["--subject", "te"], false),
        (&["--id", "m-2", "--id", "m-1"], true),
        (&["--id", "m-2"], false),
        (&["--reason", "cold", "--subject", "coffee"], false),
        (&["--reason", "cold", "--subject", "tea", "--id", "m-1"], true),
    ];
    for (options, expected) in cases {
        assert_eq!(filter(options).wants(&message()), expected, "{options:?}");
    }
    let bare = Message::builder().data(Binary::from(Vec::new())).build();
    let bare = bare.map_body(|data| Body::Data(vec![data].into()));
    assert!(filter(&[]).wants(&bare) && !filter(&["--reason", "cold"]).wants(&bare));
}
