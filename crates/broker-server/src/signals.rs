//! SIGTERM and SIGINT, which ask the process to end.
//!
//! Invariant: what asks after [`Signals::heed`] is heard, however late somebody waits for it.

use std::future::pending;

use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
};
use tracing::warn;

/// Signals that are heeded from now on instead of ending the process.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
}

impl Signals {
    /// From now on. A signal that cannot be watched is named in the log and ends the process as ever.
    pub(crate) fn heed(runtime: &Runtime) -> Self {
        let _inside = runtime.enter();
        Self {
            terminate: watch(SignalKind::terminate(), "SIGTERM"),
            interrupt: watch(SignalKind::interrupt(), "SIGINT"),
        }
    }

    /// Resolves when one of them has come.
    pub(crate) async fn come(&mut self) {
        tokio::select! {
            () = one(&mut self.terminate) => {}
            () = one(&mut self.interrupt) => {}
        }
    }
}

fn watch(kind: SignalKind, name: &str) -> Option<Signal> {
    signal(kind).inspect_err(|error| warn!(%error, "{name} cannot be watched")).ok()
}

async fn one(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => pending().await,
    }
}
