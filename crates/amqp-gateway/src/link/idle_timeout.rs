//! Idle time-out of links, where the operator configures one.
//!
//! As messages pass nothing is noted. Now and then all links are looked at: one that has counted nothing since the look
//! before was idle meanwhile.
//!
//! Invariant: a link is detached no sooner than its time-out after the last message, settlement or change of credit on
//! it, and at most a quarter of it later; without a time-out nothing here does anything.

use std::{
    collections::BTreeMap,
    mem,
    time::{Duration, Instant},
};

use amqp_engine::Connection;
use broker_core::LinkId;

use super::{Link, LinkKind};

/// Looks in one time-out.
const LOOKS: u32 = 8;

/// Activity of the links of one connection, for the idle time-out.
#[derive(Debug, Default)]
pub(crate) struct IdleLinks {
    next: Option<Instant>,
    seen: BTreeMap<LinkId, LinkActivity>,
}

/// Activity counters of one link, and the time since which they are unchanged.
#[derive(Clone, Copy, Debug)]
struct LinkActivity {
    counts: ActivityCounts,
    since: Instant,
}

/// Counters of the engine for a link, and its number of unsettled deliveries.
type ActivityCounts = ((u64, u64), u32);

impl IdleLinks {
    /// When the links are to be looked at.
    pub(crate) const fn next_check(&self) -> Option<Instant> {
        self.next
    }

    /// There is a link: they are looked at from now on.
    pub(super) fn arm(&mut self, time_out: Duration, now: Instant) {
        self.next.get_or_insert(now + pause(time_out));
    }

    /// The links on which nothing has happened for too long; `None` while it is not time to look.
    pub(super) fn check<'a>(
        &mut self,
        links: impl Iterator<Item = (LinkId, &'a Link)>,
        time_out: Duration,
        engine: &Connection,
        now: Instant,
    ) -> Option<Vec<LinkId>> {
        self.next.filter(|next| now >= *next)?;
        let before = mem::take(&mut self.seen);
        let mut idle = Vec::new();
        for (id, link) in links {
            let Some(counts) = counts(link, engine) else { continue };
            let same = before.get(&id).filter(|seen| seen.counts == counts);
            let since = same.map_or(now, |seen| seen.since);
            if now.saturating_duration_since(since) >= time_out {
                idle.push(id);
            } else {
                self.seen.insert(id, LinkActivity { counts, since });
            }
        }
        Some(idle)
    }

    /// Idle links are detached: the others, if there are any, are looked at again.
    pub(super) fn plan(&mut self, any_left: bool, time_out: Duration, now: Instant) {
        self.next = any_left.then(|| now + pause(time_out));
    }
}

/// `None` for links that may be idle: those to nodes, those that wait for the core's answer, and those that are
/// detached already.
fn counts(link: &Link, engine: &Connection) -> Option<ActivityCounts> {
    let unsettled = match &link.kind {
        LinkKind::Sender(sender) if sender.is_open() => 0,
        LinkKind::Receiver(receiver) if receiver.is_open() => receiver.unsettled(),
        _ => return None,
    };
    (!link.detached_by_broker).then(|| (engine.link(link.key).counts(), unsettled))
}

fn pause(time_out: Duration) -> Duration {
    time_out / LOOKS
}
