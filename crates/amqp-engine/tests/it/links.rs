use amqp_codec::performative::{
    Attach, Detach, End, Error, Flow, Open, Performative, Source, Target, Transfer,
};
use amqp_codec::types::{ReceiverSettleMode, Role, SenderSettleMode};
use amqp_engine::{AttachReply, Config, Event, LinkKey, Origin};

use crate::pair::*;

/// The attach that the engine writes.
fn answer(pair: &mut Pair) -> Attach {
    match pair.frames().remove(0) {
        Performative::Attach(attach) => *attach,
        other => panic!("{other:?}"),
    }
}

fn detach(handle: u32, closed: bool) -> Detach {
    Detach { handle, closed, error: None }
}

/// A pair whose links are not answered by themselves.
fn unanswered() -> Pair {
    let mut pair = Pair::begun(plain());
    pair.answer = false;
    pair
}

fn pending(pair: &mut Pair, attach: Attach) -> LinkKey {
    pair.feed(&amqp(0, attach));
    match pair.take_event() {
        Event::LinkAttached { link, .. } => link,
        other => panic!("{other:?}"),
    }
}

#[test]
fn attach_is_answered_in_kind() {
    for role in [Role::Sender, Role::Receiver] {
        let mut pair = Pair::begun(plain());
        pair.feed(&amqp(0, attach("name", 300, role)));
        let got = answer(&mut pair);
        assert_eq!((got.name.as_str(), got.role, got.handle), ("name", role.opposite(), 0));
        assert_eq!(got.initial_delivery_count, (role == Role::Receiver).then_some(0));
        assert_eq!((got.source, got.target), (Some(Source::new("from")), Some(Target::new("to"))));
        assert_eq!(got.max_message_size, Some(1_048_576));
    }
}

#[test]
fn settle_modes_are_echoed() {
    let snd = [None, Some(SenderSettleMode::Unsettled), Some(SenderSettleMode::Settled)];
    let rcv = [None, Some(ReceiverSettleMode::First), Some(ReceiverSettleMode::Second)];
    for (snd_settle_mode, rcv_settle_mode) in snd.into_iter().flat_map(|s| rcv.map(|r| (s, r))) {
        let mut pair = Pair::begun(plain());
        let asked = Attach { snd_settle_mode, rcv_settle_mode, ..attach("a", 0, Role::Sender) };
        pair.feed(&amqp(0, asked));
        let got = answer(&mut pair);
        assert_eq!(got.snd_settle_mode, Some(snd_settle_mode.unwrap_or(SenderSettleMode::Mixed)));
        assert_eq!(got.rcv_settle_mode, Some(rcv_settle_mode.unwrap_or(ReceiverSettleMode::First)));
    }
}

#[test]
fn termini_are_echoed_byte_for_byte() {
    // A source and a target with odd but legal encodings: a wide list, a wide string, spare nulls.
    let source = [&[
        0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x28, 0xd0, 0, 0, 0, 13, 0, 0, 0, 2, 0xb1, 0, 0, 0, 1, b'q', 0x70, 0,
        0, 0, 0,
    ][..]]
    .concat();
    let size = u32::try_from(source.len() - 15).unwrap();
    let mut source = source;
    source[11..15].copy_from_slice(&size.to_be_bytes());
    let target = [0, 0x53, 0x29, 0xc0, 4, 1, 0xa1, 1, b't'];
    let mut fields = vec![0xa1, 1, b'n', 0x43, 0x41, 0x40, 0x40];
    fields.extend_from_slice(&source);
    fields.extend_from_slice(&target);
    let mut body = vec![0, 0x53, 0x12, 0xc0, u8::try_from(fields.len() + 1).unwrap(), 7];
    body.extend_from_slice(&fields);
    let mut pair = Pair::begun(plain());
    pair.feed(&raw(0, &body));
    assert!(matches!(pair.take_event(), Event::LinkAttached { .. }));
    let wire = pair.read_bytes();
    let termini = [&source[..], &target[..]].concat();
    assert!(wire.windows(termini.len()).any(|window| window == termini), "{wire:02x?}");
}

