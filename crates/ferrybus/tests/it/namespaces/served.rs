//! Namespaces of the real broker: by its configuration, by a reload, by the emulator's file and by the command line.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::{Broker, Folder, code, command, stderr, stdout, until};

/// A broker whose log is in a file.
pub(super) struct Service {
    pub(super) folder: Folder,
    pub(super) broker: Broker,
}

pub(super) const TEAMS: &str = r#"
    listen = ["127.0.0.1:0"]
    listen_http = []
    durability = "os"
    [[namespace]]
    name = "team-a"
    [[namespace.key]]
    name = "root"
    key = "a"
    rights = ["manage"]
    [[namespace]]
    name = "team-b"
    hostnames = ["b.test"]
    [[namespace.key]]
    name = "root"
    key = "b"
    rights = ["manage"]
    [[key]]
    name = "root"
    key = "default"
    rights = ["manage"]
    [[queue]]
    name = "orders"
    namespace = "team-a"
    [[queue]]
    name = "orders"
    namespace = "team-b"
    [[admin]]
    name = "operator"
    password = "hush"
"#;

impl Service {
    pub(super) fn start(name: &str, configuration: &str, arguments: &[&str]) -> Self {
        let folder = Folder::new(name);
        folder.write("ferrybus.toml", configuration);
        Self::start_in(folder, arguments)
    }

    pub(super) fn start_in(folder: Folder, arguments: &[&str]) -> Self {
        let log = fs::File::create(folder.0.join("log")).unwrap();
        let mut serve = Command::new("setsid");
        let plain = command(&folder.0, arguments);
        serve.arg(plain.get_program()).args(arguments).current_dir(&folder.0).stderr(log);
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => serve.env(name, value),
                None => serve.env_remove(name),
            };
        }
        let broker = Broker::ready(serve.env("FERRYBUS_LOG", "info"));
        Self { folder, broker }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.0.join("log")).unwrap()
    }

    pub(super) fn reload(&self, configuration: &str) {
        let count = || self.log().matches("the configuration was read again").count();
        let before = count();
        self.folder.write("ferrybus.toml", configuration);
        let sent = Command::new("kill").args(["-HUP", &self.broker.id().to_string()]).status().unwrap();
        assert!(sent.success());
        until(|| count() > before);
    }

    fn port(&self) -> String {
        self.broker.addresses[0].rsplit(':').next().unwrap().to_owned()
    }

    /// Runs a command with this key at this host, which is this machine.
    fn at(&self, host: &str, key: &str, line: &str) -> Output {
        let string = format!(
            "Endpoint=sb://{host}:{};SharedAccessKeyName=root;SharedAccessKey={key};UseDevelopmentEmulator=true",
            self.port()
        );
        let words = line.split(' ').chain(["--address", "127.0.0.1", "--connection-string", &string]);
        command(&self.folder.0, &words.collect::<Vec<_>>()).output().unwrap()
    }

    /// The same in this namespace, by its name.
    pub(super) fn run_in(&self, namespace: &str, key: &str, line: &str) -> Output {
        self.at("127.0.0.1", key, &format!("{line} --namespace {namespace}"))
    }

    /// Output of a command that an administrator runs.
    pub(super) fn administer(&self, line: &str) -> Output {
        let string = format!("Endpoint=sb://127.0.0.1:{};UseDevelopmentEmulator=true", self.port());
        let words: Vec<&str> = line.split(' ').chain(["--connection-string", &string]).collect();
        command(&self.folder.0, &words).env("FERRYBUS_ADMIN", "operator:hush").output().unwrap()
    }

    pub(super) fn shown(&self, namespace: &str) -> Value {
        let output = self.administer(&format!("namespace show {namespace} --json"));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).unwrap()
    }
}

/// Standard output of a command that has to succeed.
pub(super) fn good(output: &Output) -> String {
    assert_eq!(code(output), 0, "{}", stderr(output));
    stdout(output)
}

pub(super) fn refused(output: &Output, expected: &str) {
    let told = stderr(output);
    assert!(code(output) != 0 && told.contains(expected), "{told}");
}

#[test]
fn each_namespace_of_the_file_has_its_own_entities_and_keys() {
    let service = Service::start("namespaces-file", TEAMS, &[]);
    good(&service.run_in("team-a", "a", "send orders --body tea"));
    assert_eq!(good(&service.run_in("team-b", "b", "peek orders")), "");
    // The host leads there as the name does.
    assert!(good(&service.at("team-a.localhost", "a", "peek orders")).contains("tea"));
    good(&service.at("b.test", "b", "send orders --body milk"));
    assert!(good(&service.run_in("Team-B", "b", "peek orders")).contains("milk"));
    // The same key name in two namespaces is two keys, over AMQP and HTTP.
    for namespace in ["team-b", "default"] {
        refused(&service.run_in(namespace, "a", "peek orders"), "the broker refuses the log-in");
        refused(&service.run_in(namespace, "a", "queue list"), "401");
    }
    assert_eq!(good(&service.run_in("default", "default", "queue list")), "");
    good(&service.run_in("team-b", "b", "queue delete orders"));
    assert!(good(&service.run_in("team-a", "a", "queue list")).contains("orders"));
}

