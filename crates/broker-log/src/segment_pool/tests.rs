use super::*;

const SIZE: u64 = 1 << 20;

fn files(spares: &[(u32, u64)]) -> SegmentPool {
    SegmentPool::new(SIZE, 2, 100, SIZE, spares.iter().map(|(file, length)| (FileId(*file), *length)))
}

fn run_step(files: &mut SegmentPool, used: u64, pace: PreparePriority) -> Option<Prepare> {
    let step = files.next_step(used, pace, true)?;
    files.began(&step);
    files.prepared(step.file, step.offset + step.length);
    Some(step)
}

#[test]
fn spares_are_prepared_step_by_step_while_nothing_waits() {
    let mut files = files(&[]);
    let first = run_step(&mut files, 0, PreparePriority::Background).unwrap();
    assert_eq!((first.file, first.create, first.offset), (FileId(100), Some(SIZE), 0));
    let mut steps = 1;
    while run_step(&mut files, 0, PreparePriority::Background).is_some() {
        steps += 1;
    }
    assert_eq!(steps, SIZE / STEP_BYTES, "one is enough until it is taken");
    assert_eq!(files.take(SIZE), TakenFile { file: FileId(100), create: false });
    assert_eq!(files.take(SIZE), TakenFile { file: FileId(101), create: true });
}

#[test]
fn under_load_a_spare_grows_as_fast_as_the_segment_fills() {
    let mut files = files(&[]);
    let mut prepared = 0;
    for used in (0..SIZE).step_by(100_000) {
        while let Some(step) = run_step(&mut files, used, PreparePriority::KeepUp) {
            prepared += step.length;
        }
        assert!(prepared >= used, "{prepared} of {used}");
    }
    assert!(run_step(&mut files, SIZE, PreparePriority::Stopped).is_none());
    assert!(
        run_step(&mut files, SIZE, PreparePriority::KeepUp).is_none(),
        "one ready spare is enough for now"
    );
}

#[test]
fn a_segment_that_is_not_written_ahead_is_left_for_a_spare_that_is() {
    let mut files = files(&[]);
    files.take(SIZE);
    assert!(!files.is_better_left(64), "there is no spare yet");
    while run_step(&mut files, 64, PreparePriority::KeepUp).is_some() {}
    assert!(files.is_better_left(64), "it was prepared in a hurry");
    files.take(SIZE);
    assert!(!files.is_better_left(SIZE / 2));
}

#[test]
fn a_segment_that_died_is_worth_more_than_one_in_preparation() {
    let mut files = files(&[(1, SIZE)]);
    let taken = files.take(SIZE);
    run_step(&mut files, 0, PreparePriority::Background).unwrap();
    files.add(taken.file, SIZE);
    files.add(FileId(2), SIZE);
    assert_eq!(files.spares(), 2);
    assert_eq!(files.pop_file_to_delete(), Some(FileId(100)));
    assert!(files.pop_file_to_delete().is_none());
}

#[test]
fn no_more_spares_are_kept_than_wanted() {
    let mut files = files(&[(1, SIZE), (2, SIZE), (3, SIZE), (4, SIZE + SIZE / 4 + 1)]);
    assert_eq!(files.spares(), 2);
    let mut files_to_delete = [files.pop_file_to_delete().unwrap(), files.pop_file_to_delete().unwrap()];
    files_to_delete.sort();
    assert_eq!(files_to_delete, [FileId(3), FileId(4)]);
    assert!(files.pop_file_to_delete().is_none());
}

#[test]
fn more_files_are_kept_while_many_segments_may_die_at_once() {
    let mut files = files(&[]);
    let deleted = |files: &mut SegmentPool| std::iter::from_fn(|| files.pop_file_to_delete()).count();
    for (room, kept) in [(0, 2), (1, 2), (3, 3), (7, 7), (5, 5)] {
        files.set_room(room);
        (0..10).for_each(|file| files.add(FileId(file), SIZE));
        assert_eq!(files.spares(), kept, "room for {room}");
        deleted(&mut files);
    }
    files.on_idle();
    assert_eq!((files.spares(), deleted(&mut files)), (2, 3));
    files.add(FileId(20), SIZE);
    assert_eq!((files.spares(), files.pop_file_to_delete()), (2, Some(FileId(20))));
}

#[test]
fn where_no_spare_is_wanted_none_is_kept() {
    let mut files = SegmentPool::new(SIZE, 0, 100, SIZE, []);
    files.set_room(1_000);
    files.add(FileId(1), SIZE);
    assert_eq!((files.spares(), files.pop_file_to_delete()), (0, Some(FileId(1))));
}

#[test]
fn a_file_that_a_unit_overran_is_used_again() {
    let mut files = files(&[(1, SIZE + SIZE / 4)]);
    assert_eq!(files.take(SIZE), TakenFile { file: FileId(1), create: false });
}

#[test]
fn a_half_prepared_spare_is_finished() {
    let files = files(&[(7, SIZE / 2)]);
    let step = files.next_step(0, PreparePriority::Background, true).unwrap();
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
    let step = files.next_step(0, PreparePriority::Background, true).unwrap();
    files.began(&step);
    files.on_disk_full(step.file, 1000);
    assert_eq!(files.pop_file_to_delete(), Some(step.file));
    assert!(files.next_step(0, PreparePriority::Background, true).is_none());
    files.on_space_freed(1000);
    assert!(files.next_step(0, PreparePriority::Background, true).is_none(), "as little as before");
    files.on_space_freed(1000 + SIZE);
    assert!(files.next_step(0, PreparePriority::Background, true).is_some());
    assert!(
        files.next_step(0, PreparePriority::Background, false).is_none(),
        "the reserve is not for spares"
    );
}
