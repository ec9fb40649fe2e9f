use super::*;

fn any_file() -> io::Result<File> {
    File::open("/dev/null")
}

fn never() -> io::Result<File> {
    Err(io::Error::other("it is open"))
}

#[test]
fn the_file_that_was_not_used_for_longest_makes_room() {
    let mut files = OpenFiles::default();
    let last = u32::try_from(OPEN_FILES_MAX).unwrap();
    for number in 0..last {
        files.get(FileId(number), any_file).unwrap();
    }
    files.get(FileId(0), never).unwrap();
    files.get(FileId(last), any_file).unwrap();
    for number in (2..=last).chain([0]) {
        files.get(FileId(number), never).unwrap();
    }
    assert!(files.get(FileId(1), never).is_err(), "of all others it was not used for longest");
}

#[test]
fn a_file_that_was_removed_or_could_not_be_opened_is_opened_again() {
    let mut files = OpenFiles::default();
    assert!(files.get(FileId(1), never).is_err());
    files.get(FileId(1), any_file).unwrap();
    files.remove(FileId(1));
    assert!(files.get(FileId(1), never).is_err());
}
