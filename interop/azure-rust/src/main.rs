//! Plays one case with the crate `azservicebus`; `suite.py` starts it.
//!
//! The runtime has one thread: `azservicebus` 0.25.1 registers an outgoing
//! delivery only after it has handed the transfer to the socket, so on several
//! threads a fast broker's answer can arrive first and is then lost.

mod cases;
mod control;
mod setting;

use setting::Setting;

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let name = std::env::args().nth(1).ok_or("usage: <case>")?;
    cases::play(&name, &Setting::from_environment()?).await
}
