//! Signals to the real process: a reload under load, what it refuses, what it takes away, and the signals that end nothing.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
};

use amqp_codec::performative::{DeliveryState, Performative, SaslCode};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustls::{
    ClientConnection, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject},
};
use testkit::Wire;

use crate::support::{Broker, Folder, code, command, ferrybus, stderr, stdout, tls, until};

/// A service: a broker without a terminal, that reads this configuration and whose log is in a file.
struct Service {
    folder: Folder,
    broker: Broker,
}

const LISTEN: &str =
    "listen = [\"127.0.0.1:0\"]\nlisten_http = []\ndurability = \"none\"\n[[queue]]\nname = \"orders\"\n";
const TLS: &str = "[tls]\ncertificate = \"certs/server.pem\"\nkey = \"certs/server-key.pem\"\nclient_ca = \"certs/ca.pem\"\n";

fn key(name: &str, text: &str) -> String {
    format!("[[key]]\nname = {name:?}\nkey = {text:?}\nrights = [\"send\", \"listen\"]\n")
}

/// Makes a command line for a folder.
type Make = fn(&Folder, &[&str]) -> Command;

/// A command that runs without the terminal of whoever runs the tests.
fn detached(folder: &Folder, arguments: &[&str]) -> Command {
    in_a_session(folder, &[], arguments)
}

/// The same in a session that `setsid` makes with these options. SIGHUP is not ignored there, even if `nohup` runs the tests.
fn in_a_session(folder: &Folder, options: &[&str], arguments: &[&str]) -> Command {
    let plain = command(&folder.0, arguments);
    let mut made = Command::new("setsid");
    made.args(options)
        .args(["env", "--default-signal=HUP"])
        .arg(plain.get_program())
        .args(arguments)
        .current_dir(&folder.0)
        .stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => made.env(name, value),
            None => made.env_remove(name),
        };
    }
    made.env_remove("FERRYBUS_LOG");
    made
}

impl Service {
    fn start(name: &str, configuration: &str, arguments: &[&str]) -> Self {
        let folder = Folder::new(name);
        if configuration.contains("[tls]") {
            make_certificates(&folder, "certs", &["--client", "till-7", "--host", "localhost"]);
        }
        folder.write("ferrybus.toml", configuration);
        Self::start_in(folder, detached, arguments)
    }

    fn start_in(folder: Folder, make: Make, arguments: &[&str]) -> Self {
        let log = fs::File::create(folder.0.join("log")).unwrap();
        let broker = Broker::ready(make(&folder, arguments).stderr(log));
        Self { folder, broker }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.broker.id().to_string()]).status().unwrap();
        assert!(sent.success(), "it has ended: {}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.0.join("log")).unwrap()
    }

    /// Lines of the log with this in them.
    fn lines(&self, text: &str) -> usize {
        self.log().lines().filter(|line| line.contains(text)).count()
    }

    /// Has this configuration read, and waits until the log has one more line with this.
    fn reload(&self, configuration: &str, told: &str) {
        let before = self.lines(told);
        self.folder.write("ferrybus.toml", configuration);
        self.signal("-HUP");
        until(|| self.lines(told) > before);
    }

    fn address(&self) -> SocketAddr {
        self.broker.addresses[0].parse().unwrap()
    }

    fn log_in(&self, user: &str, password: &str) -> Option<Wire> {
        let mut wire = Wire::connect(self.address()).unwrap();
        wire.script.sasl_plain(user, password);
        if wire.sasl_outcome().unwrap().code != SaslCode::Ok {
            return None;
        }
        wire.script.open("reload").begin(0);
        wire.until(|performative| matches!(performative, Performative::Begin(_))).unwrap();
        Some(wire)
    }

    /// A connection with TLS, whose client shows this certificate.
    fn secure(&self, client: Option<&str>) -> StreamOwned<ClientConnection, TcpStream> {
        tls::connect(&self.folder.0, &self.address().to_string(), "localhost", client)
    }

    /// The certificate that a new connection sees.
    fn shown(&self) -> CertificateDer<'static> {
        self.secure(None).conn.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// The certificate in the file.
    fn on_disk(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.folder.0.join("certs/server.pem")).unwrap()
    }

    fn metric(&self, name: &str) -> Option<f64> {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }
}

