//! Prefetch of the links that the next deliveries go to, where there are many.
//!
//! A delivery that is handled alone waits for memory three or four times, one after the other. Loads for several deliveries
//! overlap, and take hardly longer than those for one.
//!
//! Invariant: changes nothing, and no output depends on it.

use std::hint::black_box;

use amqp_engine::Connection;
use broker_core::Effect;

use crate::link::{LinkKind, table::LinkTable};

/// Deliveries that are looked at together.
pub(crate) const AHEAD: usize = 16;
/// With fewer links than this everything is near already.
const FAR_LINKS: usize = 64;

/// Looks at the links that the next effects are for.
pub(crate) fn links(next: &[Effect], links: &LinkTable, engine: &Connection) {
    if links.len() < FAR_LINKS || next.len() < 2 {
        return;
    }
    let loads = next.iter().filter_map(|effect| {
        let Effect::Delivery(delivery) = effect else { return None };
        let link = links.get(delivery.consumer)?;
        let LinkKind::Receiver(receiver) = &link.kind else { return None };
        Some(receiver.prefetch() ^ engine.link(link.key).handed_over())
    });
    black_box(loads.fold(0, |sum, load| sum ^ load));
}
