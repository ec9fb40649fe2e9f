//! Messages rewritten for delivery, taken out of a batch, and built.
//!
//! Invariant: the body is never rewritten, and the footer only where its keys are none that AMQP has.

mod batch;
mod build;
mod decimals;
mod keys;
mod rewrite;

pub use batch::{BATCH_FORMAT, batch_messages};
pub use build::MessageBuilder;
pub use decimals::with_service_bus_decimals;
pub use keys::with_symbol_keys;
pub use rewrite::{
    PropertyChanges, application_properties_changed, application_properties_with,
    message_annotations_changed, properties_with, write_delivery_annotations, write_header,
    write_lock_token_annotations, write_message_annotations,
};

pub use crate::raw::AnnotationValue;

#[cfg(test)]
mod tests;