fn make_certificates(folder: &Folder, place: &str, more: &[&str]) {
    let made = ferrybus(&folder.0, &[&["cert", "dev", "--out", place, "--force"], more].concat());
    assert_eq!(code(&made), 0, "{}", stderr(&made));
}

/// Sends one message after the other and waits for each, until it is told to stop or something goes wrong.
fn keep_sending<S: std::io::Read + std::io::Write>(
    mut wire: Wire<S>,
    accepted: &AtomicU32,
    stop: &AtomicBool,
) {
    wire.sender(1, "in", "orders").unwrap();
    for id in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        wire.script.transfer(0, 1, id, false, &testkit::data(b"tea"));
        assert_eq!(wire.disposed().unwrap().state, Some(DeliveryState::Accepted));
        accepted.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_reload_under_load_takes_in_certificate_key_and_log_level_and_loses_no_connection() {
    let configuration = |level: &str, keys: &str| {
        format!("{LISTEN}[log]\nlevel = \"{level}\"\n{TLS}check_interval = \"1h\"\n{keys}")
    };
    let (old, new) = (key("old", "one"), key("new", "two"));
    let service =
        Service::start("reload-under-load", &configuration("info", &old), &["--listen-tls", "127.0.0.1:0"]);
    let before = service.shown();
    assert!(service.log_in("new", "two").is_none());
    let stop = AtomicBool::new(false);
    let sent = [const { AtomicU32::new(0) }; 2];
    let more_is_sent = |sent: &AtomicU32| {
        let now = sent.load(Ordering::Relaxed);
        until(|| sent.load(Ordering::Relaxed) > now + 20);
    };
    let plain = service.log_in("old", "one").unwrap();
    let mut secure = Wire::over(service.secure(None));
    secure.script.sasl_plain("old", "one").open("secure").begin(0);
    secure.until(|performative| matches!(performative, Performative::Begin(_))).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| keep_sending(plain, &sent[0], &stop));
        scope.spawn(|| keep_sending(secure, &sent[1], &stop));
        sent.iter().for_each(more_is_sent);

        make_certificates(&service.folder, "certs", &["--host", "localhost"]);
        service.reload(&configuration("debug", &format!("{old}{new}")), "the configuration was read again");

        // The next handshake and the next log-in see what is new.
        assert_eq!(service.shown(), service.on_disk());
        assert_ne!(service.shown(), before);
        assert!(service.log_in("new", "two").is_some());
        until(|| service.lines("DEBUG") > 0);
        // Those who were there are served as before, on the same connections.
        sent.iter().for_each(more_is_sent);
        service.reload(&configuration("info", &format!("{old}{new}")), "the configuration was read again");
        sent.iter().for_each(more_is_sent);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(service.lines("configuration was refused"), 0, "{}", service.log());
    assert!(service.broker.stop().success());
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused_as_a_whole_with_one_line() {
    let good = format!("{LISTEN}{TLS}{}", key("old", "one"));
    let service = Service::start("reload-refused", &good, &["--listen-tls", "127.0.0.1:0"]);
    let shown = service.shown();
    let mut wire = service.log_in("old", "one").unwrap();
    wire.sender(1, "in", "orders").unwrap();
    let new = key("new", "two");
    let with_new = format!("{good}{new}");
    fs::copy(service.folder.0.join("certs/server.pem"), service.folder.0.join("certs/not-a-key.pem"))
        .unwrap();
    let cases = [
        (format!("{with_new}\n[[["), "bad configuration in `ferrybus.toml`, line"),
        (format!("{with_new}\nrihgts = []"), "unknown key `rihgts`"),
        (format!("{with_new}\n[[user]]\nname = \"u\""), "user `u` needs `password`"),
        (format!("{with_new}\n[limits]\nmax_connections = 0"), "`limits.max_connections`"),
        (with_new.replace("server-key.pem", "not-a-key.pem"), "not-a-key.pem` cannot be used"),
        (with_new.replace("server-key.pem", "client-till-7-key.pem"), "certificate or key is not usable"),
        (format!("{with_new}\n[log]\nlevel = \"=loud\""), "is not a log filter"),
        (format!("{LISTEN}{TLS}"), "the built-in development key would let everybody in"),
    ];
    for (id, (configuration, why)) in (0..).zip(cases) {
        let before = service.lines("");
        service.reload(&configuration, "the configuration was refused");
        let log = service.log();
        let told: Vec<&str> = log.lines().skip(before).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("ERROR") && told[0].contains(why), "{why}: {told:?}");
        assert!(service.log_in("new", "two").is_none(), "{why}");
        assert!(service.log_in("old", "one").is_some(), "{why}");
        assert_eq!(service.shown(), shown, "{why}");
        wire.script.transfer(0, 1, id, false, &testkit::data(b"tea"));
        assert_eq!(wire.disposed().unwrap().state, Some(DeliveryState::Accepted), "{why}");
    }
    fs::remove_file(service.folder.0.join("ferrybus.toml")).unwrap();
    service.signal("-HUP");
    until(|| service.lines("cannot read configuration `ferrybus.toml`") == 1);
    service.reload(&with_new, "the configuration was read again");
    assert!(service.log_in("new", "two").is_some());
    assert!(service.broker.stop().success());
}