#[test]
fn a_refusal_is_an_attach_without_termini_and_a_detach() {
    for role in [Role::Sender, Role::Receiver] {
        let mut pair = unanswered();
        let link = pending(&mut pair, attach("a", 5, role));
        pair.engine.refuse_link(link, Error::new("amqp:not-found", "no such queue"));
        let frames = pair.frames();
        let [Performative::Attach(attach), Performative::Detach(detach)] = &frames[..] else {
            panic!("{frames:?}")
        };
        assert!(attach.source.is_none() && attach.target.is_none());
        assert_eq!((detach.handle, detach.closed), (attach.handle, true));
        assert_eq!(detached_with(&frames).as_deref(), Some("amqp:not-found"));
        // Frames that the peer sent before it knew are ignored, and its detach is not answered (rule 18).
        pair.feed_all(&[
            amqp(0, credit(5, 0, 10)),
            amqp(0, Flow { echo: true, ..credit(5, 0, 10) }),
            amqp_with(0, transfer(5, 0), b"x"),
            amqp(0, Detach { handle: 5, closed: true, error: None }),
        ]);
        assert_eq!((pair.read(), pair.take_events()), (vec![], vec![]), "{role:?}");
        // Handle and name are free.
        pending(&mut pair, self::attach("a", 5, role));
    }
}

#[test]
fn the_same_name_serves_both_directions() {
    let mut pair = Pair::begun(plain());
    let one = pair.attach("same", 0, Role::Sender);
    let other = pair.attach("same", 1, Role::Receiver);
    assert_ne!(one, other);
    assert_eq!(pair.read(), []);
    assert!(pair.engine.send(other, message(1, 1)).is_some());
}

#[test]
fn a_link_attached_again_is_stolen() {
    let mut pair = Pair::begun(plain());
    let old = pair.attach("name", 0, Role::Receiver);
    pair.begin(1);
    for (channel, handle) in [(0, 1), (1, 0)] {
        let mut pair = Pair::begun(plain());
        let old = pair.attach("name", 0, Role::Receiver);
        if channel == 1 {
            pair.begin(1);
        }
        pair.feed(&amqp(channel, attach("name", handle, Role::Receiver)));
        let frames = pair.frames();
        // The old one is gone before the new one comes.
        assert!(matches!(frames[1], Performative::Attach(_)));
        assert_eq!(detached_with(&frames[..1]).as_deref(), Some("amqp:link:stolen"));
        let events = pair.take_events();
        assert!(matches!(
            &events[0],
            Event::LinkDetached { link, closed: true, error: Some(_), by: Origin::Engine } if *link == old
        ));
        assert!(matches!(&events[1], Event::LinkAttached { link, .. } if *link != old));
        // The peer's own detach of the stolen link is the end of it.
        pair.feed(&amqp(0, detach(0, true)));
        assert_eq!((pair.read(), pair.take_events()), (vec![], vec![Event::DetachAnswered { link: old }]));
    }
    assert!(pair.engine.send(old, message(1, 1)).is_some(), "another direction steals nothing");
}

#[test]
fn handles_are_checked() {
    let config = Config { handle_max: 255, ..plain() };
    let mut pair = Pair::begun(config.clone());
    pair.attach("highest", 255, Role::Sender);
    pair.feed(&amqp(0, attach("beyond", 256, Role::Sender)));
    assert_eq!(closed_with(&pair.frames()).as_deref(), Some("amqp:connection:framing-error"));

    let mut pair = Pair::begun(config);
    pair.attach("one", 7, Role::Sender);
    pair.feed(&amqp(0, attach("two", 7, Role::Sender)));
    assert_eq!(ended_with(&pair.frames()).as_deref(), Some("amqp:session:handle-in-use"));
}

#[test]
fn hundreds_of_links_share_a_session() {
    let mut pair = Pair::begun(plain());
    let links: Vec<_> = (0..400).map(|n| pair.attach(&format!("l{n}"), n * 3, Role::Sender)).collect();
    for (n, link) in links.iter().enumerate() {
        let n = u32::try_from(n).unwrap();
        assert_eq!(link.handle(), n);
        pair.feed(&amqp_with(0, transfer(n * 3, n), b"x"));
        assert!(matches!(pair.take_event(), Event::Transfer(delivery) if delivery.link == *link));
        pair.read();
    }
}

