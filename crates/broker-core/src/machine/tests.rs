//! The rules of `service-bus-entities`, one by one, through the public calls.

mod dead_letter;
mod deferred;
mod delete;
mod delivery;
mod duplicates;
mod entities;
mod expiry;
mod fan_out;
mod forward;
mod harness;
mod idle;
mod locks;
mod model;
mod publish;
mod recovery;
mod rules;
mod schedule;
mod session_model;
mod session_requests;
mod sessions;
mod status;
mod topics;
mod transacting;
mod transaction_limits;
mod transaction_model;
mod transactions;
