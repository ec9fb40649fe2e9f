//! Marks of the journals: each names the shard whose folder it lies in, and the node.

use std::{
    fs,
    path::{Path, PathBuf},
};

use broker_log::RecoveryError as JournalError;
use broker_node::RecoveryError;

use super::*;
use crate::shards::folder;

/// The data folder of a broker. It goes with the test.
struct Data(PathBuf);

impl Data {
    fn new(name: &str) -> Self {
        let data = std::env::temp_dir().join(format!("ferrybus-marks-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&data));
        Self(data)
    }

    fn config(&self, shards: u16) -> ServerConfig {
        let journal = JournalConfig { durability: Durability::Os, ..config().journal };
        ServerConfig { shards, data_dir: self.0.clone(), journal, ..config() }
    }

    /// Starts a broker with so many shards and stops it.
    fn start_and_stop(&self, shards: u16) {
        assert_eq!(Server::start(&self.config(shards)).unwrap().stop(), Outcome::Stopped);
    }

    /// The id in the file `node`.
    fn node(&self) -> u64 {
        let text = fs::read_to_string(self.0.join("node")).unwrap();
        u64::from_str_radix(text.trim_end().strip_prefix("ferrybus-node-1 ").unwrap(), 16).unwrap()
    }

    /// Shard and node that the first segment of a shard names, at the places that `docs/disk-format.md` gives them.
    fn mark(&self, shard: u16) -> (u32, u64) {
        let bytes = fs::read(folder(&self.0, shard).join("00000000.segment")).unwrap();
        let (batch, content) = (&bytes[64..128], &bytes[128 + 12..]);
        assert_eq!((&bytes[..8], &batch[..6]), (&b"FERRYSEG"[..], &b"FBAT\x06\0"[..]));
        let shard = u32::from_le_bytes(content[4..8].try_into().unwrap());
        (shard, u64::from_le_bytes(content[40..48].try_into().unwrap()))
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The segment files of a folder, by their names.
fn segments(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut segments: Vec<_> = names
        .filter(|name| name.ends_with(".segment"))
        .map(|name| (name.clone(), fs::read(folder.join(name)).unwrap()))
        .collect();
    segments.sort();
    segments
}

#[test]
fn the_journal_of_each_shard_names_its_shard_and_the_node() {
    let data = Data::new("own");
    data.start_and_stop(2);
    let node = data.node();
    assert_eq!([0, 1].map(|shard| data.mark(shard)), [(0, node), (1, node)]);
}

#[test]
fn a_folder_with_the_journal_of_another_shard_is_refused_at_the_start_and_left_alone() {
    let data = Data::new("foreign");
    data.start_and_stop(3);
    let [from, to] = [1, 2].map(|shard| folder(&data.0, shard));
    fs::remove_dir_all(&to).unwrap();
    fs::create_dir(&to).unwrap();
    for (name, bytes) in segments(&from) {
        fs::write(to.join(name), bytes).unwrap();
    }
    let before = segments(&to);
    let refused = Server::start(&data.config(3)).unwrap_err();
    let text = "belongs to the journal of shard 1 and lies in the folder of shard 2";
    assert!(refused.to_string().contains(text), "{refused}");
    assert!(refused.to_string().contains(&format!("`{}`", to.display())), "{refused}");
    let StartError::Recovery { error: RecoveryError::Journal(refused), .. } = refused else {
        panic!("{refused}")
    };
    assert!(matches!(refused, JournalError::OtherShard { found: 1, expected: 2, .. }), "{refused}");
    assert_eq!(segments(&to), before);
    // With an empty folder in its place the broker starts, and the shard is a new one.
    fs::remove_dir_all(&to).unwrap();
    data.start_and_stop(3);
    assert_eq!(data.mark(2), (2, data.node()));
}

#[test]
fn a_journal_from_a_backup_without_the_id_of_its_node_opens() {
    let data = Data::new("backup");
    data.start_and_stop(2);
    let before = data.node();
    fs::remove_file(data.0.join("node")).unwrap();
    data.start_and_stop(2);
    assert_ne!(data.node(), before);
    assert_eq!(data.mark(1), (1, before), "the segment was not written anew");
}
