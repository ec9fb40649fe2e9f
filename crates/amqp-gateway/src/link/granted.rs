//! The part of an attach that is granted: the reply names that, and nothing else that the peer asked for.
//!
//! A peer reads the source, the target and the offered capabilities of the reply to learn what is in force (AMQP 1.0 transport 2.6.3,
//! messaging 3.5.3 and 3.5.4). So a capability, a filter or a distribution mode that has no effect here is left out.
//!
//! Invariant: what is granted came from the peer. A source and a target of which nothing is left out keep their bytes.

use amqp_codec::{
    performative::{Attach, Source, Target},
    raw::RawMap,
    types::{Role, Symbol},
};

use super::requested_kind;
use crate::{dialect::Dialect, transfer::delivery_delay};

/// Capabilities of a source at a topic: its subscription may have several receivers, of one container or of any.
pub(super) const SHARED: &str = "shared";
pub(super) const GLOBAL: &str = "global";
/// Values of `source.distribution-mode` (messaging 3.5.7).
const DISTRIBUTION_MODES: [&str; 2] = ["move", "copy"];

/// The source that is in force; without its filter, which is granted where it is applied. The peer of a subscriber receives from a
/// subscription of its own.
pub(super) fn source(attach: &Attach, is_subscriber: bool) -> Option<Source> {
    let mut source = attach.source.clone()?;
    source.filter = source.filter.filter(RawMap::is_empty);
    if attach.role == Role::Receiver {
        source
            .capabilities
            .retain(|it| requested_kind::is_capability(it) || (is_subscriber && is_sharing(it)));
        source.distribution_mode =
            source.distribution_mode.filter(|mode| DISTRIBUTION_MODES.iter().any(|known| mode == known));
    }
    Some(source)
}

/// The target that is in force.
pub(super) fn target(attach: &Attach) -> Option<Target> {
    let mut target = attach.target.clone()?;
    if let Target::Terminus(target) = &mut target
        && attach.role == Role::Sender
    {
        target.capabilities.retain(requested_kind::is_capability);
    }
    Some(target)
}

/// Capabilities of the link that the peer desires and gets.
pub(super) fn capabilities(attach: &Attach, dialect: Dialect) -> Vec<Symbol> {
    if dialect == Dialect::ServiceBus || attach.role == Role::Receiver {
        return Vec::new();
    }
    delivery_delay::offered(&attach.desired_capabilities).into_iter().collect()
}

/// Whether this capability says how a subscription is shared.
fn is_sharing(capability: &Symbol) -> bool {
    capability == SHARED || capability == GLOBAL
}
