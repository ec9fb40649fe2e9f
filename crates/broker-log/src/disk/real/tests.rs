use std::{
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicU32, Ordering},
};

use super::*;
use crate::disk::BLOCK_BYTES;
use crate::disk::open_files::OPEN_FILES_MAX;

static DIRECTORIES: AtomicU32 = AtomicU32::new(0);

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("broker-log-test-{}-{number}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

const FILE: FileId = FileId(12);

#[test]
fn a_directory_in_use_is_refused_until_it_is_let_go() {
    let scratch = Scratch::new();
    let first = RealDisk::open(&scratch.0).unwrap();
    let clone = first.clone();
    drop(first);
    let error = RealDisk::open(&scratch.0).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }));
    assert!(error.to_string().ends_with("is in use by another process"), "{error}");
    drop(clone);
    assert!(RealDisk::open(&scratch.0).is_ok());
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let scratch = Scratch::new();
    fs::write(&scratch.0, b"a file").unwrap();
    let error = RealDisk::open(scratch.0.join("below")).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }));
    fs::remove_file(&scratch.0).unwrap();
}

#[test]
fn the_parent_of_each_folder_that_is_created_is_synced() {
    let scratch = Scratch::new();
    let folder = scratch.0.join("a/b");
    let mut synced = Vec::new();
    let mut note = |parent: &Path| {
        assert!(folder.exists(), "all are there before");
        synced.push(parent.to_path_buf());
        Ok(())
    };
    create_folders(&folder, &mut note).unwrap();
    create_folders(&folder, &mut note).unwrap();
    create_folders(&folder.join("c"), &mut note).unwrap();
    let above = scratch.0.parent().unwrap().to_path_buf();
    assert_eq!(synced, [above, scratch.0.clone(), scratch.0.join("a"), folder.clone()]);
    let failed = create_folders(&folder.join("d"), &mut |_| Err(io::ErrorKind::Other.into()));
    assert!(failed.is_err(), "a folder that may be gone after a crash is not used");
}

#[test]
fn bytes_written_in_parts_are_read_in_one() {
    let scratch = Scratch::new();
    let disk = RealDisk::open(&scratch.0).unwrap();
    disk.create(FILE, 1 << 16).unwrap();
    assert_eq!(disk.list().unwrap(), [(FILE, 0)], "room is set aside without changing the length");
    let parts: Vec<Vec<u8>> = (0..3000_u32).map(|n| n.to_le_bytes()[..(n % 5) as usize].to_vec()).collect();
    let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    disk.write_at(FILE, 100, &slices).unwrap();
    disk.sync_data(FILE).unwrap();
    disk.sync_dir().unwrap();
    let expected = parts.concat();
    let mut buffer = vec![0; expected.len() + 50];
    assert_eq!(disk.read_at(FILE, 100, &mut buffer).unwrap(), expected.len());
    assert_eq!(buffer[..expected.len()], expected);
    assert_eq!(disk.read_at(FILE, 1 << 30, &mut buffer).unwrap(), 0);
    assert!(disk.free_space().unwrap() > 0);
}

#[test]
fn only_segment_files_are_listed() {
    let scratch = Scratch::new();
    let disk = RealDisk::open(&scratch.0).unwrap();
    for name in ["1.segment", "00000001.segment.bak", "note.txt", "-0000001.segment", "+0000002.segment"] {
        fs::write(scratch.0.join(name), b"x").unwrap();
    }
    // The other names of the folder, each with what looks like a segment below it.
    for name in ["meta", "shard-1", "shard-63", "format-1", "migrating"] {
        fs::create_dir(scratch.0.join(name)).unwrap();
        fs::write(scratch.0.join(name).join("00000001.segment"), b"x").unwrap();
    }
    for name in ["vote", "node", "node.new", "00000001.segment-8192-0.cut"] {
        fs::write(scratch.0.join(name), b"x").unwrap();
    }
    disk.create(FILE, 0).unwrap();
    assert_eq!(disk.list().unwrap(), [(FILE, 0)]);
    disk.delete(FILE).unwrap();
    disk.delete(FILE).unwrap();
    assert!(disk.list().unwrap().is_empty());
    assert!(disk.read_at(FILE, 0, &mut [0]).is_err());
}

