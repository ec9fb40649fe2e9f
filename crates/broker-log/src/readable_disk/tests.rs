use super::{bad_sectors::BadSectors, *};
use crate::MemDisk;

const FILE: FileId = FileId(3);

/// A file of three blocks and a bit, each block full of its number, whose second block cannot be read.
fn spoiled() -> BadSectors {
    let disk = MemDisk::new();
    let contents: Vec<u8> =
        (0..3 * BLOCK_BYTES + 100).map(|at| u8::try_from(at / BLOCK_BYTES + 1).unwrap()).collect();
    disk.replace(FILE, contents);
    let disk = BadSectors::new(disk);
    disk.spoil(FILE, 1);
    disk
}

#[test]
fn an_unreadable_block_is_zeros_and_no_other_is() {
    let bad = spoiled();
    let disk = ReadableDisk::new(&bad);
    let mut buffer = vec![9; 5 * BLOCK_BYTES];
    assert_eq!(disk.read_at(FILE, 0, &mut buffer).unwrap(), 3 * BLOCK_BYTES + 100);
    for (block, expected) in [(0, 1), (1, 0), (2, 3)] {
        assert!(buffer[block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES].iter().all(|byte| *byte == expected));
    }
    assert_eq!(disk.unreadable(), [(FILE, BLOCK_BYTES as u64)]);
    assert_eq!(disk.read_at(FILE, 4095, &mut buffer[..2]).unwrap(), 2);
    assert_eq!(buffer[..2], [1, 0]);
    assert_eq!(disk.read_at(FILE, 1 << 20, &mut buffer).unwrap(), 0);
}

#[test]
fn what_is_written_into_an_unreadable_block_is_written_with_the_rest_of_it() {
    let bad = spoiled();
    let disk = ReadableDisk::new(&bad);
    disk.read_at(FILE, 0, &mut [0; 2 * BLOCK_BYTES]).unwrap();
    disk.write_at(FILE, 4_000, &[IoSlice::new(&[7; 100]), IoSlice::new(&[8; 50])]).unwrap();
    assert_eq!((bad.count_bad(), disk.unreadable().len()), (0, 0));
    let contents = bad.disk.contents(FILE).unwrap();
    let expected = [vec![1; 4_000], vec![7; 100], vec![8; 50], vec![0; 2 * BLOCK_BYTES - 4_150]].concat();
    assert!(contents[..2 * BLOCK_BYTES] == expected);
    assert_eq!((contents[2 * BLOCK_BYTES], contents.len()), (3, 3 * BLOCK_BYTES + 100));
}

#[test]
fn a_block_that_can_be_read_again_is_not_overwritten() {
    let bad = spoiled();
    let disk = ReadableDisk::new(&bad);
    disk.read_at(FILE, 0, &mut [0; 2 * BLOCK_BYTES]).unwrap();
    bad.disk.write_at(FILE, 0, &[IoSlice::new(&[5])]).unwrap();
    let other = BadSectors::new(bad.disk.clone());
    let healed =
        ReadableDisk { disk: &other, unreadable: Mutex::new(disk.unreadable().into_iter().collect()) };
    let error = healed.rewrite_unreadable().unwrap_err().to_string();
    assert!(error.contains("00000003.segment") && error.contains("offset 4096"), "{error}");
    assert_eq!(bad.disk.contents(FILE).unwrap()[BLOCK_BYTES], 2);
    disk.rewrite_unreadable().unwrap();
    assert_eq!(bad.disk.contents(FILE).unwrap()[BLOCK_BYTES], 0);
}

#[test]
fn other_errors_than_a_lost_block_are_passed_on() {
    let bad = spoiled();
    let disk = ReadableDisk::new(&bad);
    let error = disk.read_at(FileId(8), 0, &mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    for (code, lost) in [(5, true), (61, true), (74, true), (117, true), (84, true), (24, false), (12, false)]
    {
        assert_eq!(is_lost(&io::Error::from_raw_os_error(code)), lost, "{code}");
    }
}
