//! The suites of clients that nobody here wrote: `interop/<client>/suite.toml`.
//!
//! A suite says how it is set up and run; it starts its own broker from `FERRYBUS_BIN` and writes what
//! became of each case to `FERRYBUS_RESULTS`. What may fail stands in `interop/expectations.toml`.
//!
//! Invariant: a suite that wrote no results counts as a failure, whatever its exit code.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::described::Described;
use super::expectations::{Case, Expectations, Status};
use super::report::Row;
use crate::counts::Counts;
use crate::workspace::Workspace;
use crate::{Fallible, process, setup};

/// One folder of `interop/`.
pub(super) struct Suite {
    pub(super) name: String,
    folder: PathBuf,
    /// Debian packages beyond those its files imply.
    apt: Vec<String>,
    setup: Vec<String>,
    run: String,
    limit: Duration,
}

/// Reason why a suite could not start.
struct NotSetUp {
    reason: String,
    printed: String,
}

/// Time for a suite that sets no `timeout_s`.
const LIMIT_SECONDS: u64 = 900;
const SETUP_LIMIT: Duration = Duration::from_secs(20 * 60);

/// All suites, by name.
pub(super) fn discover(workspace: &Workspace) -> Fallible<Vec<Suite>> {
    let mut suites = Vec::new();
    for entry in std::fs::read_dir(workspace.root.join("interop")).into_iter().flatten() {
        let file = entry?.path().join("suite.toml");
        if file.is_file() {
            suites.push(read(&file).map_err(|error| format!("`{}`: {error}", file.display()))?);
        }
    }
    suites.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(suites)
}

fn read(file: &Path) -> Fallible<Suite> {
    let table: toml::Table = toml::from_str(&std::fs::read_to_string(file)?)?;
    let text = |key: &str| table.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let list = |key: &str| match table.get(key) {
        Some(toml::Value::Array(items)) => {
            items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        }
        Some(toml::Value::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    };
    let seconds = table.get("timeout_s").and_then(toml::Value::as_integer);
    Ok(Suite {
        name: text("name").ok_or("no `name`")?,
        folder: file.parent().ok_or("no folder")?.to_owned(),
        apt: list("apt"),
        setup: list("setup"),
        run: text("run").ok_or("no `run`")?,
        limit: Duration::from_secs(
            seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(LIMIT_SECONDS),
        ),
    })
}

/// Sets up and runs `suites`, some at the same time.
pub(super) fn run(workspace: &Workspace, broker: Option<&Path>, suites: &[Suite]) -> Fallible<Vec<Row>> {
    if suites.is_empty() {
        return Ok(Vec::new());
    }
    let Some(broker) = broker else {
        return Ok(vec![Row::failed("interop", "the workspace has no package `ferrybus` yet", "")]);
    };
    let file = workspace.root.join("interop/expectations.toml");
    let expectations = if file.is_file() { std::fs::read_to_string(&file)? } else { String::new() };
    let expectations =
        Expectations::read(&expectations).map_err(|error| format!("`{}`: {error}", file.display()))?;
    let described =
        Described::read(&std::fs::read_to_string(workspace.root.join("docs/features/interop.md"))?);
    Lanes { workspace, broker, expectations, described, setting_up: Mutex::new(()) }.rows(suites)
}

/// Suites that run at the same time. Each has brokers of its own, and waits for them most of the time.
const LANES: usize = 2;

/// State that all suites share.
struct Lanes<'a> {
    workspace: &'a Workspace,
    broker: &'a Path,
    expectations: Expectations,
    described: Described,
    /// All suites share one Python environment and one package manager, so one is set up at a time.
    setting_up: Mutex<()>,
}

impl Lanes<'_> {
    /// One row for each suite, in their order.
    fn rows(&self, suites: &[Suite]) -> Fallible<Vec<Row>> {
        let next = AtomicUsize::new(0);
        let lane = || {
            let suites = std::iter::from_fn(|| suites.get(next.fetch_add(1, Ordering::Relaxed)));
            // An error crosses threads as its text.
            suites.map(|suite| self.row(suite).map_err(|error| error.to_string())).collect::<Vec<_>>()
        };
        let rows = thread::scope(|scope| {
            let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
            lanes.into_iter().flat_map(|lane| lane.join().expect("a lane does not panic")).collect::<Vec<_>>()
        });
        let mut rows = rows.into_iter().collect::<Result<Vec<Row>, String>>()?;
        rows.sort_by(|one, other| one.suite.cmp(&other.suite));
        Ok(rows)
    }

    fn row(&self, suite: &Suite) -> Fallible<Row> {
        println!("\n== {} ==", suite.name);
        let begin = Instant::now();
        let ready = {
            let _one = self.setting_up.lock().unwrap_or_else(PoisonError::into_inner);
            suite.set_up(self.workspace, self.broker)?
        };
        if let Err(NotSetUp { reason, printed }) = ready {
            return Ok(Row::failed(&suite.name, reason, &printed));
        }
        let row = suite.row(self)?;
        println!("== {} took {} s ==", suite.name, begin.elapsed().as_secs());
        Ok(row)
    }
}

