//! Client library of the peer, by the properties of its open.
//!
//! Invariant: decided once, by the open; a name that is not known is no error and changes nothing.

use amqp_codec::{performative::Open, raw::RawValue};

/// A client library whose users are served better when they are answered in its own way.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum ClientLibrary {
    /// Any other.
    #[default]
    Other,
    /// Azure Service Bus for .NET, the older SDK and the newest.
    DotNet,
    /// Another client of Azure's services that is built on `Microsoft.Azure.Amqp`, as those for .NET are.
    MicrosoftAzureAmqp,
    /// Azure Service Bus for Go.
    Go,
    /// Azure Service Bus for Python.
    Python,
    /// Azure's clients for JavaScript, which are built on `rhea-promise`.
    JavaScript,
}

impl ClientLibrary {
    /// The library that the property `product` of an open names.
    pub(crate) fn of(open: &Open) -> Self {
        let properties = open.properties.as_ref();
        let product = properties.and_then(|properties| properties.get("product").and_then(RawValue::as_str));
        match product {
            Some("Microsoft.Azure.ServiceBus" | "Messaging.ServiceBus" | "azsdk-net-ServiceBus") => {
                Self::DotNet
            }
            Some("MSGolangClient") => Self::Go,
            Some("MSJSClient") => Self::JavaScript,
            Some("azsdk-python-servicebus") => Self::Python,
            Some(product)
                if ["Microsoft.Azure.", "azsdk-net-"].iter().any(|start| product.starts_with(start)) =>
            {
                Self::MicrosoftAzureAmqp
            }
            _ => Self::Other,
        }
    }

    /// Whether it is known by its open alone that the client speaks the dialect of Service Bus (decision 29).
    pub(crate) const fn is_service_bus(self) -> bool {
        matches!(self, Self::DotNet | Self::Go)
    }

    /// Whether it takes status 404 to a token for what tells that an entity is missing, and does not understand an attach
    /// that is refused with `amqp:not-found` (decision 34).
    pub(crate) const fn learns_of_missing_entities_by_token(self) -> bool {
        matches!(self, Self::DotNet | Self::Go)
    }

    /// Whether its users are told of a missing entity as of a right that is missing, where they log in as a principal of an
    /// identity provider (decision 60).
    pub(crate) const fn takes_missing_entities_for_unauthorized(self) -> bool {
        matches!(self, Self::Python)
    }

    /// Whether it takes a delivery with an empty tag for one without a lock. The SDK for Rust refuses a message whose tag is
    /// not a GUID, also where it asked for no lock.
    pub(crate) const fn understands_empty_tags(self) -> bool {
        matches!(self, Self::Go | Self::JavaScript | Self::Python)
    }

    /// Whether it overwrites the outcome of a message that comes before its send call has returned (decision 32).
    pub(crate) const fn overwrites_early_outcomes(self) -> bool {
        matches!(self, Self::DotNet | Self::MicrosoftAzureAmqp)
    }

    /// Whether it takes a connection that is closed for lost only where the condition is `amqp:connection:forced`. After any
    /// other one, JavaScript waits for answers on the closed connection, and Go uses it again and again (decision 46).
    pub(crate) const fn reconnects_only_after_forced_closes(self) -> bool {
        matches!(self, Self::Go | Self::JavaScript)
    }
}

#[cfg(test)]
mod tests;
