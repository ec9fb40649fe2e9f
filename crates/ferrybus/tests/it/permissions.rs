//! Access rights of the broker's files: only its own user can read them.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use crate::support::{Broker, Folder, code, command, ferrybus};

const LINE: [&str; 4] = ["--listen", "127.0.0.1:0", "--queue", "orders"];

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn open_up(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Starts a broker whose umask takes nothing away, and gives what it had logged when it was ready.
fn log_of_start(folder: &Folder, more: &[&str]) -> String {
    let plain = command(&folder.0, &[]);
    let log = folder.0.join("log");
    let mut broker = Command::new("sh");
    broker.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(LINE).args(more);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => broker.env(name, value),
            None => broker.env_remove(name),
        };
    }
    broker.current_dir(&folder.0).stderr(fs::File::create(&log).unwrap());
    drop(Broker::ready(&mut broker));
    fs::read_to_string(&log).unwrap()
}

#[test]
fn a_fresh_start_makes_a_journal_that_its_owner_alone_can_read() {
    let folder = Folder::new("fresh-permissions");
    let log = log_of_start(&folder, &["--data-dir", "above/journal"]);
    assert_eq!(log, "", "nothing to warn of");
    let journal = folder.0.join("above/journal");
    assert_eq!((mode(&folder.0.join("above")), mode(&journal)), (0o700, 0o700));
    let files: Vec<_> = fs::read_dir(&journal).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 1, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_journal_that_others_can_read_is_a_warning_and_stays_as_it_is() {
    let folder = Folder::new("open-permissions");
    let journal = folder.0.join("ferrybus-data");
    log_of_start(&folder, &[]);
    let segment = fs::read_dir(&journal)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some())
        .unwrap();
    open_up(&journal, 0o755);
    open_up(&segment, 0o644);
    let log = log_of_start(&folder, &[]);
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines.iter().all(|line| line.contains(" WARN ")), "{log}");
    assert!(lines[0].contains("`chmod 700` it") && lines[0].contains("mode=0755"), "{log}");
    assert!(lines[0].contains("ferrybus-data"), "{log}");
    assert!(lines[1].contains("`chmod 600` them") && lines[1].contains("files=1"), "{log}");
    assert!(lines[1].contains(".segment") && lines[1].contains("mode=0644"), "{log}");
    assert_eq!((mode(&journal), mode(&segment)), (0o755, 0o644));
}

#[test]
fn a_private_key_that_others_can_read_is_a_warning() {
    let folder = Folder::new("open-key");
    assert_eq!(code(&ferrybus(&folder.0, &["cert", "dev", "--out", "certs"])), 0);
    let tls = ["--tls-certificate", "certs/server.pem", "--tls-key", "certs/server-key.pem"];
    let line = [&tls[..], &["--listen-tls", "127.0.0.1:0"]].concat();
    assert_eq!(log_of_start(&folder, &line), "");
    open_up(&folder.0.join("certs/server-key.pem"), 0o644);
    let log = log_of_start(&folder, &line);
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains(" WARN ") && log.contains("can read the private key"), "{log}");
    assert!(log.contains("certs/server-key.pem") && log.contains("mode=0644"), "{log}");
}