#[test]
fn a_file_set_aside_is_never_overwritten() {
    let scratch = Scratch::new();
    let disk = RealDisk::open(&scratch.0).unwrap();
    disk.set_aside("a.cut", b"first").unwrap();
    assert_eq!(disk.set_aside("a.cut", b"second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(scratch.0.join("a.cut")).unwrap(), b"first");
}

#[test]
fn more_files_than_are_kept_open_are_written_synced_and_read() {
    let scratch = Scratch::new();
    let disk = RealDisk::open(&scratch.0).unwrap();
    let files = u32::try_from(OPEN_FILES_MAX).unwrap() + 10;
    for number in 0..files {
        disk.create(FileId(number), 0).unwrap();
        disk.write_at(FileId(number), 0, &[IoSlice::new(&number.to_le_bytes())]).unwrap();
    }
    for number in 0..files {
        disk.sync_data(FileId(number)).unwrap();
        let mut read = [0; 4];
        assert_eq!(disk.read_at(FileId(number), 0, &mut read).unwrap(), 4);
        assert_eq!(u32::from_le_bytes(read), number);
        assert_eq!(disk.read_piece(FileId(number), 1, 2).unwrap(), number.to_le_bytes()[1..3]);
    }
    assert_eq!((disk.files().len(), disk.pieces().len()), (OPEN_FILES_MAX, OPEN_FILES_MAX));
}

#[test]
fn a_piece_is_read_as_it_was_last_written_and_not_after_the_file_is_deleted() {
    let scratch = Scratch::new();
    let disk = RealDisk::open(&scratch.0).unwrap();
    disk.create(FILE, 1 << 20).unwrap();
    for byte in [1, 2] {
        disk.append(FILE, 0, &[IoSlice::new(&[byte; 8192])]).unwrap();
        disk.sync_data(FILE).unwrap();
        assert_eq!(disk.read_piece(FILE, 8_000, 100).unwrap(), [byte; 100]);
        assert_eq!(disk.read_piece(FILE, 8_190, 100).unwrap(), [byte; 2], "the file ends there");
        assert!(disk.read_piece(FILE, 8_192, 100).unwrap().is_empty());
    }
    disk.delete(FILE).unwrap();
    assert!(disk.read_piece(FILE, 0, 1).is_err());
}

#[test]
fn large_writes_past_the_page_cache_say_the_same_as_others() {
    let scratch = Scratch::new();
    let disk = RealDisk::open(&scratch.0).unwrap();
    let body = vec![7; DONTCACHE_BYTES_MIN];
    let parts = [IoSlice::new(b"head"), IoSlice::new(&body), IoSlice::new(b"tail")];
    let length = body.len() + 8;
    for (number, past_cache) in [(1, true), (2, false)] {
        let file = FileId(number);
        disk.inner.past_cache.store(past_cache, Ordering::Relaxed);
        disk.create(file, 0).unwrap();
        disk.write_at(file, 100, &parts).unwrap();
        // Its last page is shared with the next.
        disk.write_at(file, 100 + length as u64, &parts).unwrap();
        disk.sync_data(file).unwrap();
        let mut read = vec![0; 100 + 2 * length];
        assert_eq!(disk.read_at(file, 0, &mut read).unwrap(), read.len());
        let expected = [&b"head"[..], &body, b"tail"].concat();
        assert!(read[..100].iter().all(|byte| *byte == 0));
        assert!(read[100..] == [&expected[..], &expected].concat(), "{past_cache}");
    }
}

#[test]
fn appended_bytes_are_the_same_past_the_page_cache_and_through_it() {
    let scratch = Scratch::new();
    let disk = RealDisk::open(&scratch.0).unwrap();
    let body = vec![7; 3 * BLOCK_BYTES];
    let parts = [IoSlice::new(b"head"), IoSlice::new(&body), IoSlice::new(b"tail")];
    let length = body.len() + 8;
    for (number, knows) in [(1, true), (2, false)] {
        let file = FileId(number);
        disk.create(file, 0).unwrap();
        if !knows {
            disk.direct().disable();
        }
        disk.append(file, 0, &parts).unwrap();
        disk.append(file, length as u64, &parts).unwrap();
        disk.sync_data(file).unwrap();
        // Through the page cache, between two appends.
        disk.write_at(file, 2 * length as u64 - 4, &[IoSlice::new(b"TAIL")]).unwrap();
        disk.append(file, 2 * length as u64, &parts).unwrap();
        disk.sync_data(file).unwrap();
        let mut read = vec![1; 3 * length + BLOCK_BYTES];
        let there = disk.read_at(file, 0, &mut read).unwrap();
        assert!((3 * length..=(3 * length).next_multiple_of(BLOCK_BYTES)).contains(&there), "{there}");
        let once = [&b"head"[..], &body, b"tail"].concat();
        let second = [&b"head"[..], &body, b"TAIL"].concat();
        assert!(read[..3 * length] == [&once[..], &second, &once].concat(), "{knows}");
        assert!(read[3 * length..there].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_file_that_is_created_anew_is_another_one() {
    let scratch = Scratch::new();
    let disk = RealDisk::open(&scratch.0).unwrap();
    for life in [b"first", b"other"] {
        disk.create(FILE, 0).unwrap();
        disk.append(FILE, 0, &[IoSlice::new(life)]).unwrap();
        disk.append(FILE, 5, &[IoSlice::new(b" life")]).unwrap();
        let mut read = [0; 10];
        disk.read_at(FILE, 0, &mut read).unwrap();
        assert_eq!(read, *[&life[..], b" life"].concat());
        disk.delete(FILE).unwrap();
    }
}

/// A disk that has [`FILE`] open, where it was and where it is now.
fn moved_aside() -> (Scratch, RealDisk, [PathBuf; 2]) {
    let scratch = Scratch::new();
    let disk = RealDisk::open(&scratch.0).unwrap();
    disk.create(FILE, 0).unwrap();
    let places = [disk.path(FILE), scratch.0.join("aside")];
    fs::rename(&places[0], &places[1]).unwrap();
    (scratch, disk, places)
}

#[test]
fn a_file_that_cannot_be_reopened_is_appended_through_the_open_handle() {
    let (_scratch, disk, [path, aside]) = moved_aside();
    disk.append(FILE, 0, &[IoSlice::new(b"one ")]).unwrap();
    assert!(!disk.direct().is_disabled());
    // Then it can.
    fs::rename(&aside, &path).unwrap();
    disk.append(FILE, 4, &[IoSlice::new(b"two")]).unwrap();
    disk.sync_data(FILE).unwrap();
    let mut read = [0; 7];
    disk.read_at(FILE, 0, &mut read).unwrap();
    assert_eq!(read, *b"one two");
}

#[test]
fn where_nothing_is_written_past_the_page_cache_all_goes_through_it() {
    let (_scratch, disk, [path, aside]) = moved_aside();
    // It cannot be opened with `O_DIRECT`: `EINVAL`, as on a file system that does not know how.
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    disk.append(FILE, 0, &[IoSlice::new(b"one ")]).unwrap();
    assert!(disk.direct().is_disabled());
    disk.append(FILE, 4, &[IoSlice::new(b"two")]).unwrap();
    disk.sync_data(FILE).unwrap();
    assert_eq!(fs::read(aside).unwrap(), b"one two", "and without zeros behind");
}

/// The permission bits of a file or folder.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn created_files_can_be_read_by_their_owner_only() {
    let scratch = Scratch::new();
    let folder = scratch.0.join("a/b");
    let disk = RealDisk::open(&folder).unwrap();
    disk.create(FILE, 1 << 12).unwrap();
    disk.set_aside("a.cut", b"cut").unwrap();
    for path in [scratch.0.as_path(), &scratch.0.join("a"), &folder] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    for name in [LOCK_FILE, &FILE.to_string(), "a.cut"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
    assert_eq!(disk.exposure().unwrap(), Exposure::default());
}

#[test]
fn files_that_others_can_read_are_counted_and_stay_as_they_are() {
    let cases = [
        // folder, its only file, folder is exposed, files are exposed
        (0o700, 0o600, false, false),
        (0o500, 0o400, false, false),
        (0o755, 0o600, true, false),
        (0o710, 0o600, true, false),
        (0o701, 0o600, true, false),
        (0o700, 0o640, false, true),
        (0o700, 0o604, false, true),
        (0o777, 0o666, true, true),
    ];
    for case @ (folder_mode, file_mode, folder_exposed, file_exposed) in cases {
        let scratch = Scratch::new();
        let disk = RealDisk::open(&scratch.0).unwrap();
        disk.create(FILE, 0).unwrap();
        let path = disk.path(FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(file_mode)).unwrap();
        fs::set_permissions(&scratch.0, fs::Permissions::from_mode(folder_mode)).unwrap();
        let found = disk.exposure().unwrap();
        assert_eq!(found.folder, folder_exposed.then_some(folder_mode), "{case:?}");
        let first = file_exposed.then(|| (path.clone(), file_mode));
        assert_eq!((found.files, found.first_file), (u64::from(file_exposed), first), "{case:?}");
        assert_eq!((mode(&scratch.0), mode(&path)), (folder_mode, file_mode), "{case:?}");
        fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn a_file_without_room_for_it_is_not_left() {
    let scratch = Scratch::new();
    let disk = RealDisk::open(&scratch.0).unwrap();
    // More than any file system here has: `ENOSPC` or `EFBIG`.
    for _ in 0..3 {
        disk.create(FILE, 1 << 60).unwrap_err();
        assert!(disk.list().unwrap().is_empty());
    }
    disk.create(FILE, 1 << 12).unwrap();
    assert_eq!(disk.list().unwrap(), [(FILE, 0)]);
}