impl Suite {
    fn row(&self, lanes: &Lanes<'_>) -> Fallible<Row> {
        let Lanes { workspace, broker, expectations, described, .. } = lanes;
        let results = self.scratch(workspace).join("results.json");
        let ran = process::run_as(
            &format!("{}: ", self.name),
            &mut self.shell(workspace, broker, &self.run)?,
            &self.log(workspace, "run"),
            self.limit,
        )?;
        let cases = match std::fs::read_to_string(&results) {
            Ok(text) => cases(&text)?,
            Err(_) => return Ok(Row::failed(&self.name, format!("no results: {}", ran.reason), &ran.text)),
        };
        let mut judged = expectations.judge(&self.name, &cases);
        judged.add_problems(described.differences(&self.name, &cases));
        if judged.counts.failed == 0 && !ran.ok && !judged.expected_failures {
            let counts = Counts { failed: 1, ..judged.counts };
            return Ok(Row { counts, ..Row::failed(&self.name, ran.reason, &ran.text) });
        }
        let note = judged.problems.first().map(|problem| problem.title.clone()).unwrap_or_default();
        Ok(Row { failures: judged.problems, ..Row::new(&self.name, judged.counts, note) })
    }

    fn set_up(&self, workspace: &Workspace, broker: &Path) -> Fallible<Result<(), NotSetUp>> {
        let scratch = self.scratch(workspace);
        if scratch.is_dir() {
            std::fs::remove_dir_all(&scratch)?;
        }
        std::fs::create_dir_all(scratch.join("state"))?;
        let installed = setup::install(&setup::packages_for(&self.folder, &self.setup, &self.apt))
            .and_then(|()| setup::make_venv(workspace));
        if let Err(error) = installed {
            return Ok(Err(NotSetUp { reason: error.to_string(), printed: String::new() }));
        }
        for (index, line) in self.setup.iter().enumerate() {
            let log = self.log(workspace, &format!("setup-{index}"));
            let ran = process::run(&mut self.shell(workspace, broker, line)?, &log, SETUP_LIMIT)?;
            if !ran.ok {
                let reason = format!("`{line}`: {}", ran.reason);
                return Ok(Err(NotSetUp { reason, printed: ran.text }));
            }
        }
        Ok(Ok(()))
    }

    /// A shell in the suite's folder with all that the suite is promised.
    fn shell(&self, workspace: &Workspace, broker: &Path, line: &str) -> Fallible<Command> {
        let scratch = self.scratch(workspace);
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.folder);
        command.env("FERRYBUS_BIN", broker);
        command.env("FERRYBUS_XTASK", std::env::current_exe()?);
        command.env("FERRYBUS_HOST_STATE", scratch.join("state"));
        command.env("FERRYBUS_RESULTS", scratch.join("results.json"));
        command.env("VIRTUAL_ENV", setup::venv(workspace));
        command.env("PATH", setup::path_with_venv(workspace)?);
        command.env("PYTHONPATH", workspace.root.join("interop/lib"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("CARGO_TARGET_DIR", workspace.target.join("interop"));
        Ok(command)
    }

    fn scratch(&self, workspace: &Workspace) -> PathBuf {
        workspace.target.join("interop-state").join(&self.name)
    }

    fn log(&self, workspace: &Workspace, step: &str) -> PathBuf {
        workspace.target.join("test-logs").join(format!("{}-{step}.log", self.name))
    }
}

/// `[{"case": …, "status": "passed|failed|skipped", "detail": …}]`
fn cases(text: &str) -> Fallible<Vec<Case>> {
    let value: Value = serde_json::from_str(text)?;
    let cases = value.as_array().ok_or("results are not a list")?;
    cases
        .iter()
        .map(|case| {
            let field = |name: &str| case.get(name).and_then(Value::as_str);
            let status = field("status").unwrap_or_default();
            Ok(Case {
                name: field("case").ok_or("a result has no `case`")?.to_owned(),
                status: Status::read(status).ok_or_else(|| format!("a result has the status `{status}`"))?,
                detail: field("detail").unwrap_or_default().to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
