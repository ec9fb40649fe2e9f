//! Player of recordings: it says what a recorded client said, and demands of a broker what that client needs for its next
//! step.
//!
//! A recording is a text, one step on a line, continued on lines that begin with a space:
//!
//! ```text
//! // A comment: the call that the program made.
//! ! token token1 KEY-NAME AUDIENCE      the environment signs a token
//! ! store ENTITY SECTIONS               the environment puts a message into an entity
//! ! advance 5000                        the environment moves the broker's clock by so many milliseconds
//! > 1 begin(next-outgoing-id: 1, …)     the client says this on channel 1
//! < 1 begin(remote-channel: 1u16)       the client goes on when the broker has said something that fits
//! ```
//!
//! Values are written as [`Term`] describes. Container ids, link names, tokens, transaction ids, lock tokens and delivery-ids
//! differ from run to run: they are variables, `$name` as a value and `${name}` inside of a text. A demand that names a
//! variable without a value gives it the value that the broker has said.
//!
//! Invariant: a demand is met by a frame of the broker, or the play ends with an error that names the line, the demand and
//! the frames that came instead. Nothing that the broker says is left over at the end.

mod fit;
mod player;
mod recording;
mod session;
mod show;
mod term;
mod vocabulary;
mod write;

pub use player::{Environment, Heard, PlayError, Player};
pub use recording::{Recording, RecordingError};
pub use term::{Term, TermError};
pub use write::{Variables, WriteError};

#[cfg(test)]
mod tests;
