//! Management API of Service Bus over HTTP (ATOM and XML): turns requests into commands for the core, and the core's
//! effects into responses.
//!
//! A request goes in at [`begin`]; what comes back is either the answer or a command for the core, whose effect goes
//! into [`Pending::resume`], and so on until there is an answer. [`client`] is the other half: it reads answers and
//! makes the bodies of requests. No socket and no HTTP library is known here.
//!
//! Invariant: a request of any bytes is answered; a refused one has changed nothing.

mod atom_feed;
pub mod client;
mod condition;
mod description;
mod duration;
mod entries;
mod namespace;
mod operation;
mod paging;
mod query;
mod response;
mod route;
mod rule;
mod time;
mod xml;

pub use condition::Match;
pub use duration::{IsoDuration, iso_8601, iso_8601_ticks, read_iso_8601};
pub use namespace::{Host, Namespace};
pub use operation::{Method, Pending, Request, Step, begin};
pub use query::Query;
pub use response::Answer;
pub use route::{Route, RouteError};
pub use time::{date_time, rfc_3339_millis};
pub use xml::XmlError;