/// The condition with which the broker detaches the next link.
fn detached_with<S: std::io::Read + std::io::Write>(wire: &mut Wire<S>) -> String {
    wire.detached().unwrap().error.unwrap().condition.to_string()
}

#[test]
fn a_reload_detaches_the_links_of_keys_users_and_certificates_that_are_gone() {
    let user = "[[user]]\nname = \"warehouse\"\npassword = \"p\"\nrights = [\"send\"]\n";
    let certificate = "[[certificate]]\nsubject = \"CN=till-7\"\nrights = [\"send\"]\n";
    let (stays, goes) = (key("stays", "one"), key("goes", "two"));
    let all = format!("{LISTEN}{TLS}{user}{certificate}{stays}{goes}");
    let service = Service::start("reload-loses", &all, &["--listen-tls", "127.0.0.1:0"]);
    let [mut stays_wire, mut goes_wire, mut user_wire] =
        [("stays", "one"), ("goes", "two"), ("warehouse", "p")]
            .map(|(name, text)| service.log_in(name, text).unwrap());
    for wire in [&mut stays_wire, &mut goes_wire, &mut user_wire] {
        wire.sender(1, "in", "orders").unwrap();
    }
    let mut certified = Wire::over(service.secure(Some("till-7")));
    certified.script.sasl("EXTERNAL", Some(b"")).open("certified").begin(0);
    certified.until(|performative| matches!(performative, Performative::Begin(_))).unwrap();
    certified.sender(1, "in", "orders").unwrap();

    // A new text of a key counts as another key.
    let changed = format!("{LISTEN}{TLS}{stays}{}", key("goes", "three"));
    service.reload(&changed, "the configuration was read again");
    assert_eq!(detached_with(&mut goes_wire), "amqp:unauthorized-access");
    assert_eq!(detached_with(&mut user_wire), "amqp:unauthorized-access");
    assert_eq!(detached_with(&mut certified), "amqp:unauthorized-access");
    assert!(service.log_in("goes", "two").is_none() && service.log_in("warehouse", "p").is_none());
    assert!(service.log_in("goes", "three").is_some());
    stays_wire.script.transfer(0, 1, 0, false, &testkit::data(b"tea"));
    assert_eq!(stays_wire.disposed().unwrap().state, Some(DeliveryState::Accepted));

    // Fewer rights take the links along that need those which are gone.
    stays_wire.receiver(2, "out", "orders", None).unwrap();
    service.reload(
        &changed.replacen("[\"send\", \"listen\"]", "[\"listen\"]", 1),
        "the configuration was read again",
    );
    assert_eq!(detached_with(&mut stays_wire), "amqp:unauthorized-access");
    stays_wire.script.credit(0, 2, 0, 1, false);
    stays_wire.transferred().unwrap();
    assert!(service.broker.stop().success());
}

