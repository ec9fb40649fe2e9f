//! The brokers that are measured: how each is started on its own port and folder, and ended.
//!
//! Invariant: a broker that was started is ended when its `Running` is dropped, however the run ends.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{Fallible, ports};

/// One contestant.
pub(super) struct Broker {
    pub(super) name: String,
    pub(super) port: u16,
    /// `{}` becomes the number of the queue.
    pub(super) address: String,
    /// User and password, where a log-in is needed.
    pub(super) user: Option<(&'static str, &'static str)>,
    kind: BrokerKind,
}

enum BrokerKind {
    Ferrybus {
        binary: PathBuf,
        /// Text of its configuration file, if it has one.
        configuration: Option<String>,
    },
    /// The name service that Erlang starts beside it gets a port of its own.
    RabbitMq {
        names_port: u16,
        nodes_port: u16,
    },
    Peer {
        start: String,
    },
}

/// A started broker.
pub(super) struct Running {
    child: Child,
    /// The process that listens: what is metered and killed.
    pub(super) pid: u32,
    port: u16,
    names_port: Option<u16>,
    /// From the start to the first answer at AMQP level.
    pub(super) started_in: Duration,
}

/// Debian's scripts without the wrapper that changes the user.
const RABBITMQ: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const START_LIMIT: Duration = Duration::from_secs(2 * 60);
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// Between two attempts to connect: well under the start times that are compared.
const ATTEMPT_GAP: Duration = Duration::from_micros(500);

impl Broker {
    pub(super) fn ferrybus(binary: PathBuf) -> Fallible<Self> {
        Ok(Self {
            name: "Ferrybus".to_owned(),
            port: ports::free()?,
            address: "bench-{}".to_owned(),
            user: None,
            kind: BrokerKind::Ferrybus { binary, configuration: None },
        })
    }

    /// Ferrybus with a configuration file.
    pub(super) fn configured(binary: PathBuf, configuration: String) -> Fallible<Self> {
        let kind = BrokerKind::Ferrybus { binary, configuration: Some(configuration) };
        Ok(Self { kind, ..Self::ferrybus(PathBuf::new())? })
    }

    /// RabbitMQ from Debian, where it is installed.
    pub(super) fn rabbitmq() -> Fallible<Option<Self>> {
        if !Path::new(RABBITMQ).is_file() {
            return Ok(None);
        }
        Ok(Some(Self {
            name: "RabbitMQ".to_owned(),
            port: ports::free()?,
            // The queues are declared beforehand: those that its plugin declares itself do not outlive a restart.
            address: "/amq/queue/bench-{}".to_owned(),
            user: Some(("guest", "guest")),
            kind: BrokerKind::RabbitMq { names_port: ports::free()?, nodes_port: ports::free()? },
        }))
    }

    /// `NAME=START COMMAND,PORT,ADDRESS`; the command finds its folder in `BENCH_FOLDER`.
    pub(super) fn peer(text: &str) -> Fallible<Self> {
        let read = || {
            let (name, rest) = text.split_once('=')?;
            let (rest, address) = rest.rsplit_once(',')?;
            let (start, port) = rest.rsplit_once(',')?;
            Some(Self {
                name: name.to_owned(),
                port: port.trim().parse().ok()?,
                address: address.trim().to_owned(),
                user: None,
                kind: BrokerKind::Peer { start: start.to_owned() },
            })
        };
        read().ok_or_else(|| format!("`{text}` is not `NAME=START COMMAND,PORT,ADDRESS`").into())
    }

    /// Settings that a reader needs to repeat the run.
    pub(super) fn settings(&self) -> String {
        match &self.kind {
            BrokerKind::Ferrybus { .. } => {
                "Ferrybus: defaults, `--durability none` in memory, `fsync` durable".to_owned()
            }
            BrokerKind::RabbitMq { .. } => {
                let version =
                    Command::new("dpkg-query").args(["-W", "-f=${Version}", "rabbitmq-server"]).output();
                let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
                format!("RabbitMQ {} with its AMQP 1.0 plugin, classic queues", version.unwrap_or_default())
            }
            BrokerKind::Peer { start } => format!("{}: `{start}`", self.name),
        }
    }

    /// Starts it in `folder` and waits for its first answer.
    pub(super) fn start(&self, folder: &Path, durable: bool) -> Fallible<Running> {
        if ports::listener(self.port).is_some() {
            return Err(format!("something listens on port {} already", self.port).into());
        }
        std::fs::create_dir_all(folder)?;
        let mut command = self.command(folder, durable)?;
        let log = File::options().create(true).append(true).open(folder.join("broker.log"))?;
        // In a group of its own, which ends as a whole.
        command.process_group(0).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let start = Instant::now();
        let child = command.spawn().map_err(|error| format!("{}: {error}", self.name))?;
        let names_port =
            if let BrokerKind::RabbitMq { names_port, .. } = self.kind { Some(names_port) } else { None };
        let pid = child.id();
        let mut running = Running { child, pid, port: self.port, names_port, started_in: Duration::ZERO };
        while !ports::answers(self.port) {
            if start.elapsed() > START_LIMIT {
                return Err(
                    format!("{}: no answer on port {} in {START_LIMIT:?}", self.name, self.port).into()
                );
            }
            if matches!(self.kind, BrokerKind::Ferrybus { .. })
                && let Some(status) = running.child.try_wait()?
            {
                let said = std::fs::read_to_string(folder.join("broker.log")).unwrap_or_default();
                return Err(format!(
                    "Ferrybus ended with {status}: {}",
                    said.lines().last().unwrap_or_default()
                )
                .into());
            }
            thread::sleep(ATTEMPT_GAP);
        }
        running.started_in = start.elapsed();
        running.pid = ports::listener(self.port).ok_or("the broker answered and nobody listens")?;
        Ok(running)
    }