#[test]
fn with_strict_hostnames_of_the_file_a_name_that_leads_nowhere_is_refused() {
    let service = Service::start("namespaces-strict", &format!("strict_hostnames = true\n{TEAMS}"), &[]);
    good(&service.at("team-a.localhost", "a", "send orders --body tea"));
    good(&service.at("B.Test.", "b", "send orders --body milk"));
    for host in ["elsewhere.test", "team-c.localhost", "localhost"] {
        refused(&service.at(host, "default", "peek orders"), "not-found");
    }
    assert_eq!(good(&service.run_in("default", "default", "queue list")), "");
}

#[test]
fn entities_that_differ_are_told_with_their_namespace_and_changed_there() {
    let service = Service::start("namespaces-differ", TEAMS, &[]);
    let Service { folder, broker } = service;
    assert!(broker.stop().success());
    let of_b = "namespace = \"team-b\"\n    [[admin]]";
    let changed = TEAMS.replace(of_b, "namespace = \"team-b\"\n    max_delivery_count = 3\n    [[admin]]");
    assert_ne!(changed, TEAMS);
    folder.write("ferrybus.toml", &changed);
    let service = Service::start_in(folder, &[]);
    let told = "namespace `team-b`: queue `orders` differs from `ferrybus.toml`: max_delivery_count is 10, the file has 3; \
                `ferrybus config apply ferrybus.toml --namespace team-b` changes it";
    assert!(service.log().contains(told), "{}", service.log());
    let output = service.run_in("team-b", "b", "config apply ferrybus.toml");
    assert!(good(&output).contains("~ queue `orders`"));
    assert!(stderr(&output).contains("the entities of namespace `team-a` are left out"));
    assert!(
        good(&service.run_in("team-b", "b", "queue show orders --json")).contains("\"max_delivery_count\":3")
    );
    assert!(
        good(&service.run_in("team-a", "a", "queue show orders --json"))
            .contains("\"max_delivery_count\":10")
    );
    let Service { folder, broker } = service;
    assert!(broker.stop().success());
    folder.write(
        "ferrybus.toml",
        TEAMS
            .replace("\"team-b\"\n    [[admin]]", "\"team-b\"\n    max_delivery_count = 5\n    [[admin]]")
            .as_str(),
    );
    let service = Service::start_in(folder, &["--on-difference", "apply"]);
    let told = "namespace `team-b`: queue `orders` was changed as `ferrybus.toml` has it: max_delivery_count is 3, the file has 5";
    assert!(service.log().contains(told), "{}", service.log());
}

#[test]
fn a_reload_adds_namespaces_with_their_entities_and_takes_only_keys_away() {
    let service = Service::start("namespaces-reload", TEAMS, &[]);
    let with_c = format!(
        "{TEAMS}[[namespace]]\nname = \"team-c\"\nmax_entities = 7\n[[namespace.key]]\nname = \"root\"\nkey = \"c\"\n\
         rights = [\"manage\"]\n[[queue]]\nname = \"parcels\"\nnamespace = \"team-c\"\n"
    );
    service.reload(&with_c);
    until(|| code(&service.run_in("team-c", "c", "queue show parcels")) == 0);
    good(&service.run_in("team-c", "c", "send parcels --body one"));
    let shown = service.shown("team-c");
    assert_eq!((&shown["from_file"], &shown["limits"]["max_entities"]), (&true.into(), &7.into()));
    assert!(!service.log().contains("that needs a restart"), "{}", service.log());

    service.reload(TEAMS);
    until(|| {
        service
            .log()
            .contains("namespace `team-c` is not in the configuration any more: it stays with its data")
    });
    refused(&service.run_in("team-c", "c", "peek parcels"), "the broker refuses the log-in");
    let shown = service.shown("team-c");
    assert_eq!((&shown["from_file"], &shown["usage"]["entities"]), (&false.into(), &1.into()));
    service.reload(&with_c);
    assert!(good(&service.run_in("team-c", "c", "peek parcels")).contains("one"));
}

