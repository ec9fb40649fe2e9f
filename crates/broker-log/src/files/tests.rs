use super::*;

const SIZE: u64 = 1 << 20;

fn files(spares: &[(u32, u64)]) -> Files {
    let current = Preparing { file: FileId(0), create: false, done: SIZE };
    Files::new(SIZE, 2, 100, current, spares.iter().map(|(file, length)| (FileId(*file), *length)))
}

fn run_step(files: &mut Files, used: u64, idle: bool) -> Option<Prepare> {
    let step = files.next_step(used, idle, true)?;
    files.began(&step);
    files.prepared(step.file, step.offset + step.length);
    Some(step)
}

#[test]
fn spares_are_prepared_step_by_step_while_nothing_waits() {
    let mut files = files(&[]);
    let first = run_step(&mut files, 0, true).unwrap();
    assert_eq!((first.file, first.create, first.offset), (FileId(100), Some(SIZE), 0));
    let mut steps = 1;
    while run_step(&mut files, 0, true).is_some() {
        steps += 1;
    }
    assert_eq!(steps, 2 * SIZE / STEP_BYTES);
    assert_eq!(files.take(SIZE), Taken { file: FileId(100), create: false });
    assert_eq!(files.take(SIZE), Taken { file: FileId(101), create: false });
    assert_eq!(files.take(SIZE), Taken { file: FileId(102), create: true });
}

#[test]
fn under_load_a_spare_grows_as_fast_as_the_segment_fills() {
    let mut files = files(&[]);
    let mut prepared = 0;
    for used in (0..SIZE).step_by(100_000) {
        while let Some(step) = run_step(&mut files, used, false) {
            prepared += step.length;
        }
        assert!(prepared >= used, "{prepared} of {used}");
    }
    assert!(run_step(&mut files, SIZE, false).is_none(), "one ready spare is enough for now");
}

#[test]
fn the_newest_segment_is_prepared_first() {
    let mut files = files(&[]);
    let taken = files.take(SIZE);
    let step = files.next_step(64, true, true).unwrap();
    assert_ne!(step.file, taken.file, "nothing is prepared behind a writer that overtook it");
    files.written(64);
    let step = files.next_step(64, true, true).unwrap();
    assert_eq!((step.file, step.offset, step.create), (taken.file, 64, None));
    files.prepared(step.file, step.offset + step.length);
    assert_eq!(files.current_bytes(), 64 + STEP_BYTES);
}

#[test]
fn no_more_spares_are_kept_than_wanted() {
    let mut files = files(&[(1, SIZE), (2, SIZE), (3, SIZE), (4, 2 * SIZE)]);
    assert_eq!(files.spares(), 2);
    let mut condemned = [files.pop_condemned().unwrap(), files.pop_condemned().unwrap()];
    condemned.sort();
    assert_eq!(condemned, [FileId(3), FileId(4)]);
    assert!(files.pop_condemned().is_none());
}

#[test]
fn a_half_prepared_spare_is_finished() {
    let files = files(&[(7, SIZE / 2)]);
    let step = files.next_step(0, true, true).unwrap();
    assert_eq!((step.file, step.offset, step.create), (FileId(7), SIZE / 2, None));
}

#[test]
fn a_larger_segment_gets_a_file_of_its_own() {
    let mut files = files(&[(1, SIZE)]);
    assert!(files.take(SIZE + 1).create);
    assert_eq!(files.spares(), 1);
}

#[test]
fn after_running_out_of_space_nothing_is_prepared_until_there_is_more() {
    let mut files = files(&[]);
    let step = files.next_step(0, true, true).unwrap();
    files.began(&step);
    files.starve(step.file, 1000);
    assert_eq!(files.pop_condemned(), Some(step.file));
    assert!(files.next_step(0, true, true).is_none());
    files.relieve(1000);
    assert!(files.next_step(0, true, true).is_none(), "as little as before");
    files.relieve(1000 + SIZE);
    assert!(files.next_step(0, true, true).is_some());
    assert!(files.next_step(0, true, false).is_none(), "the reserve is not for spares");
}