#[test]
fn a_renewed_certificate_is_noticed_without_a_signal_once_its_key_is_there() {
    let configuration =
        format!("{LISTEN}{TLS}check_interval = \"1s\"\n[metrics]\nanonymous = true\n{}", key("old", "one"));
    let service = Service::start("reload-noticed", &configuration, &["--listen-tls", "127.0.0.1:0"]);
    let before = service.shown();
    let expiry = "ferrybus_tls_certificate_expiry_timestamp_seconds";
    assert!(service.metric(expiry).is_some_and(|expires_at| expires_at > 1_700_000_000.0));
    let path = |place: &str, file: &str| -> PathBuf { service.folder.0.join(place).join(file) };
    fs::create_dir(service.folder.0.join("next")).unwrap();
    for file in ["ca.pem", "ca-key.pem"] {
        fs::copy(path("certs", file), path("next", file)).unwrap();
    }
    make_certificates(&service.folder, "next", &["--host", "localhost"]);
    fs::rename(path("next", "server.pem"), path("certs", "server.pem")).unwrap();
    until(|| service.lines("cannot be used yet") == 1);
    assert_eq!(service.shown(), before);
    fs::rename(path("next", "server-key.pem"), path("certs", "server-key.pem")).unwrap();
    until(|| service.lines("was read again, for its files have changed") == 1);
    assert_eq!(service.shown(), service.on_disk());
    assert_eq!(service.lines("cannot be used yet"), 1, "{}", service.log());
    assert!(service.broker.stop().success());
}

#[test]
fn a_certificate_that_is_about_to_expire_is_told_of_once_a_day() {
    let configuration =
        format!("{LISTEN}{TLS}check_interval = \"1s\"\n{}", key("RootManageSharedAccessKey", "one"));
    let configuration = configuration.replace("\"send\", \"listen\"", "\"manage\"");
    let service =
        Service::start("reload-expiry", &configuration, &["--listen-tls", "127.0.0.1:0", "--testing"]);
    let string = service.broker.connection_string.replace("<the key `RootManageSharedAccessKey`>", "one");
    let advance = |by: &str| {
        let done = ferrybus(&service.folder.0, &["clock", "advance", by, "--connection-string", &string]);
        assert_eq!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
    };
    assert_eq!(service.lines("expires soon"), 0, "{}", service.log());
    // It is valid for two years from yesterday.
    advance("718d");
    until(|| service.lines("expires soon") == 1);
    // A reload says it again, for whoever has just put a file there.
    service.reload(&configuration, "the configuration was read again");
    until(|| service.lines("expires soon") == 2);
    advance("24h");
    until(|| service.lines("expires soon") == 3);
    advance("20d");
    until(|| service.lines("has expired") == 1);
    assert!(service.broker.stop().success());
}

