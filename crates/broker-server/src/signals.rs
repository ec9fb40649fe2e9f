//! Signals to the process, and the action that each of them asks for.
//!
//! Invariant: from [`Signals::watch`] on no signal that can be caught ends the process otherwise than by an orderly
//! shutdown, and none is lost that arrives before the first wait.

use std::{fs, future::poll_fn, io, task::Poll};

use rustix::process::Signal as Number;
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};
use tracing::warn;

/// The action that a signal asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// End in an orderly way.
    Shutdown,
    /// Read the configuration again.
    Reload,
    /// None: the signal would end a process that does not handle it.
    Ignore,
}

/// Signals that are handled instead of ending the process.
#[derive(Debug)]
pub struct Signals {
    watched: Vec<Watched>,
    hangup: Action,
    /// tokio registers signals inside of a runtime only; this one never runs anything.
    runtime: Runtime,
}

#[derive(Debug)]
struct Watched {
    name: String,
    action: Action,
    signal: Signal,
}

impl Signals {
    /// From now on. A signal that asks for a shutdown still ends the process at once: nothing has begun that would need
    /// time to end.
    pub fn watch() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let mut signals = Self { watched: Vec::new(), hangup: hangup(), runtime };
        signals.add(|action| action != Action::Shutdown);
        Ok(signals)
    }

    /// From now on those that ask for a shutdown are handled, too. A caller that announces the broker as ready calls
    /// this before, so that a signal which comes at once leads to an orderly shutdown.
    pub fn watch_shutdown(&mut self) {
        if !self.watched.iter().any(|watched| watched.action == Action::Shutdown) {
            self.add(|action| action == Action::Shutdown);
        }
    }

    /// Watches those whose action is wanted. One that cannot be watched is named in the log, and keeps its default
    /// action.
    fn add(&mut self, wanted: impl Fn(Action) -> bool) {
        let _inside = self.runtime.enter();
        for (number, name, action) in all(self.hangup).into_iter().filter(|(.., action)| wanted(*action)) {
            match signal(SignalKind::from_raw(number)) {
                Ok(signal) => self.watched.push(Watched { name, action, signal }),
                Err(error) => warn!(%error, "{name} cannot be watched"),
            }
        }
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> (Action, String) {
        poll_fn(|cx| {
            for Watched { name, action, signal } in &mut self.watched {
                if signal.poll_recv(cx).is_ready() {
                    return Poll::Ready((*action, name.clone()));
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Each signal that ends a process which does not know it, but for those that tell of a fault of its own.
fn all(hangup: Action) -> Vec<(i32, String, Action)> {
    let named = [
        (Number::TERM, "SIGTERM", Action::Shutdown),
        (Number::INT, "SIGINT", Action::Shutdown),
        (Number::QUIT, "SIGQUIT", Action::Shutdown),
        (Number::XCPU, "SIGXCPU", Action::Shutdown),
        (Number::HUP, "SIGHUP", hangup),
        (Number::USR1, "SIGUSR1", Action::Ignore),
        (Number::USR2, "SIGUSR2", Action::Ignore),
        (Number::PIPE, "SIGPIPE", Action::Ignore),
        (Number::ALARM, "SIGALRM", Action::Ignore),
        (Number::VTALARM, "SIGVTALRM", Action::Ignore),
        (Number::PROF, "SIGPROF", Action::Ignore),
        (Number::IO, "SIGIO", Action::Ignore),
        // The write that was too large fails, and says so itself.
        (Number::XFSZ, "SIGXFSZ", Action::Ignore),
    ];
    let named = named.into_iter().map(|(number, name, action)| (number.as_raw(), name.to_owned(), action));
    named.chain(of_linux()).collect()
}

#[cfg(target_os = "linux")]
fn of_linux() -> Vec<(i32, String, Action)> {
    let named = [
        (Number::POWER.as_raw(), "SIGPWR".to_owned(), Action::Shutdown),
        (Number::STKFLT.as_raw(), "SIGSTKFLT".to_owned(), Action::Ignore),
    ];
    // Those for real time, without the first three, which C libraries keep to themselves.
    let real_time = (35..=64).map(|number| (number, format!("signal {number}"), Action::Ignore));
    named.into_iter().chain(real_time).collect()
}

#[cfg(not(target_os = "linux"))]
const fn of_linux() -> Vec<(i32, String, Action)> {
    Vec::new()
}

/// A terminal that is closed sends SIGHUP to its processes, which then end; `nohup` makes an exception. Without a
/// terminal the signal is the usual one for a service to read its configuration again.
fn hangup() -> Action {
    let has_terminal = fs::File::open("/dev/tty").is_ok();
    if has_terminal && !ignores(Number::HUP) { Action::Shutdown } else { Action::Reload }
}

/// Whether the process was started with this signal ignored; false where the system does not tell.
fn ignores(number: Number) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (number.as_raw() - 1) & 1 == 1
}
