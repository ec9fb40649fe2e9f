//! Prefetch of the links that the next deliveries go to, where there are many.
//!
//! Each delivery of its own waits for memory three or four times, one after the other. Several looked at together wait
//! side by side, hardly longer than one.
//!
//! Invariant: changes nothing, and no output depends on it.

use std::hint::black_box;

use broker_core::Effect;

use crate::{gateway::Gateway, link::LinkRole};

/// Deliveries that are looked at together.
pub(crate) const AHEAD: usize = 16;
/// With fewer links than this everything is near already.
const FAR_LINKS: usize = 64;

impl Gateway {
    /// Looks at the links that the next effects are for.
    pub(crate) fn prefetch(&self, next: &[Effect]) {
        if self.links.len() < FAR_LINKS || next.len() < 2 {
            return;
        }
        let glances = next.iter().take(AHEAD).filter_map(|effect| {
            let Effect::Delivery(delivery) = effect else { return None };
            let link = self.links.get(delivery.consumer.0)?;
            let LinkRole::Consumer(consumer) = &link.role else { return None };
            let counts = consumer.delivered ^ consumer.announced ^ u64::from(consumer.unsettled);
            Some(counts ^ self.engine.handed_over(link.key))
        });
        black_box(glances.fold(0, |sum, glance| sum ^ glance));
    }
}