#[test]
fn our_handles_stay_below_the_peers_limit() {
    let mut pair = Pair::open(plain());
    let begin = amqp_codec::performative::Begin { handle_max: 1, ..begin() };
    pair.feed(&amqp(0, begin));
    pair.events.clear();
    pair.attach("a", 10, Role::Sender);
    pair.attach("b", 11, Role::Sender);
    pair.feed(&amqp(0, attach("c", 12, Role::Sender)));
    assert_eq!(ended_with(&pair.frames()).as_deref(), Some("amqp:resource-limit-exceeded"));
}

#[test]
fn more_links_than_a_connection_may_have_are_refused() {
    let mut pair = Pair::begun(Config { max_links: 2, ..plain() });
    pair.attach("a", 0, Role::Sender);
    pair.attach("b", 1, Role::Receiver);
    for _ in 0..3 {
        pair.feed(&amqp(0, attach("c", 2, Role::Sender)));
        assert_eq!(detached_with(&pair.frames()).as_deref(), Some("amqp:resource-limit-exceeded"));
        assert_eq!(pair.take_events(), [], "the layer above is not bothered");
        pair.feed(&amqp(0, detach(2, true)));
    }
    pair.feed(&amqp(0, detach(1, true)));
    pair.read();
    pair.attach("c", 2, Role::Sender);
}

#[test]
fn a_sender_must_tell_its_first_delivery_count() {
    let mut pair = Pair::begun(plain());
    pair.feed(&amqp(0, Attach { initial_delivery_count: None, ..attach("a", 0, Role::Sender) }));
    let frames = pair.frames();
    assert!(matches!(&frames[0], Performative::Attach(attach) if attach.target.is_none()));
    assert_eq!(detached_with(&frames).as_deref(), Some("amqp:invalid-field"));
    // From a receiver it is ignored.
    pair.attach_as(Attach { initial_delivery_count: Some(77), ..attach("b", 1, Role::Receiver) });
    pair.feed(&amqp(0, credit(1, 0, 5)));
    assert!(matches!(pair.take_event(), Event::LinkFlow { limit: 5, .. }));
}

#[test]
fn long_link_names_of_any_characters_are_taken() {
    let name = "näme \u{0} { receiver: ⚡ }".repeat(100);
    let mut pair = Pair::begun(plain());
    pair.feed(&amqp(0, attach(&name, 0, Role::Receiver)));
    assert_eq!(answer(&mut pair).name, name);
}

#[test]
fn detach_is_answered_in_kind_and_the_handle_is_free() {
    for closed in [true, false] {
        let mut pair = Pair::begun(plain());
        let link = pair.attach("a", 3, Role::Receiver);
        pair.feed_all(&[amqp(0, detach(3, closed)), amqp(0, attach("a", 3, Role::Receiver))]);
        let frames = pair.frames();
        // The answer comes before the attach that takes the handle again.
        let [Performative::Detach(got), Performative::Attach(_)] = &frames[..] else { panic!("{frames:?}") };
        assert_eq!((got.closed, got.handle, got.error.as_ref()), (closed, 0, None));
        let events = pair.take_events();
        assert_eq!(events[0], Event::LinkDetached { link, closed, error: None, by: Origin::Peer });
        assert!(matches!(&events[1], Event::LinkAttached { link: new, .. } if *new != link));
        assert!(pair.engine.send(link, message(1, 1)).is_none(), "the old key is dead");
    }
}

#[test]
fn our_detach_closes_and_the_peers_answer_is_told_once() {
    for closed in [true, false] {
        let mut pair = Pair::begun(plain());
        let link = pair.attach("a", 0, Role::Receiver);
        pair.engine.detach(link, Some(Error::new("amqp:resource-deleted", "queue deleted")));
        assert_eq!(detached_with(&pair.frames()).as_deref(), Some("amqp:resource-deleted"));
        pair.engine.detach(link, None);
        assert_eq!(pair.read(), [], "one detach is enough");
        pair.feed(&amqp(0, detach(0, closed)));
        assert_eq!((pair.read(), pair.take_events()), (vec![], vec![Event::DetachAnswered { link }]));
        pair.attach("a", 0, Role::Receiver);
    }
}