#[test]
fn keys_that_only_a_start_takes_in_are_named() {
    let configuration = format!("{LISTEN}{}", key("old", "one"));
    let service = Service::start("reload-restart", &configuration, &[]);
    let changed = configuration.replace("\"127.0.0.1:0\"", "\"127.0.0.2:0\"");
    let changed = format!("{changed}{}[limits]\nmax_connections = 77\n", key("new", "two"));
    service.reload(&changed, "that needs a restart");
    let log = service.log();
    let line = log.lines().find(|line| line.contains("that needs a restart")).unwrap();
    assert!(line.contains("WARN") && line.contains("`limits.max_connections`, `listen`"), "{line}");
    assert_eq!(service.lines("that needs a restart"), 1);
    assert!(service.log_in("new", "two").is_some(), "the rest is taken in");
    service.reload(&configuration, "the configuration was read again");
    assert_eq!(service.lines("that needs a restart"), 1);
    assert!(service.broker.stop().success());
}

#[test]
fn a_log_level_of_the_command_line_or_the_environment_wins_over_the_files() {
    let configuration = |level: &str| format!("{LISTEN}[log]\nlevel = \"{level}\"\n{}", key("old", "one"));
    let in_environment = |folder: &Folder, arguments: &[&str]| {
        let mut command = detached(folder, arguments);
        command.env("FERRYBUS_LOG", "info");
        command
    };
    let cases: [(&[&str], Make); 2] = [(&["--log-level", "info"], detached), (&[], in_environment)];
    for (arguments, make) in cases {
        let folder = Folder::new("reload-level");
        folder.write("ferrybus.toml", &configuration("error"));
        let service = Service::start_in(folder, make, arguments);
        assert!(service.lines("serving") == 1, "{arguments:?}: {}", service.log());
        service.reload(&configuration("debug"), "the configuration was read again");
        drop(service.log_in("old", "one").unwrap());
        service.reload(&configuration("debug"), "the configuration was read again");
        assert_eq!(service.lines("DEBUG"), 0, "{arguments:?}: {}", service.log());
        assert!(service.broker.stop().success());
    }
}

#[test]
fn signals_that_mean_nothing_are_ignored_with_a_line_and_others_end_in_an_orderly_way() {
    let configuration = format!("{LISTEN}{}", key("old", "one"));
    let service = Service::start("signals", &configuration, &[]);
    let mut wire = service.log_in("old", "one").unwrap();
    wire.sender(1, "in", "orders").unwrap();
    let ignored = ["USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "PIPE", "STKFLT", "XFSZ", "RTMIN+3"];
    for (id, signal) in (0..).zip(ignored) {
        let before = service.lines("a signal was ignored");
        service.signal(&format!("-{signal}"));
        until(|| service.lines("a signal was ignored") > before);
        wire.script.transfer(0, 1, id, false, &testkit::data(b"tea"));
        assert_eq!(wire.disposed().unwrap().state, Some(DeliveryState::Accepted), "{signal}");
    }
    service.signal("-QUIT");
    assert_eq!(wire.closed().unwrap().error.unwrap().condition, "amqp:connection:forced");
    let Service { folder, broker } = service;
    assert!(broker.end().success());
    let log = fs::read_to_string(folder.0.join("log")).unwrap();
    assert!(log.contains("stopping") && log.contains("SIGQUIT"), "{log}");
}

#[test]
fn a_terminal_that_is_closed_stops_its_broker_in_an_orderly_way() {
    let folder = Folder::new("signals-terminal");
    folder.write("ferrybus.toml", &format!("{LISTEN}{}", key("old", "one")));
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut line = in_a_session(&folder, &["--ctty"], &[]);
    line.stdin(slave).stderr(fs::File::create(folder.0.join("log")).unwrap());
    let service = Service { broker: Broker::ready(&mut line), folder };
    // The command has a copy of the terminal's other end.
    drop(line);
    let mut wire = service.log_in("old", "one").unwrap();
    drop(master);
    assert_eq!(wire.closed().unwrap().error.unwrap().condition, "amqp:connection:forced");
    let Service { folder, broker } = service;
    assert!(broker.end().success());
    let log = fs::read_to_string(folder.0.join("log")).unwrap();
    assert!(log.contains("stopping") && log.contains("SIGHUP"), "{log}");
}
