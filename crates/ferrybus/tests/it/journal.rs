//! `ferrybus journal` on journals that a real broker wrote and somebody damaged.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::support::{Broker, Folder, code, ferrybus, stderr, stdout};

/// With `fsync`: the journal can tell damage from a torn end only where the disk has confirmed what follows.
const SERVE: [&str; 6] = ["--listen", "127.0.0.1:0", "--queue", "orders", "--data-dir", "data"];

/// A broker's journal with messages `tea 1.`, `tea 2.` and so on, each in a batch of its own, as a kill leaves it.
fn written(name: &str, messages: u32) -> Folder {
    let folder = Folder::new(name);
    let broker = Broker::start(&folder.0, &SERVE);
    for number in 1..=messages {
        let body = format!("tea {number}.");
        let string = &broker.connection_string;
        let sent = ferrybus(&folder.0, &["send", "orders", "--body", &body, "--connection-string", string]);
        assert_eq!(code(&sent), 0, "{}", stderr(&sent));
    }
    broker.kill();
    folder
}

/// File and offset of `text` in the journal.
fn find(folder: &Path, text: &str) -> (PathBuf, u64) {
    find_in(&folder.join("data"), text)
}

fn find_in(data: &Path, text: &str) -> (PathBuf, u64) {
    let files = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    for path in files {
        let bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(text.len()).position(|window| window == text.as_bytes()) {
            return (path, at as u64);
        }
    }
    panic!("`{text}` is nowhere in the journal");
}

fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

