//! Context of a call into the endpoints of an open connection.
//!
//! Invariant: handlers reach the configuration, the output and the events of a connection by their arguments only.

use std::collections::VecDeque;

use crate::config::Config;
use crate::event::Event;
use crate::output::Output;

/// Parts of the connection that the handler of a frame or of a command uses.
pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    pub(crate) output: &'a mut Output,
    /// Events that the layer above has not polled.
    pub(crate) events: &'a mut VecDeque<Event>,
}