#[test]
fn a_reload_changes_the_limits_of_a_namespace_of_the_file_at_once() {
    let limited = |entities: u32| {
        let name = "name = \"team-a\"\n";
        TEAMS.replacen(name, &format!("{name}    max_entities = {entities}\n"), 1)
    };
    let service = Service::start("namespaces-limits", &limited(2), &[]);
    let create = |queue: &str| service.run_in("team-a", "a", &format!("queue create {queue}"));
    let limit = || service.shown("team-a")["limits"]["max_entities"].clone();
    good(&create("second"));
    refused(&create("third"), "The limit of 2 entities is reached");
    service.reload(&limited(3));
    until(|| limit() == 3);
    good(&create("third"));
    refused(&create("fourth"), "The limit of 3 entities is reached");
    // Fewer than there are: they stay, and no other is created.
    service.reload(&limited(1));
    until(|| limit() == 1);
    refused(&create("fourth"), "The limit of 1 entities is reached");
    let shown = service.shown("team-a");
    assert_eq!((&shown["usage"]["entities"], &shown["from_file"]), (&3.into(), &true.into()));
    service.reload(TEAMS);
    until(|| limit().is_null());
    good(&create("fourth"));
    assert!(!service.log().contains("that needs a restart"), "{}", service.log());
}

#[test]
fn the_default_namespace_follows_the_file_while_the_file_names_it() {
    let limited = format!("{TEAMS}[[namespace]]\nname = \"default\"\nmax_connections = 7\n");
    let service = Service::start("namespaces-default", &limited, &[]);
    let limit = || service.shown("default")["limits"]["max_connections"].clone();
    assert_eq!(limit(), 7);
    // Named without a limit it has none.
    service.reload(&format!("{TEAMS}[[namespace]]\nname = \"default\"\n"));
    until(|| limit().is_null());
    service.reload(&limited);
    until(|| limit() == 7);
    // Not named, it stays as it is, like any other namespace, and an administrator may change it.
    service.reload(TEAMS);
    assert_eq!(limit(), 7);
    good(&service.administer("namespace set default --max-connections 9"));
    service.reload(TEAMS);
    assert_eq!(limit(), 9);
}

#[test]
fn each_namespace_of_the_emulators_file_is_reached_by_its_name() {
    let folder = Folder::new("namespaces-emulator");
    let config = r#"{"UserConfig":{"Namespaces":[
        {"Name":"sbemulatorns","Queues":[{"Name":"first"}]},{"Name":"team-a","Queues":[{"Name":"second"}]}]}}"#;
    folder.write("Config.json", config);
    let line = ["--listen", "127.0.0.1:0", "--durability", "none", "--emulator-config", "Config.json"];
    let service = Service::start_in(folder, &line);
    let names = |host: &str| {
        let string = service.broker.connection_string.replace("localhost", host);
        let words = ["queue", "list", "--json", "--address", "127.0.0.1", "--connection-string", &string];
        let lines = good(&command(&service.folder.0, &words).output().unwrap());
        let name =
            |line: &str| serde_json::from_str::<Value>(line).unwrap()["name"].as_str().unwrap().to_owned();
        lines.lines().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names("localhost"), ["first"]);
    assert_eq!(names("sbemulatorns"), ["first"]);
    assert_eq!(names("team-a.localhost"), ["second"]);
}

#[test]
fn an_administrator_creates_holds_and_deletes_namespaces_and_a_key_of_one_does_not() {
    let service = Service::start("namespaces-admin", TEAMS, &[]);
    refused(&service.at("127.0.0.1", "default", "namespace list"), "administrator");
    let created = "created namespace `shop`\n";
    assert_eq!(good(&service.administer("namespace create shop --max-entities 2")), created);
    let again = good(&service.administer("namespace create Shop --max-entities 2"));
    assert_eq!(again, "namespace `Shop` is there already, with these settings\n");
    refused(&service.administer("namespace create shop --max-entities 3"), "max_entities  2 -> 3");

    let key = service.administer("namespace key create shop app --rights manage");
    let string = good(&key).trim_end().to_owned();
    let with_key = |line: &str| {
        let words = line.split(' ').chain(["--address", "127.0.0.1", "--connection-string", &string]);
        command(&service.folder.0, &words.collect::<Vec<_>>()).output().unwrap()
    };
    good(&with_key("queue create orders"));
    good(&with_key("send orders --body tea"));
    refused(&service.administer("namespace key create shop app --rights send"), "has a key `app` already");

    good(&service.administer("namespace set shop --hold"));
    refused(&with_key("peek orders"), "held");
    good(&service.administer("namespace set shop --no-hold"));
    assert!(good(&with_key("peek orders")).contains("tea"));

    // The file's namespaces are the file's, but for the hold.
    refused(&service.administer("namespace set team-a --weight 2"), "(409)");
    refused(&service.administer("namespace delete team-a --yes"), "(409)");
    let of_the_file =
        "the key `root` of the namespace `team-a` is one of the configuration: it is changed there";
    refused(&service.administer("namespace key create team-a root --rights send"), of_the_file);
    refused(&service.administer("namespace key delete team-a root"), of_the_file);
    good(&service.administer("namespace key create team-a app --rights send"));
    good(&service.administer("namespace key delete team-a app"));
    refused(&service.administer("namespace key delete team-a app"), "has no key `app`");
    good(&service.administer("namespace set team-a --hold"));
    assert_eq!(service.shown("team-a")["state"], "held");

    refused(&service.administer("namespace delete shop"), "has 1 entity, ");
    good(&service.administer("namespace delete shop --yes"));
    until(|| stderr(&service.administer("namespace show shop")).contains("there is no namespace `shop`"));
    refused(&service.administer("namespace show team-aa"), "did you mean `team-a`?");
}