/// JSON output of `journal`, after a check of its exit code.
fn json(folder: &Folder, line: &[&str], expected: i32) -> Value {
    let output = ferrybus(&folder.0, &[&["journal"], line, &["data", "--json"]].concat());
    assert_eq!(code(&output), expected, "{line:?}: {}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// The files of the journal and what they hold.
fn contents(folder: &Folder) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder.0.join("data")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn bodies(folder: &Folder) -> Vec<String> {
    let broker = Broker::start(&folder.0, &SERVE);
    let line = ["peek", "orders", "--json", "--connection-string", &broker.connection_string];
    let output = ferrybus(&folder.0, &line);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let bodies = stdout(&output);
    assert!(broker.stop().success());
    let body = |line: &str| serde_json::from_str::<Value>(line).unwrap()["body"].as_str().unwrap().to_owned();
    bodies.lines().map(body).collect()
}

#[test]
fn damage_in_the_middle_is_found_refused_and_repaired() {
    let folder = written("journal-damage", 5);
    let (path, at) = find(&folder.0, "tea 3.");
    overwrite(&path, at, b"pea");
    let file = path.file_name().unwrap().to_str().unwrap().to_owned();

    let report = json(&folder, &["check"], 1);
    assert_eq!(report["sound"], false);
    let loss = &report["losses"][0];
    assert_eq!((loss["file"].as_str(), loss["records"].as_u64()), (Some(file.as_str()), Some(1)), "{report}");
    let offset = loss["offset"].as_u64().unwrap();
    let length = loss["to"].as_u64().unwrap() - loss["position"].as_u64().unwrap();
    assert!(offset <= at && at < offset + length, "{report}");
    let place = format!("`{file}` at offset {offset}");
    let text = ferrybus(&folder.0, &["journal", "check", "data"]);
    assert!(stdout(&text).contains(&place) && stdout(&text).contains("1 record lost"), "{}", stdout(&text));
    assert!(stderr(&text).contains("hint: `ferrybus journal repair data --yes`"), "{}", stderr(&text));

    let refused = ferrybus(&folder.0, &SERVE);
    assert_eq!(code(&refused), 1);
    assert!(stderr(&refused).contains(&place), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("hint: `ferrybus journal check data`"), "{}", stderr(&refused));

    let before = contents(&folder);
    let plan = ferrybus(&folder.0, &["journal", "repair", "data"]);
    assert_eq!(code(&plan), 1);
    assert!(
        stdout(&plan).contains(&place) && stdout(&plan).contains("give up 1 record"),
        "{}",
        stdout(&plan)
    );
    assert!(contents(&folder) == before, "a plan changes nothing");

    let done = json(&folder, &["repair", "--yes"], 0);
    assert_eq!((&done["repaired"], &done["after"]["sound"]), (&true.into(), &true.into()), "{done}");
    let kept = fs::read(folder.0.join(done["kept"][0].as_str().unwrap())).unwrap();
    assert_eq!(kept.len() as u64, length);
    assert!(kept.windows(6).any(|window| window == b"pea 3."));
    assert_eq!(json(&folder, &["check"], 0)["sound"], true);
    assert_eq!(bodies(&folder), ["tea 1.", "tea 2.", "tea 4.", "tea 5."]);
}

#[test]
fn a_last_batch_that_a_crash_cut_is_no_damage() {
    let folder = written("journal-torn", 3);
    // The crash came before the end of the last write was on disk.
    let (path, at) = find(&folder.0, "tea 3.");
    overwrite(&path, at, &[0; 4096]);
    let report = json(&folder, &["check"], 0);
    assert_eq!((&report["sound"], report["losses"].as_array().unwrap().len()), (&true.into(), 0));
    assert_eq!(json(&folder, &["repair"], 0)["repaired"], false);
    let before = contents(&folder);
    let done = json(&folder, &["repair", "--yes"], 0);
    assert_eq!((&done["repaired"], done["kept"].as_array().unwrap().len()), (&false.into(), 0));
    assert!(contents(&folder) == before, "what is sound is left alone");
    assert_eq!(bodies(&folder), ["tea 1.", "tea 2."]);
}

#[test]
fn a_journal_in_use_is_neither_checked_nor_repaired() {
    let folder = Folder::new("journal-locked");
    let broker = Broker::start(&folder.0, &SERVE);
    for line in [&["journal", "check", "data"][..], &["journal", "repair", "data", "--yes"]] {
        let output = ferrybus(&folder.0, line);
        assert_eq!(code(&output), 1, "{line:?}");
        assert_eq!(stdout(&output), "");
        let text = stderr(&output);
        assert!(
            text.starts_with("error: `data` is in use by another process\nhint: stop the broker"),
            "{text}"
        );
    }
    assert!(broker.stop().success());
    assert_eq!(json(&folder, &["check"], 0)["sound"], true);
}

#[test]
fn a_folder_without_a_journal_is_misuse_and_stays_as_it_is() {
    let folder = Folder::new("journal-none");
    folder.write("file", "text");
    fs::create_dir(folder.0.join("empty")).unwrap();
    for name in ["missing", "file", "empty"] {
        for command in ["check", "repair"] {
            let output = ferrybus(&folder.0, &["journal", command, name]);
            assert_eq!(code(&output), 2, "{command} {name}: {}", stderr(&output));
        }
    }
    assert_eq!(fs::read_dir(folder.0.join("empty")).unwrap().count(), 0);
    assert!(!folder.0.join("missing").exists());
}

#[test]
fn a_broker_refuses_folders_of_shards_that_changed_places_and_says_what_to_do() {
    let folder = Folder::new("journal-swapped");
    folder.write("ferrybus.toml", "shards = 3\n");
    Broker::start(&folder.0, &SERVE).kill();
    let data = folder.0.join("data");
    for (from, to) in [("shard-1", "aside"), ("shard-2", "shard-1"), ("aside", "shard-2")] {
        fs::rename(data.join(from), data.join(to)).unwrap();
    }
    let refused = ferrybus(&folder.0, &[&["serve"], &SERVE[..]].concat());
    assert_ne!(code(&refused), 0);
    let text = stderr(&refused);
    assert!(
        text.contains("belongs to the journal of shard") && text.contains("put the folders back"),
        "{text}"
    );
    for (from, to) in [("shard-1", "aside"), ("shard-2", "shard-1"), ("aside", "shard-2")] {
        fs::rename(data.join(from), data.join(to)).unwrap();
    }
    Broker::start(&folder.0, &SERVE).kill();
}

#[test]
fn damage_in_the_journal_of_another_shard_is_refused_with_the_folder_to_check() {
    let folder = Folder::new("journal-shard-damage");
    folder.write("ferrybus.toml", "shards = 2\nauto_create = true\n[[namespace]]\nname = \"team\"\n");
    let broker = Broker::start(&folder.0, &SERVE);
    for number in 1..=3 {
        let body = format!("tea {number}.");
        let string = &broker.connection_string;
        let line = ["send", "orders", "--namespace", "team", "--body", &body, "--connection-string", string];
        let sent = ferrybus(&folder.0, &line);
        assert_eq!(code(&sent), 0, "{}", stderr(&sent));
    }
    broker.kill();
    let shard = Path::new("data").join("shard-1");
    let (path, at) = find_in(&folder.0.join(&shard), "tea 2.");
    overwrite(&path, at, b"pea");
    let refused = ferrybus(&folder.0, &[&["serve"], &SERVE[..]].concat());
    assert_eq!(code(&refused), 1);
    let (text, shard) = (stderr(&refused), shard.to_str().unwrap());
    let place = format!("in `{shard}`: ");
    assert!(text.contains(&place) && text.contains(path.file_name().unwrap().to_str().unwrap()), "{text}");
    assert!(text.contains(&format!("hint: `ferrybus journal check {shard}`")), "{text}");
    assert_eq!(code(&ferrybus(&folder.0, &["journal", "check", shard])), 1);
    assert_eq!(code(&ferrybus(&folder.0, &["journal", "repair", shard, "--yes"])), 0);
    Broker::start(&folder.0, &SERVE).kill();
}
