use super::*;
use crate::MemDisk;

#[test]
fn an_empty_directory_is_a_whole_journal() {
    let report = check(&MemDisk::new()).unwrap();
    assert_eq!((report.records, report.losses.len(), report.segments.len()), (0, 0, 0));
}