    fn command(&self, folder: &Path, durable: bool) -> Fallible<Command> {
        let command = match &self.kind {
            BrokerKind::Ferrybus { binary, configuration } => {
                let mut command = Command::new(binary);
                command.arg("serve").arg("--listen").arg(format!("127.0.0.1:{}", self.port));
                command.arg("--data-dir").arg(folder.join("data")).arg("--auto-create");
                command.args(["--anonymous", "allow"]);
                command.args(["--durability", if durable { "fsync" } else { "none" }]);
                if let Some(text) = configuration {
                    let file = folder.join("ferrybus.toml");
                    std::fs::write(&file, text)?;
                    command.arg("--config").arg(file);
                }
                command
            }
            BrokerKind::RabbitMq { names_port, nodes_port } => {
                self.rabbitmq_command(folder, *names_port, *nodes_port)?
            }
            BrokerKind::Peer { start } => {
                let mut command = Command::new("sh");
                command.args(["-c", start]).env("BENCH_FOLDER", folder);
                command
            }
        };
        Ok(command)
    }

    /// Everything it writes goes to `folder`, everything it opens is on loopback.
    fn rabbitmq_command(&self, folder: &Path, names_port: u16, nodes_port: u16) -> Fallible<Command> {
        let plugins = folder.join("enabled_plugins");
        std::fs::write(&plugins, "[rabbitmq_amqp1_0].\n")?;
        let definitions = folder.join("definitions.json");
        std::fs::write(&definitions, rabbitmq_definitions())?;
        std::fs::write(
            folder.join("rabbitmq.conf"),
            format!("load_definitions = {}\n", definitions.display()),
        )?;
        let empty = folder.join("empty");
        std::fs::write(&empty, "")?;
        let mut command = Command::new(RABBITMQ);
        command.env("HOME", folder);
        command.env("RABBITMQ_CONF_ENV_FILE", &empty).env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq"));
        command.env("RABBITMQ_NODENAME", "ferrybus-bench@localhost");
        command.env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1").env("RABBITMQ_NODE_PORT", self.port.to_string());
        command.env("RABBITMQ_DIST_PORT", nodes_port.to_string());
        command.env("RABBITMQ_MNESIA_BASE", folder.join("data")).env("RABBITMQ_LOG_BASE", folder.join("log"));
        command.env("RABBITMQ_GENERATED_CONFIG_DIR", folder.join("config"));
        command.env("RABBITMQ_PID_FILE", folder.join("pid")).env("RABBITMQ_ENABLED_PLUGINS_FILE", plugins);
        command.env("ERL_EPMD_PORT", names_port.to_string()).env("ERL_EPMD_ADDRESS", "127.0.0.1");
        command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}");
        Ok(command)
    }
}

/// As many durable queues as any scenario uses, and a user of this throw-away broker.
fn rabbitmq_definitions() -> String {
    let queue = |index: u32| {
        format!(
            r#"{{"name": "bench-{index}", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {{}}}}"#
        )
    };
    let queues: Vec<String> = (0..8).map(queue).collect();
    // With definitions to load it makes no user by itself.
    let user = r#"{"name": "guest", "password": "guest", "tags": "", "limits": {}}"#;
    let rights = r#"{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}"#;
    let queues = queues.join(", ");
    format!(
        r#"{{"vhosts": [{{"name": "/"}}], "users": [{user}], "permissions": [{rights}], "queues": [{queues}]}}"#
    )
}

impl Running {
    /// Port on which it listens.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Asks it to stop and waits until its port is free.
    pub(super) fn stop(self) {
        signal(self.pid, Signal::TERM);
        self.wait_for_the_port();
    }

    /// SIGKILL.
    pub(super) fn kill(self) {
        signal(self.pid, Signal::KILL);
        self.wait_for_the_port();
    }

    fn wait_for_the_port(&self) {
        let start = Instant::now();
        while ports::listener(self.port).is_some() && start.elapsed() < STOP_LIMIT {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill_group(self.child.id());
        let listeners = [Some(self.port), self.names_port];
        for pid in listeners.into_iter().flatten().filter_map(ports::listener) {
            signal(pid, Signal::KILL);
        }
        if let Err(error) = self.child.wait() {
            eprintln!("bench: waiting for a broker: {error}");
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = raw(pid) {
        report(kill_process(pid, signal));
    }
}

/// Ends a process and those that it has started.
fn kill_group(pid: u32) {
    if let Some(group) = raw(pid) {
        report(kill_process_group(group, Signal::KILL));
    }
}

fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// A process that is gone already needs no signal.
fn report(sent: Result<(), Errno>) {
    if let Err(error) = sent
        && error != Errno::SRCH
    {
        eprintln!("bench: a broker cannot be signalled: {error}");
    }
}

#[cfg(test)]
mod tests;
