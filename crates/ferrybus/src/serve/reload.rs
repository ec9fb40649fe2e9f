//! SIGHUP: the configuration is read again, and what can change while the broker runs is replaced.
//!
//! Invariant: a configuration that would not start a broker changes nothing, not even in part.

use broker_server::Reloader;
use tracing::{error, info, warn};

use super::overrides::settings_of;
use crate::{
    arguments::ServeArguments,
    failure::Failure,
    logging::{self, LogLevel},
    settings::{ConfigFile, Limits, Namespaces, Reloadable, plans},
};

/// Facts of the start that a reload needs.
pub(super) struct Reload<'a> {
    arguments: &'a ServeArguments,
    /// The file as the start has read it.
    file: Option<ConfigFile>,
    loopback: bool,
    /// The built-in development key lets in.
    development: bool,
    /// Names of the namespaces that the files have had last.
    namespaces: Vec<String>,
    level: LogLevel,
}

/// Facts for the log about a reload.
struct Reloaded {
    /// Keys that differ and need a start.
    needs_start: Vec<String>,
    /// Namespaces that have left the files.
    removed: Vec<String>,
}

impl<'a> Reload<'a> {
    pub(super) fn new(
        arguments: &'a ServeArguments,
        file: Option<ConfigFile>,
        limits: &Limits,
        level: LogLevel,
    ) -> Self {
        let (loopback, development) = (limits.loopback, limits.reloadable.development);
        Self { arguments, file, loopback, development, namespaces: names(limits), level }
    }

    /// Reads everything again. The log has one line with the result, and a second one where some of it needs a start.
    pub(super) fn on_signal(&mut self, running: &mut Reloader) {
        match self.reload(running) {
            Ok(Reloaded { needs_start, removed }) => {
                info!(file = %self.file_name(), "the configuration was read again");
                if !needs_start.is_empty() {
                    let keys = needs_start.join("`, `");
                    warn!(file = %self.file_name(), "`{keys}` differs from what the broker runs on: that needs a restart");
                }
                for name in removed {
                    warn!(
                        file = %self.file_name(),
                        "namespace `{name}` is not in the configuration any more: it stays with its data, without keys and users of \
                         the configuration; `ferrybus namespace delete {name}` deletes it"
                    );
                }
            }
            Err(failure) => {
                let why = failure.to_string();
                let why = why.trim_start_matches("error: ").replace('\n', "; ");
                error!(file = %self.file_name(), "the configuration was refused, and nothing has changed: {why}");
            }
        }
    }

    /// Replaces all that can be replaced, or nothing.
    fn reload(&mut self, running: &mut Reloader) -> Result<Reloaded, Failure> {
        let settings = settings_of(self.file.as_ref().map(|file| file.path.as_path()), self.arguments)?;
        let filter = logging::filter(&settings.log)?;
        let namespaces = Namespaces::new(&settings, settings.emulator()?.as_ref())?;
        let reloadable = Reloadable::new(&settings, &namespaces, self.loopback)?;
        if reloadable.development && !self.development {
            return Err(Failure::misuse(
                "no key, user, certificate, issuer or administrator is left, so the built-in development key would let everybody in",
            )
            .hint("restart the broker if that is what you want"));
        }
        let file = settings.file.clone();
        // A reload takes nothing from a file that a start would refuse.
        let limits = settings.check()?;
        let development = reloadable.development;
        running.reload(reloadable.into_config(plans(&limits.namespaces))).map_err(Failure::of)?;
        self.level.set(filter);
        self.development = development;
        let before = std::mem::replace(&mut self.namespaces, names(&limits));
        let files = self.file.as_ref().zip(file.as_ref());
        let differing = files.map(|(before, now)| before.differing(now)).unwrap_or_default();
        let is_there = |name: &String| self.namespaces.iter().any(|now| now.eq_ignore_ascii_case(name));
        Ok(Reloaded {
            needs_start: differing.into_iter().map(str::to_owned).collect(),
            removed: before.into_iter().filter(|name| !is_there(name)).collect(),
        })
    }

    fn file_name(&self) -> String {
        self.file.as_ref().map_or_else(|| "none".to_owned(), |file| file.path.display().to_string())
    }
}

/// Names of the namespaces of a configuration.
fn names(limits: &Limits) -> Vec<String> {
    limits.namespaces.iter().map(|namespace| namespace.name.clone()).collect()
}
