//! The reply to an attach leaves out each thing that the client asked for and does not get.

use amqp_codec::{
    performative::{Attach, Source, Target, TargetTerminus},
    raw::{AnnotationValue, RawMap},
    types::{Role, Symbol},
};

use crate::{
    harness::World,
    subscribers::{NAMED, selecting, world},
};

fn symbols(names: &[&'static str]) -> Vec<Symbol> {
    names.iter().map(|&name| Symbol::from(name)).collect()
}

fn attach(world: &mut World, client: usize, attach: Attach) -> Attach {
    world.script(client).attach(0, attach);
    world.run();
    let (mut attaches, detaches) = world.link_frames(client);
    assert_eq!(detaches.len(), 0, "{:?}", detaches[0].error);
    attaches.remove(0)
}

fn receiver(name: &str, handle: u32, source: Source) -> Attach {
    let mut attach = Attach::new(name, handle, Role::Receiver);
    (attach.source, attach.target) = (Some(source), Some(Target::new("here")));
    attach
}

#[test]
fn a_reply_has_the_capabilities_of_source_and_target_that_have_an_effect() {
    let (mut world, client) = world();
    let cases = [
        ("q", vec!["queue", "foo"], vec!["queue"]),
        ("q", vec!["foo"], vec![]),
        ("q", vec!["queue", "shared"], vec!["queue"]),
        ("t", vec!["topic", "shared", "global", "foo"], vec!["topic", "shared", "global"]),
        ("t", vec!["topic"], vec!["topic"]),
    ];
    for (handle, (address, asked, granted)) in (10..).zip(cases) {
        let name = format!("l{handle}");
        let source = Source { capabilities: symbols(&asked), ..Source::new(address) };
        let reply = attach(&mut world, client, receiver(&name, handle, source));
        assert_eq!(reply.source.unwrap().capabilities, granted, "{address} {asked:?}");
    }
    let mut sender = Attach::new("s", 30, Role::Sender);
    sender.initial_delivery_count = Some(0);
    sender.source = Some(Source { capabilities: symbols(&["foo"]), ..Source::new("here") });
    let target = TargetTerminus { capabilities: symbols(&["queue", "foo"]), ..TargetTerminus::default() };
    sender.target = Some(Target::Terminus(TargetTerminus { address: Some("q".into()), ..target }));
    let reply = attach(&mut world, client, sender);
    let Some(Target::Terminus(target)) = reply.target else { panic!("{:?}", reply.target) };
    assert_eq!(target.capabilities, ["queue"]);
    assert_eq!(reply.source.unwrap().capabilities, ["foo"], "the peer's own terminus");
}

#[test]
fn a_distribution_mode_that_is_unknown_is_not_granted() {
    let (mut world, client) = world();
    for (handle, (asked, granted)) in (10..).zip([("move", true), ("copy", true), ("sideways", false)]) {
        let source = Source { distribution_mode: Some(Symbol::from(asked)), ..Source::new("q") };
        let reply = attach(&mut world, client, receiver(asked, handle, source));
        let mode = reply.source.unwrap().distribution_mode;
        assert_eq!(mode.is_some_and(|mode| mode == asked), granted, "{asked}");
    }
}

#[test]
fn of_several_filters_the_one_that_is_applied_is_granted() {
    let (mut world, client) = world();
    let selector = selecting(Source::new("q"), "selector", NAMED, "n > 2");
    let reply = attach(&mut world, client, receiver("r", 10, selector.clone()));
    assert_eq!(reply.source.unwrap().filter, selector.filter);
    let no_local = RawMap::with_symbol_keys(&[("no-local", AnnotationValue::Bool(true))]);
    let source = Source { filter: Some(no_local), ..Source::new("q") };
    let reply = attach(&mut world, client, receiver("n", 11, source));
    assert_eq!(reply.source.unwrap().filter, None);
}

#[test]
fn a_reply_of_which_nothing_is_left_out_has_the_bytes_that_came() {
    let (mut world, client) = world();
    let source = Source {
        capabilities: symbols(&["queue"]),
        distribution_mode: Some(Symbol::from("move")),
        outcomes: symbols(&["amqp:accepted:list", "amqp:released:list"]),
        ..Source::new("/queues/q")
    };
    let reply = attach(&mut world, client, receiver("r", 10, source.clone()));
    assert_eq!(reply.source, Some(source));
    assert_eq!(reply.target, Some(Target::new("here")));
}