#[test]
fn a_file_with_the_log_in_of_an_administrator_is_enough() {
    let service = Service::start("namespaces-admin-file", TEAMS, &[]);
    let file: PathBuf = service.folder.write("admin", "operator:hush\n");
    let string = format!("Endpoint=sb://127.0.0.1:{};UseDevelopmentEmulator=true", service.port());
    let line = ["namespace", "list", "--admin-file", file.to_str().unwrap(), "--connection-string", &string];
    let list = good(&command(&service.folder.0, &line).output().unwrap());
    let names: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["default", "team-a", "team-b"]);
    let wrong = command(&service.folder.0, &line[..2])
        .args(&line[4..])
        .env("FERRYBUS_ADMIN", "operator:hash")
        .output()
        .unwrap();
    refused(&wrong, "check the name and password");
}

#[test]
fn an_administrator_moves_the_clock_orders_faults_and_closes_connections() {
    let service = Service::start("operator", TEAMS, &["--testing"]);
    assert!(good(&service.administer("clock advance 5m")).contains("ahead"));
    assert!(good(&service.administer("clock show")).contains("ahead 300"));
    good(&service.administer("fault add drop-connection --entity orders --count 1"));
    assert!(good(&service.administer("fault list")).contains("drop-connection"));
    good(&service.administer("fault clear"));
    good(&service.administer("connection list"));
    // No key of a namespace is an administrator, and one that is named is looked at with its own key.
    refused(&service.run_in("team-a", "a", "clock show"), "a key that does not exist (401)");
    good(&service.run_in("team-a", "a", "connection list"));
}

/// Output of a command with the development key, at a broker without credentials.
fn developer(service: &Service, line: &str) -> Output {
    let string = format!(
        "Endpoint=sb://127.0.0.1:{};SharedAccessKeyName=RootManageSharedAccessKey;\
         SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true",
        service.port()
    );
    let words: Vec<&str> = line.split(' ').chain(["--connection-string", &string]).collect();
    command(&service.folder.0, &words).output().unwrap()
}

#[test]
fn namespaces_of_two_shards_are_served_side_by_side_and_found_again_after_a_kill() {
    const SHARDS: &str = "shards = 2\nlisten = [\"127.0.0.1:0\"]\nlisten_http = []\n";
    let service = Service::start("namespaces-shards", SHARDS, &[]);
    good(&developer(&service, "namespace create one --shard 1"));
    good(&developer(&service, "namespace create nought --shard 0"));
    refused(&developer(&service, "namespace create two --shard 2"), "there is no shard 2");
    refused(&developer(&service, "namespace create ONE --shard 0"), "lives in shard 1");
    for name in ["one", "nought"] {
        good(&developer(&service, &format!("queue create orders --namespace {name}")));
        good(&developer(&service, &format!("send orders --body {name} --namespace {name}")));
    }
    let shard = |service: &Service, name: &str| {
        let shown = good(&developer(service, &format!("namespace show {name} --json")));
        serde_json::from_str::<Value>(&shown).unwrap()["shard"].as_u64()
    };
    assert_eq!((shard(&service, "one"), shard(&service, "nought")), (Some(1), Some(0)));
    let Service { folder, broker } = service;
    drop(broker);
    let service = Service::start_in(folder, &[]);
    assert_eq!((shard(&service, "one"), shard(&service, "nought")), (Some(1), Some(0)));
    for (name, other) in [("one", "nought"), ("nought", "one")] {
        let peeked = good(&developer(&service, &format!("peek orders --namespace {name}")));
        assert!(peeked.contains(name) && !peeked.contains(other), "{peeked}");
    }
    // The default namespace counts, so the second shard has fewer.
    good(&developer(&service, "namespace create next"));
    assert_eq!(shard(&service, "next"), Some(1));
    good(&developer(&service, "namespace delete one --yes"));
    until(|| stderr(&developer(&service, "namespace show one")).contains("there is no namespace `one`"));
    assert!(service.folder.0.join("ferrybus-data/shard-1/00000000.segment").exists());
}