#[test]
fn a_link_detached_before_its_answer_is_attached_for_the_sake_of_form() {
    let mut pair = unanswered();
    let link = pending(&mut pair, attach("a", 0, Role::Receiver));
    pair.feed(&amqp(0, detach(0, false)));
    let frames = pair.frames();
    assert!(matches!(
        &frames[..],
        [Performative::Attach(attach), Performative::Detach(_)] if attach.source.is_none()
    ));
    assert!(matches!(pair.take_event(), Event::LinkDetached { by: Origin::Peer, .. }));
    pair.engine.accept_link(link, AttachReply::default());
    assert_eq!(pair.read(), [], "the answer comes too late");
}

#[test]
fn a_second_detach_is_ignored() {
    let mut pair = Pair::begun(plain());
    pair.attach("a", 0, Role::Receiver);
    pair.feed(&amqp(0, detach(0, true)));
    pair.read();
    pair.events.clear();
    pair.feed(&amqp(0, detach(0, true)));
    assert_eq!((pair.read(), pair.take_events()), (vec![], vec![]));
}

#[test]
fn frames_for_handles_never_attached_end_the_session() {
    for bytes in [amqp(0, credit(9, 0, 1)), amqp_with(0, transfer(9, 0), b"x")] {
        let mut pair = Pair::begun(plain());
        pair.feed(&bytes);
        assert_eq!(ended_with(&pair.frames()).as_deref(), Some("amqp:session:unattached-handle"));
        assert!(matches!(pair.take_event(), Event::SessionEnded { by: Origin::Engine, .. }));
        pair.feed(&amqp(0, End::default()));
        assert_eq!(pair.read(), []);
    }
}

#[test]
fn waiting_deliveries_of_a_link_that_goes_are_returned_first() {
    let wait = || {
        let mut pair = Pair::open(plain());
        pair.feed(&amqp(0, amqp_codec::performative::Begin { incoming_window: 0, ..begin() }));
        pair.events.clear();
        let link = pair.attach("out", 0, Role::Receiver);
        for tag in 0..2 {
            pair.engine.send(link, message(tag, 1)).unwrap();
        }
        (pair, link)
    };
    let unsent = |link| Event::Unsent { link, deliveries: ids([1, 2]) };
    let (mut pair, link) = wait();
    pair.feed(&amqp(0, detach(0, true)));
    assert_eq!(pair.take_events()[0], unsent(link));
    let (mut pair, link) = wait();
    pair.engine.detach(link, None);
    pair.poll();
    assert_eq!(pair.take_events(), [unsent(link)]);
    let (mut pair, link) = wait();
    pair.engine.end_session(link.session(), None);
    pair.poll();
    assert_eq!(pair.take_events(), [unsent(link)]);
    let (mut pair, link) = wait();
    pair.feed(&amqp(0, End::default()));
    assert_eq!(pair.take_events()[0], unsent(link));
    let (mut pair, link) = wait();
    pair.engine.close(None);
    pair.poll();
    assert_eq!(pair.take_events(), [unsent(link)]);
    let (mut pair, link) = wait();
    pair.engine.handle_eof();
    pair.poll();
    assert_eq!(pair.take_events()[0], unsent(link));
}

#[test]
fn an_attach_that_does_not_fit_the_peers_frames_closes_the_connection() {
    let mut pair = Pair::open_as(plain(), Open { max_frame_size: 512, ..Open::new("client") });
    pair.begin(0);
    pair.feed(&amqp(0, attach(&"n".repeat(600), 0, Role::Sender)));
    let frames = pair.frames();
    assert_eq!(closed_with(&frames).as_deref(), Some("amqp:frame-size-too-small"));
    let events = pair.take_events();
    assert!(matches!(events.last(), Some(Event::Closed { by: Origin::Engine, .. })), "{events:?}");
}

