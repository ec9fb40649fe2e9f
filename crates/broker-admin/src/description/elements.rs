//! Order of the elements of descriptions, as the service has it: its parsers and those of SDKs read a sequence.
//!
//! Invariant: each property of a kind of entity has its place, for both the answers of the broker and the requests of the
//! client.

use broker_core::{EntityKind, EntityProperty};

/// An element, or a few that belong together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Element {
    Property(EntityProperty),
    /// The rule of a subscription that is created.
    DefaultRule,
    SizeInBytes,
    MessageCount,
    AuthorizationRules,
    /// Times of creation, change and access.
    Times,
    /// An access of a subscription that nobody knows.
    UnknownAccess,
    /// Counts of messages, in a namespace of this prefix.
    Counts(&'static str),
    /// Counts of subscriptions and of their filters.
    SubscriptionCounts,
    Availability,
}

impl Element {
    /// Its name, where it is one that clients send.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Property(property) => Some(property.row().element),
            Self::DefaultRule => Some(crate::rule::DEFAULT_RULE),
            Self::AuthorizationRules => Some("AuthorizationRules"),
            _ => None,
        }
    }
}

/// The elements of a description, in their order.
pub(crate) const fn elements(kind: EntityKind) -> &'static [Element] {
    match kind {
        EntityKind::Queue => QUEUE,
        EntityKind::Topic => TOPIC,
        EntityKind::Subscription => SUBSCRIPTION,
    }
}

const QUEUE: &[Element] = {
    use Element::Property as P;
    use EntityProperty as E;
    &[
        P(E::LockDuration),
        P(E::LockLifetime),
        P(E::MaxSizeBytes),
        P(E::RequiresDuplicateDetection),
        P(E::RequiresSession),
        P(E::DefaultTimeToLive),
        P(E::DeadLetterOnExpiration),
        P(E::DuplicateDetectionWindow),
        P(E::MaxDeliveryCount),
        P(E::EnableBatchedOperations),
        Element::SizeInBytes,
        Element::MessageCount,
        P(E::IsAnonymousAccessible),
        Element::AuthorizationRules,
        P(E::Status),
        P(E::ForwardTo),
        P(E::UserMetadata),
        Element::Times,
        P(E::SupportOrdering),
        Element::Counts("d2p1"),
        P(E::AutoDeleteOnIdle),
        P(E::EnablePartitioning),
        Element::Availability,
        P(E::ForwardDeadLetteredTo),
        P(E::EnableExpress),
        P(E::MaxMessageBytes),
    ]
};

const TOPIC: &[Element] = {
    use Element::Property as P;
    use EntityProperty as E;
    &[
        P(E::DefaultTimeToLive),
        P(E::MaxSizeBytes),
        P(E::RequiresDuplicateDetection),
        P(E::DuplicateDetectionWindow),
        P(E::EnableBatchedOperations),
        Element::SizeInBytes,
        P(E::FilteringMessagesBeforePublishing),
        P(E::IsAnonymousAccessible),
        Element::AuthorizationRules,
        P(E::Status),
        P(E::UserMetadata),
        Element::Times,
        P(E::SupportOrdering),
        Element::Counts("d2p1"),
        Element::SubscriptionCounts,
        P(E::AutoDeleteOnIdle),
        P(E::EnablePartitioning),
        Element::Availability,
        P(E::EnableSubscriptionPartitioning),
        P(E::EnableExpress),
        P(E::MaxMessageBytes),
    ]
};

const SUBSCRIPTION: &[Element] = {
    use Element::Property as P;
    use EntityProperty as E;
    &[
        P(E::LockDuration),
        P(E::LockLifetime),
        P(E::RequiresSession),
        P(E::DefaultTimeToLive),
        P(E::DeadLetterOnExpiration),
        P(E::DeadLetterOnFilterError),
        Element::DefaultRule,
        Element::MessageCount,
        P(E::MaxDeliveryCount),
        P(E::EnableBatchedOperations),
        P(E::Status),
        P(E::ForwardTo),
        Element::Times,
        Element::UnknownAccess,
        P(E::UserMetadata),
        Element::Counts("d3p1"),
        P(E::ForwardDeadLetteredTo),
        P(E::AutoDeleteOnIdle),
        Element::Availability,
        P(E::IsClientAffine),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_of_a_kind_has_one_place() {
        for kind in [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription] {
            for row in EntityProperty::of(kind) {
                let places = elements(kind).iter().filter(|it| **it == Element::Property(row.property));
                assert_eq!(places.count(), 1, "{kind:?} {}", row.key);
            }
            let others = elements(kind).iter().filter_map(|element| match element {
                Element::Property(property) => Some(property.row()),
                _ => None,
            });
            assert!(others.clone().all(|row| row.kinds.contains(&kind)), "{kind:?}");
        }
    }
}
