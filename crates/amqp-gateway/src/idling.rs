//! Links on which nothing happens, where the operator gives them a time.
//!
//! As messages pass nothing is noted. Now and then all links are looked at: one that has counted nothing since the look
//! before was idle meanwhile.
//!
//! Invariant: a link is detached no sooner than its time-out after the last message, settlement or change of credit on
//! it, and at most a quarter of it later; without a time-out nothing here does anything.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use broker_core::LinkId;

use crate::{
    condition::Refusal,
    gateway::Gateway,
    link::{Link, LinkRole},
};

/// Looks in one time-out.
const LOOKS: u32 = 8;

/// What the links of one connection had counted.
#[derive(Debug, Default)]
pub(crate) struct Idling {
    next: Option<Instant>,
    seen: BTreeMap<u32, Seen>,
}

/// What one link had counted, and since when.
#[derive(Clone, Copy, Debug)]
struct Seen {
    counts: Counts,
    since: Instant,
}

/// What the engine counts of a link, and its deliveries that are not settled.
type Counts = ((u64, u64), u32);

impl Idling {
    /// When the links are to be looked at.
    pub(crate) const fn next_look(&self) -> Option<Instant> {
        self.next
    }
}

impl Gateway {
    /// There is a link: they are looked at from now on.
    pub(crate) fn watch_links(&mut self) {
        if let Some(time_out) = self.config.link_idle_time_out {
            self.idling.next.get_or_insert(self.now.instant + pause(time_out));
        }
    }

    /// Detaches the links on which nothing has happened for too long, if it is time to look.
    pub(crate) fn look_at_links(&mut self) {
        let now = self.now.instant;
        let (Some(time_out), Some(next)) = (self.config.link_idle_time_out, self.idling.next) else { return };
        if now < next {
            return;
        }
        let before = std::mem::take(&mut self.idling.seen);
        let mut idle = Vec::new();
        for (number, link) in self.links.iter() {
            let Some(counts) = self.counts(link) else { continue };
            let same = before.get(&number).filter(|seen| seen.counts == counts);
            let since = same.map_or(now, |seen| seen.since);
            if now.saturating_duration_since(since) >= time_out {
                idle.push(LinkId(number));
            } else {
                self.idling.seen.insert(number, Seen { counts, since });
            }
        }
        for link in idle {
            self.detach_link(link, &Refusal::Idle { time_out });
        }
        self.idling.next = (self.links.len() > 0).then(|| now + pause(time_out));
    }

    /// `None` for links that may be idle: those to nodes, those that wait for the core's answer, and those that are
    /// detached already.
    fn counts(&self, link: &Link) -> Option<Counts> {
        let unsettled = match &link.role {
            LinkRole::Producer(producer) if producer.attach.is_none() => 0,
            LinkRole::Consumer(consumer) if consumer.attach.is_none() => consumer.unsettled,
            _ => return None,
        };
        (!link.departed).then(|| (self.engine.counts(link.key), unsettled))
    }
}

fn pause(time_out: Duration) -> Duration {
    time_out / LOOKS
}
