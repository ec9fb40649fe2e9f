use amqp_codec::message::MessageBuilder;
use testkit::{Incoming, Received};

use super::*;

#[test]
fn a_template_gives_transfers_that_differ_in_id_and_mark() {
    let message = MessageBuilder::new().message_id("XXXX").data(b"body").build();
    let template = Template::new(3, &message, b"XXXX", None);
    let mut out = Vec::new();
    template.append(&mut out, 7, b"abcd");
    template.append(&mut out, 8, b"efgh");
    let mut script = Script::new();
    script.handle_input(&out);
    for (id, mark) in [(7, "abcd"), (8, "efgh")] {
        let Some(Incoming::Frame(Received {
            performative: Performative::Transfer(transfer), payload, ..
        })) = script.poll()
        else {
            panic!("no transfer")
        };
        assert_eq!((transfer.handle, transfer.delivery_id), (3, Some(id)));
        assert_eq!(transfer.delivery_tag.unwrap().as_slice(), id.to_be_bytes());
        assert_eq!(payload, MessageBuilder::new().message_id(mark).data(b"body").build());
    }
    assert!(script.poll().is_none() && script.broken().is_none());
}

#[test]
fn this_process_has_used_some_cpu() {
    let before = cpu(std::process::id()).unwrap();
    while cpu(std::process::id()).unwrap() == before {}
    assert!(cpu(u32::MAX).is_err());
}