#[test]
fn errors_too_long_for_the_peers_frames_are_shortened() {
    let open = || Open { max_frame_size: 512, ..Open::new("client") };
    let error = || Error::new("amqp:internal-error", "x".repeat(2_000));
    let check = |pair: &mut Pair| {
        for got in pair.read() {
            let Got::Frame(channel, performative, payload) = got else { panic!() };
            assert!(amqp_with(channel, Body(performative), &payload).len() <= 512);
        }
    };
    let mut pair = Pair::open_as(plain(), open());
    pair.begin(0);
    let link = pair.attach("a", 0, Role::Receiver);
    pair.engine.detach(link, Some(error()));
    check(&mut pair);
    pair.engine.end_session(link.session(), Some(error()));
    check(&mut pair);
    pair.engine.close(Some(error()));
    check(&mut pair);
}

#[test]
fn flows_and_transfers_before_the_answer_are_told() {
    let mut pair = unanswered();
    let out = pending(&mut pair, attach("out", 0, Role::Receiver));
    pair.feed(&amqp(0, credit(0, 0, 5)));
    assert!(matches!(pair.take_event(), Event::LinkFlow { link, limit: 5, .. } if link == out));
    assert!(pair.engine.send(out, message(1, 1)).is_none(), "not before the attach");
    let input = pending(&mut pair, attach("in", 1, Role::Sender));
    pair.feed(&amqp_with(0, transfer(1, 0), b"x"));
    assert!(matches!(pair.take_event(), Event::Transfer(delivery) if delivery.link == input));
}

#[test]
fn errors_that_the_engine_raises_carry_the_configured_note_once() {
    let config = || Config { max_links: 1, error_note: " (see A7)".into(), ..plain() };
    let mut pair = Pair::begun(config());
    pair.attach("a", 0, Role::Sender);
    pair.feed(&amqp(0, attach("refused", 1, Role::Sender)));
    pair.feed(&amqp(0, Transfer { delivery_tag: None, ..transfer(0, 0) }));
    pair.feed(&amqp(0, transfer(9, 0)));
    pair.feed(&amqp(7, transfer(0, 0)));
    let errors = pair.frames().into_iter().filter_map(|frame| match frame {
        Performative::Detach(detach) => detach.error,
        Performative::End(end) => end.error,
        Performative::Close(close) => close.error,
        _ => None,
    });
    let texts: Vec<String> = errors.map(|error| error.description.unwrap()).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(
        texts.iter().all(|text| text.ends_with(" (see A7)") && text.matches("A7").count() == 1),
        "{texts:?}"
    );
    // The layer above is told the same.
    let told = pair.take_events().into_iter().filter_map(|event| match event {
        Event::LinkDetached { error, .. }
        | Event::SessionEnded { error, .. }
        | Event::Closed { error, .. } => error?.description,
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), texts[1..]);

    // An error of the layer above goes out as it is.
    let mut pair = Pair::begun(config());
    let link = pair.attach("a", 0, Role::Sender);
    pair.engine.detach(link, Some(Error::new("amqp:not-found", "gone")));
    let frames = pair.frames();
    let Some(Performative::Detach(detach)) = frames.last() else { panic!("{frames:?}") };
    assert_eq!(detach.error.as_ref().unwrap().description.as_deref(), Some("gone"));
}

#[test]
fn a_note_outlives_the_text_it_stands_behind() {
    let note = format!(" (see {})", "A7".repeat(70));
    let config = Config { error_note: note.clone(), ..plain() };
    let mut pair = Pair::open_as(config, Open { max_frame_size: 512, ..Open::new("client") });
    pair.begin(0);
    // The name is part of the text, and as long as the peer's frames let it be.
    let name = "ü".repeat(150);
    pair.attach(&name, 0, Role::Receiver);
    pair.feed(&amqp(0, attach(&name, 1, Role::Receiver)));
    let frames = pair.frames();
    assert_eq!(detached_with(&frames[..1]).as_deref(), Some("amqp:link:stolen"));
    let Performative::Detach(detach) = &frames[0] else { panic!("{frames:?}") };
    let text = detach.error.as_ref().unwrap().description.as_deref().unwrap();
    assert!(text.starts_with("link `üü") && text.ends_with(&note), "{text}");
}
