//! A script of plausible frames, commands and pauses: deep into the states that random bytes do
//! not reach.

use std::time::Duration;

use crate::driver::{Driver, config, delivery, id, some_instant};
use amqp_codec::frame::{FrameKind, write_frame};
use amqp_codec::performative::{
    Attach, Begin, DeliveryState, Detach, Disposition, End, Error, Flow, Open, Performative, Source, Target,
    Transfer,
};
use amqp_codec::types::{DeliveryTag, ReceiverSettleMode, Role, SenderSettleMode};
use bytes::BytesMut;

/// Reads choices from the input; zero when it has run out.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Mostly a small number, sometimes one at an edge.
    fn number(&mut self) -> u32 {
        match self.byte() {
            small @ 0..=239 => u32::from(small) % 16,
            240..=243 => u32::MAX,
            244..=247 => 0x7fff_ffff,
            _ => u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn maybe<T>(&mut self, some: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (!self.byte().is_multiple_of(4)).then(|| some(self))
    }

    fn frame(&mut self) -> Performative {
        match self.byte() % 16 {
            0 => Performative::Begin(Box::new(self.begin())),
            1..=3 => Performative::Attach(Box::new(self.attach())),
            4..=6 => Performative::Flow(self.flow()),
            7..=10 => Performative::Transfer(self.transfer()),
            11 | 12 => Performative::Disposition(self.disposition()),
            13 => Performative::Detach(Box::new(Detach {
                handle: self.number(),
                closed: self.flag(),
                error: None,
            })),
            14 => Performative::End(Box::default()),
            _ if self.byte().is_multiple_of(8) => Performative::Close(Box::default()),
            _ => Performative::End(Box::new(End { error: Some(Error::new("a:b", "c")) })),
        }
    }

    fn begin(&mut self) -> Begin {
        Begin {
            remote_channel: None,
            next_outgoing_id: self.number(),
            incoming_window: self.number(),
            outgoing_window: self.number(),
            handle_max: 100,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        }
    }

    fn attach(&mut self) -> Attach {
        Attach {
            snd_settle_mode: self.maybe(|s| s.byte() % 3).and_then(SenderSettleMode::from_code),
            rcv_settle_mode: self.maybe(|s| s.byte() % 2).and_then(ReceiverSettleMode::from_code),
            source: Some(Source::new("q")),
            target: Some(Target::new("q")),
            initial_delivery_count: self.maybe(Self::number),
            incomplete_unsettled: self.byte().is_multiple_of(16),
            ..Attach::new(format!("l{}", self.byte() % 8), self.number(), Role::from(self.flag()))
        }
    }

    fn flow(&mut self) -> Flow {
        Flow {
            next_incoming_id: self.maybe(Self::number),
            incoming_window: self.number(),
            next_outgoing_id: self.number(),
            outgoing_window: 0,
            handle: self.maybe(Self::number),
            delivery_count: self.maybe(Self::number),
            link_credit: self.maybe(Self::number),
            available: None,
            drain: self.flag(),
            echo: self.flag(),
            properties: None,
        }
    }

    fn transfer(&mut self) -> Transfer {
        Transfer {
            handle: self.number(),
            delivery_id: self.maybe(Self::number),
            delivery_tag: self.maybe(|s| DeliveryTag::try_from(&[s.byte()][..]).ok()).flatten(),
            message_format: None,
            settled: self.maybe(Self::flag),
            more: self.flag(),
            rcv_settle_mode: None,
            state: self.maybe(|_| DeliveryState::Accepted),
            resume: self.byte().is_multiple_of(8),
            aborted: self.byte().is_multiple_of(8),
            batchable: false,
        }
    }

    fn disposition(&mut self) -> Disposition {
        Disposition {
            role: Role::from(self.flag()),
            first: self.number(),
            last: self.maybe(Self::number),
            settled: self.flag(),
            state: self.maybe(|_| DeliveryState::Accepted),
            batchable: false,
        }
    }
}

fn send(driver: &mut Driver, channel: u16, performative: &Performative, payload: &[u8]) {
    let mut out = BytesMut::new();
    write_frame(&mut out, FrameKind::Amqp, channel, |out| {
        performative.encode(out);
        out.extend_from_slice(payload);
    });
    driver.feed(&out);
}

/// A command of the layer above, for something that is there, or was.
fn command(driver: &mut Driver, script: &mut Script<'_>) {
    let link = driver.links.get(usize::from(script.byte()) % 16).copied();
    let session = driver.sessions.get(usize::from(script.byte()) % 4).copied();
    let engine = &mut driver.engine;
    match (script.byte() % 9, link, session) {
        (0, Some(link), _) => engine.detach(link, script.maybe(|_| Error::new("a:b", "c"))),
        (1, _, Some(session)) => engine.end_session(session, None),
        (2, Some(link), _) => engine.grant_credit(link, script.number()),
        (3, Some(link), _) => {
            engine.send(link, delivery(script.number(), usize::from(script.byte()) * 16));
        }
        (4, Some(link), _) => engine.drained(link, u64::from(script.number())),
        (5, _, Some(session)) => {
            // One number decides both, so that stored inputs keep their meaning.
            match script.number() {
                odd if odd % 2 == 1 => {
                    let due = driver.now + Duration::from_millis(1);
                    engine.settle_incoming_at(due, session, id(odd), DeliveryState::Released);
                }
                even => engine.settle_incoming(session, id(even), DeliveryState::Released),
            }
        }
        (6, _, Some(session)) => engine.settle_outgoing(session, id(script.number()), None),
        (7, Some(link), _) => engine.accept_link(link, amqp_engine::AttachReply::default()),
        (8, _, _) if script.byte().is_multiple_of(32) => engine.close(None),
        _ => {}
    }
    driver.poll();
}

/// Panics when the demand is not met.
pub(crate) fn demand(data: &[u8]) {
    let mut script = Script(data);
    let mut driver = Driver::new(config(false), some_instant());
    driver.feed(b"AMQP\0\x01\0\0");
    let max_frame_size = if script.flag() { 512 } else { u32::MAX };
    let open = Open { max_frame_size, idle_time_out: Some(60_000), ..Open::new("fuzz") };
    send(&mut driver, 0, &Performative::Open(Box::new(open)), b"");
    send(&mut driver, 0, &Performative::Begin(Box::new(script.begin())), b"");
    let mut steps = 0;
    while !script.0.is_empty() && steps < 200 {
        steps += 1;
        match script.byte() % 16 {
            0 => driver.pass(Duration::from_millis(u64::from(script.byte()) * 200)),
            1 | 2 => driver.write(usize::from(script.byte()) * 32),
            3 | 4 => command(&mut driver, &mut script),
            _ => {
                let channel = u16::from(script.byte().is_multiple_of(16));
                let frame = script.frame();
                let is_transfer = matches!(frame, Performative::Transfer(_));
                let len = if is_transfer { usize::from(script.byte()) * 2 } else { 0 };
                send(&mut driver, channel, &frame, &vec![1; len]);
            }
        }
    }
    driver.feed(&[]);
    send(&mut driver, 0, &Performative::Close(Box::default()), b"");
    let (events, written) = driver.finish();
    assert!(events.len() < 20_000 && written.len() < 10_000_000);
}
