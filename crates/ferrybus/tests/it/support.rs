//! Folders, commands, brokers and clients for the tests.

pub(crate) mod tls;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    thread,
};

use amqp_codec::{
    message::MessageBuilder,
    performative::{DeliveryState, Flow, Performative},
    raw::AnnotationValue,
    value::Value,
};
use bytes::Bytes;
use testkit::Wire;

/// A folder of its own for each test, gone at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ferrybus-cli-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Looks until this is so.
pub(crate) fn until(is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed().as_secs() < 60, "it never was so");
        thread::yield_now();
    }
}

/// Runs the binary to its end.
pub(crate) fn ferrybus(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

/// A command line that has not started yet.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrybus"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("FERRYBUS_CONFIG")
        .env_remove("FERRYBUS_CONNECTION_STRING")
        .env_remove("FERRYBUS_CA")
        .env_remove("FERRYBUS_ADMIN")
        .env_remove("EMULATOR_HTTP_PORT")
        .env("FERRYBUS_LOG", "warn")
        .stdin(Stdio::null());
    command
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A broker that runs until it is told to stop, or the test ends.
pub(crate) struct Broker {
    process: Child,
    /// Connection string that it printed.
    pub(crate) connection_string: String,
    /// The addresses it printed, plain and TLS.
    pub(crate) addresses: Vec<String>,
    /// Kept open, so that the broker never writes to a closed pipe.
    _stdout: BufReader<ChildStdout>,
}

impl Broker {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::ready(&mut command(folder, arguments))
    }

    /// The same, with its log in a file.
    pub(crate) fn logged(folder: &Path, arguments: &[&str], log: &Path) -> Self {
        let log = fs::File::create(log).unwrap();
        Self::ready(command(folder, arguments).stderr(log))
    }

    /// Starts this one and waits until it is ready.
    pub(crate) fn ready(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut addresses = Vec::new();
        let mut connection_string = String::new();
        while connection_string.is_empty() {
            let mut line = String::new();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the broker ended before it was ready");
            if let Ok(banner) = serde_json::from_str::<serde_json::Value>(&line) {
                for list in [&banner["amqp"], &banner["amqps"]] {
                    addresses
                        .extend(list.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()));
                }
                connection_string = banner["connection_string"].as_str().unwrap().into();
                continue;
            }
            match line.trim().split_once("  ") {
                Some(("amqp" | "amqps", list)) => addresses.extend(list.trim().split(", ").map(Into::into)),
                _ if line.trim().starts_with("Endpoint=") => connection_string = line.trim().into(),
                _ => {}
            }
        }
        Self { process, connection_string, addresses, _stdout: stdout }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to stop and waits for the end.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let asked = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status().unwrap();
        assert!(asked.success());
        self.process.wait().unwrap()
    }

    /// Waits until it ends by itself.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }

    /// Kills it without warning.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Reads whatever comes, for as long as the connection lives, so that only its own writing can hold it up.
pub(crate) fn swallow(stream: &TcpStream) {
    let mut stream = stream.try_clone().unwrap();
    stream.set_read_timeout(None).unwrap();
    thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()).ok());
}

/// A stranger with links to `$cbs`: what it sends goes on handle 0, and the answers come on handle 1, if it reads them.
pub(crate) fn stranger(address: SocketAddr) -> Wire {
    let mut wire = Wire::connect(address).unwrap();
    wire.script.sasl("ANONYMOUS", None).open("stranger").begin(0);
    wire.until(|performative| matches!(performative, Performative::Begin(_))).unwrap();
    wire.script.attach_sender(0, 0, "out", Some("$cbs"));
    wire.script.attach_receiver(0, 1, "in", "$cbs", None);
    wire.script.credit(0, 1, 0, u32::MAX, false);
    wire.flush().unwrap();
    wire
}

/// A request to put a token, with a message-id that its answer repeats.
pub(crate) fn put(token: &str, audience: &str, id: &str) -> Bytes {
    MessageBuilder::new()
        .message_id(id)
        .application_property("operation", AnnotationValue::Str("put-token"))
        .application_property("name", AnnotationValue::Str(audience))
        .body_value(&Value::String(token.into()))
        .build()
}

/// Sends one message on handle 1, receives it on handle 2 and completes it. It is the number `round` of this client.
pub(crate) fn pass_one(wire: &mut Wire, round: u32) {
    wire.script.transfer(0, 1, round, false, &testkit::data(b"still here"));
    let sent = wire.disposed().unwrap();
    assert_eq!((sent.first, sent.state), (round, Some(DeliveryState::Accepted)));
    let flow = Flow {
        next_incoming_id: Some(0),
        incoming_window: u32::MAX >> 1,
        next_outgoing_id: round + 1,
        outgoing_window: u32::MAX >> 1,
        handle: Some(2),
        delivery_count: Some(round),
        link_credit: Some(1),
        ..Flow::default()
    };
    wire.script.flow(0, flow);
    let Performative::Transfer(transfer) = wire.transferred().unwrap().performative else { panic!() };
    let id = transfer.delivery_id.unwrap();
    wire.script.disposition(0, id, id, true, Some(DeliveryState::Accepted));
    wire.flush().unwrap();
}
