//! The shard and the node that the marks of a journal name.

use super::*;
use crate::file_inventory::inventory;

fn of(shard: u32, node: u64) -> JournalConfig {
    JournalConfig { shard, node, opened_at: 5, ..config() }
}

fn open_as(disk: &MemDisk, config: JournalConfig) -> Result<Vec<Vec<u8>>, RecoveryError> {
    let mut found = Vec::new();
    recover(disk.clone(), config, &mut |_, record| found.push(record.full().unwrap().to_vec()))?;
    Ok(found)
}

/// A journal of several segments.
fn filled(config: JournalConfig, records: u8) -> MemDisk {
    let disk = MemDisk::new();
    let mut journal = recover(disk.clone(), config, &mut |_, _| {}).unwrap();
    for number in 0..records {
        put(&mut journal, &disk, &[number; 400]);
    }
    assert!(journal.stats().segments > 2);
    disk
}

fn contents(disk: &MemDisk) -> Vec<(FileId, Vec<u8>)> {
    let files = disk.list().unwrap();
    files.into_iter().map(|(file, _)| (file, disk.contents(file).unwrap())).collect()
}

#[test]
fn each_segment_names_its_shard_and_the_node_that_wrote_it() {
    let disk = filled(of(3, 77), 60);
    let marks: Vec<_> = inventory(&disk).unwrap().segments.iter().map(|present| present.mark).collect();
    assert!(marks.len() > 2, "{marks:?}");
    assert!(
        marks.iter().all(|mark| mark.is_some_and(|mark| (mark.shard, mark.node) == (3, 77))),
        "{marks:?}"
    );
    // Each says the number of its own batch.
    let numbers: Vec<_> = marks.iter().flatten().map(|mark| mark.number).collect();
    assert!(numbers[0] == 1 && numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

#[test]
fn the_journal_of_another_shard_is_refused_and_nothing_is_changed() {
    let disk = filled(of(1, 77), 60);
    let before = contents(&disk);
    let refused = open_as(&disk, of(2, 77)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`00000000.segment` belongs to the journal of shard 1 and lies in the folder of shard 2: a folder was copied or renamed"
    );
    assert_eq!(refused, RecoveryError::OtherShard { file: FileId(0), found: 1, expected: 2 });
    assert!(matches!(open_as(&disk, of(0, 77)), Err(RecoveryError::OtherShard { expected: 0, .. })));
    assert_eq!(contents(&disk), before);
    assert_eq!(open_as(&disk, of(1, 77)).unwrap().len(), 60);
}

#[test]
fn a_journal_that_was_copied_over_that_of_another_shard_is_refused_as_such() {
    // The longer one has files that the copy leaves.
    let (longer, shorter) = (filled(of(2, 77), 120), filled(of(1, 77), 60));
    for (below, above, covered) in [(&longer, &shorter, false), (&shorter, &longer, true)] {
        let mixed = below.snapshot();
        for (file, bytes) in contents(above) {
            mixed.replace(file, bytes);
        }
        let before = contents(&mixed);
        for shard in [1, 2] {
            // A copy that covers every file is a whole journal of its own shard.
            let is_whole = covered && shard == 2;
            match open_as(&mixed.snapshot(), of(shard, 77)) {
                Ok(found) => assert!(is_whole && found.len() == 120, "shard {shard}"),
                Err(RecoveryError::OtherShard { found, expected, .. }) => {
                    assert_eq!((found, expected, is_whole), (3 - shard, shard, false));
                }
                Err(error) => panic!("shard {shard}: {error}"),
            }
        }
        assert_eq!(contents(&mixed), before);
    }
}

#[test]
fn a_journal_opens_whatever_node_its_marks_name() {
    // One that was migrated names none, and one from a backup without the file `node` another.
    for node in [0, 77, 78] {
        let disk = filled(of(1, node), 60);
        assert_eq!(open_as(&disk, of(1, 77)).unwrap().len(), 60, "{node}");
    }
}

#[test]
fn a_segment_without_a_mark_that_can_be_read_is_of_no_other_shard() {
    let disk = filled(of(1, 77), 60);
    let first = inventory(&disk).unwrap().segments[0];
    let mut bytes = disk.contents(first.file).unwrap();
    bytes[HEADER_LEN + 80] ^= 1;
    disk.replace(first.file, bytes);
    crate::repair(&disk).unwrap();
    assert!(inventory(&disk).unwrap().segments[0].mark.is_none());
    assert_eq!(open_as(&disk, of(1, 77)).unwrap().len(), 60);
    // The others still say it.
    let refused = open_as(&disk, of(2, 77)).unwrap_err();
    assert!(matches!(refused, RecoveryError::OtherShard { found: 1, expected: 2, .. }), "{refused}");
    assert!(!refused.to_string().contains(&first.file.to_string()), "{refused}");
}
