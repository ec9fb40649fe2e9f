//! Messages that are scheduled for a moment anywhere among those that wait, and received when it has come.
//!
//! Invariant: as many come due in a second as are scheduled in it, however many wait.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp_codec::message::MessageBuilder;
use amqp_codec::performative::Target;
use amqp_codec::raw::{AnnotationValue, RawMap};

use super::client::{BATCH, Client, Meter, Template};
use super::{Cost, MEASURED, Running};
use crate::Fallible;

/// Messages that come due in a millisecond, and that are scheduled in it.
const RATE: u64 = 20;
/// Milliseconds between two moments at which messages come due, and between two sends.
const TICK: u64 = 10;
const PAUSE: Duration = Duration::from_millis(TICK);
/// Messages that fill the schedule in a millisecond at the least; usually it is some hundreds.
const FILLED: u64 = 100;
/// Messages that come due before anything is measured, and the milliseconds that they wait.
const BEFORE: u64 = 200_000;
const SOON: u64 = 1_000;
/// Stands where a time will be.
const MARK: i64 = 0x0123_4567_89ab_cdef;

pub(super) fn configuration(_: u64) -> String {
    "[[queue]]\nname = \"q\"\n".to_owned()
}

fn now() -> Fallible<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

/// Moments within a window, spread as if by chance and the same each time.
struct Moments {
    window: u64,
    random: u64,
}

impl Moments {
    /// One that is as likely anywhere in the window.
    fn from(&mut self, start: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // They come due together, so that waking up for them costs as much for few as for many.
        (start + (self.random >> 33) % self.window).next_multiple_of(TICK)
    }

    /// One of those that are left at `start` of what was scheduled evenly before it: the later the fewer.
    fn left_at(&mut self, start: u64) -> u64 {
        self.from(start).min(self.from(start))
    }
}

pub(super) fn measure(running: &Running, waiting: u64) -> Fallible<Cost> {
    let due = RawMap::with_symbol_keys(&[("x-opt-scheduled-enqueue-time", AnnotationValue::Timestamp(MARK))]);
    let message = MessageBuilder::new().message_annotations(due).data(b"sixteen bytes ..").build();
    let template = Template::new(0, &message, &MARK.to_be_bytes(), None);
    let mut sender = Client::connect(running.port())?;
    sender.sender(0, Target::new("q"))?;
    let mut receiver = Client::connect(running.port())?;
    receiver.receiver(0, "q", None, true)?;

    // Those that wait: they come due at the rate, from a moment on at which all of them are there. One that is scheduled
    // waits for half of the window, as a rule, so this many keep waiting.
    let mut moments = Moments { window: 2 * waiting / RATE, random: 1 };
    let start = now()? + (waiting + BEFORE) / FILLED + 500 + 2 * SOON;
    let mut missing = waiting;
    while missing > 0 {
        let count = missing.min(u64::from(BATCH));
        sender.send(&template, (0..count).map(|_| moments.left_at(start).to_be_bytes()))?;
        missing -= count;
    }
    use_memory(&template, (&mut sender, &mut receiver))?;
    // After a slow filling, some of them are gone by now.
    if now()? > start + moments.window / 20 {
        return Err("filling took too long".into());
    }
    thread::sleep(Duration::from_millis(start.saturating_sub(now()?)));
    // Messages that came due during a slow filling: from here on as many come as are sent.
    while receiver.take_for(PAUSE)? > 2 * RATE * TICK {}
    steady(running, &template, (&mut sender, &mut receiver), &mut moments)
}

/// Has the broker use memory and give it up again, more than it will need while it is measured. So it is with one that has been
/// running for as long as messages wait. With fresh memory the kernel has to be asked for each page.
fn use_memory(template: &Template, (sender, receiver): (&mut Client, &mut Client)) -> Fallible<()> {
    let moment = (now()? + SOON).to_be_bytes();
    for _ in 0..BEFORE / u64::from(BATCH) {
        sender.send(template, vec![moment; BATCH as usize])?;
    }
    receiver.receive(BEFORE)
}

fn steady(
    running: &Running,
    template: &Template,
    (sender, receiver): (&mut Client, &mut Client),
    moments: &mut Moments,
) -> Fallible<Cost> {
    let meter = Meter::start(running)?;
    let per_pause = RATE * TICK;
    let (mut sent, mut taken, mut pauses) = (0, 0, 0);
    while meter.elapsed() < 2 * MEASURED {
        let now = now()?;
        sender.send(template, (0..per_pause).map(|_| moments.from(now).to_be_bytes()))?;
        sent += per_pause;
        pauses += 1;
        taken += receiver.take_for((PAUSE * pauses).saturating_sub(meter.elapsed()).max(MINIMUM))?;
    }
    if taken.abs_diff(sent) > sent / 10 {
        return Err(format!("{sent} messages were scheduled and {taken} came due").into());
    }
    // Half of a message's life is its sending, the other half its coming due.
    meter.cost(u64::midpoint(sent, taken))
}

/// A socket waits for some time at least.
const MINIMUM: Duration = Duration::from_micros(100);
