//! The programs that take SDKs through the steps. They live beside the suites in `interop/`, which install the SDKs.
//!
//! Invariant: a program that fails, or takes too long, is told with the last line that it said.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::times::{StepTimes, Times};
use crate::Fallible;

/// The queues that the programs use.
pub(super) const CONFIGURATION: &str = "\
[[queue]]
name = \"latency\"
[[queue]]
name = \"latency-sessions\"
requires_session = true
";

/// Longest run of one program.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A program that can be run.
pub(super) struct Program {
    words: Vec<PathBuf>,
}

/// A client, the suite that installs it, what shows that it is installed, and the words that start its program.
struct Entry {
    client: &'static str,
    suite: &'static str,
    shown_by: PathBuf,
    words: Vec<PathBuf>,
}

/// Command that starts a Java program, as in the suites.
const JAVA: [&str; 5] = [
    "java",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xmx256m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
];

/// Each client with its program, or why it cannot be run.
pub(super) fn installed(root: &Path) -> Vec<(&'static str, Fallible<Program>)> {
    entries(root)
        .into_iter()
        .map(|Entry { client, suite, shown_by, words }| {
            let is_installed = shown_by.exists();
            let missing = || format!("not installed; `cargo xtask test --only {suite}` does that").into();
            (client, is_installed.then_some(Program { words }).ok_or_else(missing))
        })
        .collect()
}

fn entries(root: &Path) -> [Entry; 5] {
    let (interop, python) = (root.join("interop"), root.join(".venv/bin/python"));
    let go = interop.join("azure-go/build/latency");
    let node = interop.join("azure-javascript");
    [
        Entry { client: "Go", suite: "azure-go", shown_by: go.clone(), words: vec![go] },
        java("Java", "azure-java", &interop),
        Entry {
            client: "Node.js",
            suite: "azure-javascript",
            shown_by: node.join("node_modules"),
            words: vec!["node".into(), node.join("latency.js")],
        },
        Entry {
            client: "Python",
            suite: "azure-python",
            shown_by: python.clone(),
            words: vec![python, interop.join("azure-python/latency.py")],
        },
        java("Qpid JMS", "qpid-jms", &interop),
    ]
}

/// A program of a suite that Maven compiles.
fn java(client: &'static str, suite: &'static str, interop: &Path) -> Entry {
    let build = interop.join(suite).join("build");
    let classes = build.join("classes");
    // Without this file the program is missing too.
    let libraries = std::fs::read_to_string(build.join("classpath")).unwrap_or_default();
    let class_path = format!("{}:{}", classes.display(), libraries.trim());
    let words = JAVA.into_iter().map(PathBuf::from);
    let words = words.chain(["-cp".into(), class_path.into(), "Latency".into()]).collect();
    Entry { client, suite, shown_by: classes.join("Latency.class"), words }
}

impl Program {
    /// Takes the SDK through its steps, `rounds` times each.
    pub(super) fn run(&self, folder: &Path, port: u16, rounds: usize) -> Fallible<Vec<StepTimes>> {
        let (said, complained) = (folder.join("program.out"), folder.join("program.err"));
        let (first, rest) = self.words.split_first().ok_or("no program")?;
        let mut child = Command::new(first)
            .args(rest)
            .env("FERRYBUS_CONNECTION", connection_string(port))
            .env("FERRYBUS_HOST", "127.0.0.1")
            .env("FERRYBUS_PORT", port.to_string())
            .env("FERRYBUS_REPETITIONS", rounds.to_string())
            .stdin(Stdio::null())
            .stdout(File::create(&said)?)
            .stderr(File::create(&complained)?)
            .spawn()?;
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                return Err(format!("not over after {PATIENCE:?}").into());
            }
            thread::sleep(LOOK);
        };
        if !status.success() {
            let text = std::fs::read_to_string(&complained)?;
            return Err(format!("{status}: {}", text.lines().last().unwrap_or("it said nothing")).into());
        }
        steps(&std::fs::read_to_string(&said)?)
    }
}

/// With the key for development, which a broker without others has on loopback.
fn connection_string(port: u16) -> String {
    format!(
        "Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;\
         UseDevelopmentEmulator=true"
    )
}

/// The steps that a program told, in the order in which each came first. Other lines are an SDK's own. A time below nothing is an
/// error: the program has met the message of another step.
pub(super) fn steps(said: &str) -> Fallible<Vec<StepTimes>> {
    let mut all: Vec<(&str, Vec<Duration>)> = Vec::new();
    for line in said.lines() {
        let Some((name, Ok(ms))) = line.split_once('\t').map(|(name, ms)| (name, ms.parse::<f64>())) else {
            continue;
        };
        let time =
            Duration::try_from_secs_f64(ms / 1e3).map_err(|error| format!("{name}, {ms} ms: {error}"))?;
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, times)) => times.push(time),
            None => all.push((name, vec![time])),
        }
    }
    let steps = all.into_iter();
    Ok(steps.map(|(name, times)| StepTimes { name: name.to_owned(), times: Times::of(&times) }).collect())
}
