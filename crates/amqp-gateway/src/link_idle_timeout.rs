//! Idle time-out of links, where the operator configures one.
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

/// Activity of the links of one connection, for the idle time-out.
#[derive(Debug, Default)]
pub(crate) struct IdleLinks {
    next: Option<Instant>,
    seen: BTreeMap<u32, LinkActivity>,
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
}

impl Gateway {
    /// There is a link: they are looked at from now on.
    pub(crate) fn arm_idle_check(&mut self) {
        if let Some(time_out) = self.config.link_idle_time_out {
            self.idle_links.next.get_or_insert(self.now.instant + pause(time_out));
        }
    }

    /// Detaches the links on which nothing has happened for too long, if it is time to look.
    pub(crate) fn detach_idle_links(&mut self) {
        let now = self.now.instant;
        let (Some(time_out), Some(next)) = (self.config.link_idle_time_out, self.idle_links.next) else {
            return;
        };
        if now < next {
            return;
        }
        let before = std::mem::take(&mut self.idle_links.seen);
        let mut idle = Vec::new();
        for (number, link) in self.links.iter() {
            let Some(counts) = self.counts(link) else { continue };
            let same = before.get(&number).filter(|seen| seen.counts == counts);
            let since = same.map_or(now, |seen| seen.since);
            if now.saturating_duration_since(since) >= time_out {
                idle.push(LinkId(number));
            } else {
                self.idle_links.seen.insert(number, LinkActivity { counts, since });
            }
        }
        for link in idle {
            self.detach_link(link, &Refusal::Idle { time_out });
        }
        self.idle_links.next = (self.links.len() > 0).then(|| now + pause(time_out));
    }

    /// `None` for links that may be idle: those to nodes, those that wait for the core's answer, and those that are
    /// detached already.
    fn counts(&self, link: &Link) -> Option<ActivityCounts> {
        let unsettled = match &link.role {
            LinkRole::Producer(producer) if producer.attach.is_none() => 0,
            LinkRole::Consumer(consumer) if consumer.attach.is_none() => consumer.unsettled,
            _ => return None,
        };
        (!link.detached_by_broker).then(|| (self.engine.counts(link.key), unsettled))
    }
}

fn pause(time_out: Duration) -> Duration {
    time_out / LOOKS
}
