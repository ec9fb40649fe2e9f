use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::recover;

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A folder with the journal of the fixture of format 1. It goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn of_0_1() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("broker-log-migrate-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
        for entry in fs::read_dir(fixture).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
        Self(folder)
    }

    fn names(&self, below: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.0.join(below)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn records(&self) -> usize {
        let mut records = 0;
        recover(RealDisk::open(&self.0).unwrap(), config(), &mut |_, record| {
            record.full().unwrap();
            records += 1;
        })
        .unwrap();
        records
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn config() -> JournalConfig {
    JournalConfig { segment_bytes: 4096, spare_segments: 0, reserve_bytes: 0, ..JournalConfig::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "a conversion may fail")]
fn unchanged(index: &[u8]) -> Result<Vec<u8>, String> {
    Ok(index.to_vec())
}

fn begin(folder: &Folder) -> FolderMigration<'_> {
    let disk = RealDisk::open_in_migration(&folder.0).unwrap();
    FolderMigration { directory: &folder.0, disk, config: config(), copied: None }
}

#[test]
fn the_new_journal_takes_the_place_of_the_old_one_which_is_kept() {
    let folder = Folder::of_0_1();
    let old = folder.names("");
    let done = migrate_folder(&folder.0, config(), &mut unchanged).unwrap();
    assert_eq!(done.copied.map(|copied| copied.records), Some(48));
    assert_eq!((done.old, folder.names(OLD)), (folder.0.join(OLD), old));
    assert_eq!(folder.records(), 48);
    let again = migrate_folder(&folder.0, config(), &mut unchanged).unwrap_err();
    assert!(matches!(again, MigrateFolderError::Migrate(MigrateError::NotOlder)), "{again}");
}

#[test]
fn a_migration_that_ends_after_any_step_is_ended_by_the_next_one() {
    let mut steps = 0;
    loop {
        let folder = Folder::of_0_1();
        let old = folder.names("");
        let mut migration = begin(&folder);
        let interrupted = (0..steps).all(|_| migration.step(&mut unchanged).unwrap());
        drop(migration);
        if !interrupted {
            break;
        }
        if steps > 0 {
            let refused = RealDisk::open(&folder.0).unwrap_err();
            assert!(matches!(refused, OpenError::Migration { .. }), "after step {steps}: {refused}");
        }
        let done = migrate_folder(&folder.0, config(), &mut unchanged).unwrap();
        assert_eq!(done.copied.is_none(), steps > 0, "after step {steps}");
        assert_eq!((folder.names(OLD), folder.records()), (old, 48), "after step {steps}");
        steps += 1;
    }
    assert!(steps > 6, "copy, each file out, rename, each file in: {steps}");
}

#[test]
fn a_copy_that_was_interrupted_begins_anew() {
    let folder = Folder::of_0_1();
    let mut records = 0;
    let mut broken = |index: &[u8]| {
        records += 1;
        if records > 20 { Err("power is gone".to_owned()) } else { Ok(index.to_vec()) }
    };
    let error = migrate_folder(&folder.0, config(), &mut broken).unwrap_err();
    assert!(error.to_string().ends_with("power is gone"), "{error}");
    assert!(folder.names("").contains(&UNFINISHED.to_owned()));
    migrate_folder(&folder.0, config(), &mut unchanged).unwrap();
    assert_eq!(folder.records(), 48);
    assert!(!folder.names("").contains(&UNFINISHED.to_owned()));
}

#[test]
fn a_folder_in_use_is_left_alone() {
    let folder = Folder::of_0_1();
    let _in_use = RealDisk::open(&folder.0).unwrap();
    let error = migrate_folder(&folder.0, config(), &mut unchanged).unwrap_err();
    assert!(matches!(error, MigrateFolderError::Open(OpenError::InUse { .. })), "{error}");
}
