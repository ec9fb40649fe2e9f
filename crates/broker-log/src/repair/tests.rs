use crate::{
    DamageKind, Disk, DiskWorker, FileId, Journal, JournalConfig, MemDisk, Position, RecoveryError, check,
    format::{BATCH_MAGIC, RecordHeader},
    readable_disk::bad_sectors::BadSectors,
    recover, repair,
    segments::Segment,
    writer::{Watermarks, Writer, WrittenBy},
};

type Records = Vec<(Position, Vec<u8>)>;

fn config() -> JournalConfig {
    JournalConfig {
        segment_bytes: 8 << 10,
        cache_bytes: 0,
        spare_segments: 1,
        reserve_bytes: 0,
        ..JournalConfig::default()
    }
}

fn open(disk: &MemDisk) -> Result<(Journal, Records), RecoveryError> {
    let mut found = Vec::new();
    let journal = recover(disk.clone(), config(), &mut |at, record| {
        found.push((at, record.full().map(|bytes| bytes.to_vec()).unwrap_or_default()));
    })?;
    Ok((journal, found))
}

/// A journal of several segments, each batch of three records; the process was killed.
fn filled() -> (MemDisk, Records) {
    let disk = MemDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    let mut worker = DiskWorker::new(disk.clone());
    let mut records = Vec::new();
    for round in 0..40_u32 {
        for part in 0..3_u8 {
            let body = vec![part; 100 + (round as usize * 17) % 200];
            let (at, _) = journal.append(&round.to_le_bytes(), &[&body]);
            records.push((at, [&round.to_le_bytes()[..], &body].concat()));
        }
        let until = journal.commit();
        journal.request_sync(until);
        while let Some(request) = journal.poll_io() {
            journal.handle_io(worker.perform(request));
        }
    }
    assert!(journal.stats().segments > 3);
    (disk, records)
}

/// The file and offset of a record, and whether its segment has a successor.
fn place(disk: &MemDisk, at: Position) -> (FileId, usize) {
    let report = check(disk).unwrap();
    let segment = report.segments.iter().rfind(|segment| segment.begin <= at).unwrap();
    (segment.file, usize::try_from(at.0 - segment.begin.0).unwrap())
}

fn flip(disk: &MemDisk, file: FileId, offset: usize) {
    let mut contents = disk.contents(file).unwrap();
    contents[offset] ^= 0x10;
    disk.replace(file, contents);
}

fn zero(disk: &MemDisk, file: FileId, from: usize, length: usize) {
    let mut contents = disk.contents(file).unwrap();
    contents[from..from + length].fill(0);
    disk.replace(file, contents);
}

/// Offset of the batch header before `offset`.
fn batch_before(disk: &MemDisk, file: FileId, offset: usize) -> usize {
    let contents = disk.contents(file).unwrap();
    (0..offset / 64)
        .rev()
        .map(|block| block * 64)
        .find(|at| contents[*at..].starts_with(&BATCH_MAGIC))
        .unwrap()
}

#[test]
fn an_intact_journal_is_reported_whole_and_left_alone() {
    let (disk, records) = filled();
    let report = check(&disk).unwrap();
    assert_eq!(report.records, records.len() as u64);
    assert!(report.losses.is_empty() && report.unfinished.is_none());
    assert!(report.segments.iter().rev().skip(1).all(|segment| segment.has_summary));
    let before: Vec<_> = disk.list().unwrap().into_iter().map(|(file, _)| disk.contents(file)).collect();
    let repaired = repair(&disk).unwrap();
    assert_eq!((repaired.before, repaired.kept.len()), (report, 0));
    let after: Vec<_> = disk.list().unwrap().into_iter().map(|(file, _)| disk.contents(file)).collect();
    assert_eq!(before, after);
}

#[test]
fn the_marks_say_how_many_batches_are_missing() {
    let (disk, records) = filled();
    let whole = check(&disk).unwrap();
    let of = |number: usize| whole.segments[number].clone();
    let segment_of =
        |at: Position| whole.segments.iter().rfind(|segment| segment.begin <= at).map(|segment| segment.file);
    // Two batches of a full segment, one behind the other, are zeros.
    let inside: Vec<Position> =
        records.iter().map(|(at, _)| *at).filter(|at| segment_of(*at) == Some(of(1).file)).collect();
    let (file, from) = place(&disk, inside[3]);
    let (_, to) = place(&disk, inside[9]);
    zero(&disk, file, from - 12, to - from - 64);
    let report = check(&disk).unwrap();
    let [loss] = &report.losses[..] else { panic!("{report:?}") };
    assert_eq!(loss.batches, Some(2), "{loss:?}");

    // A whole segment is gone.
    let (disk, _) = filled();
    disk.delete(of(1).file).unwrap();
    let report = check(&disk).unwrap();
    let [loss] = &report.losses[..] else { panic!("{report:?}") };
    assert_eq!(loss.batches, Some(of(1).batches), "{loss:?}");

    // The mark itself is damaged: the segment before it says its number.
    let (disk, _) = filled();
    flip(&disk, of(1).file, 64 + 80);
    let report = check(&disk).unwrap();
    let [loss] = &report.losses[..] else { panic!("{report:?}") };
    assert_eq!((loss.batches, loss.records), (Some(1), Some(0)), "{loss:?}");
}

#[test]
fn a_flipped_bit_costs_one_record_and_no_other() {
    // Records of the first, a middle and the newest segment.
    for victim in [0_usize, 4, 61, 116] {
        let (disk, mut records) = filled();
        let (at, _) = records[victim];
        let (file, offset) = place(&disk, at);
        flip(&disk, file, offset + 40);
        let report = check(&disk).unwrap();
        let [loss] = &report.losses[..] else { panic!("{victim}: {report:?}") };
        assert_eq!((loss.records, loss.savable), (Some(3), 2), "{victim}: {loss:?}");
        assert!(loss.damage.position <= at && at < loss.to);
        assert_eq!(loss.damage.file, Some(file));
        let repaired = repair(&disk).unwrap();
        assert!(repaired.after.losses.is_empty(), "{victim}: {:?}", repaired.after);
        assert_eq!(repaired.after.lost_records, 1);
        assert!(!repaired.kept.is_empty());
        records.remove(victim);
        let (mut journal, found) = open(&disk).unwrap();
        assert_eq!(found, records, "{victim}");
        for (at, bytes) in &records {
            assert_eq!(&journal.read(*at, u32::try_from(bytes.len()).unwrap()).unwrap()[..], bytes);
        }
        assert!(journal.read(at, 5).is_err());
    }
}

#[test]
fn a_summary_that_calls_itself_data_is_not_shown_as_a_record() {
    const SUMMARY: u8 = 2;
    let (disk, records) = filled();
    let mut changed = 0;
    for segment in check(&disk).unwrap().segments {
        let mut contents = disk.contents(segment.file).unwrap();
        for batch in (64..contents.len()).step_by(64) {
            if contents[batch..].starts_with(&BATCH_MAGIC) && contents[batch + 4] == SUMMARY {
                contents[batch + 4] = 1;
                changed += 1;
            }
        }
        disk.replace(segment.file, contents);
    }
    assert!(changed > 2, "{changed}");
    repair(&disk).unwrap();
    assert_eq!(open(&disk).unwrap().1, records);
}

#[test]
fn damage_in_the_newest_segment_is_refused_with_its_place() {
    let (disk, records) = filled();
    let (file, offset) = place(&disk, records[115].0);
    flip(&disk, file, offset + 40);
    let Err(RecoveryError::Damaged(damage)) = open(&disk) else { panic!("it opened") };
    assert_eq!(damage.file, Some(file));
    assert_eq!(damage.offset, batch_before(&disk, file, offset) as u64);
    assert!(damage.durable > records[115].0);
    let text = RecoveryError::Damaged(damage).to_string();
    assert!(text.contains(&file.to_string()) && text.contains("offset"), "{text}");
}

#[test]
fn a_destroyed_batch_header_costs_its_batch_and_no_other() {
    for victim in [0_usize, 63, 108] {
        let (disk, records) = filled();
        let (file, offset) = place(&disk, records[victim].0);
        zero(&disk, file, batch_before(&disk, file, offset), 64);
        let repaired = repair(&disk).unwrap();
        assert!(repaired.after.losses.is_empty(), "{:?}", repaired.after);
        let (_, found) = open(&disk).unwrap();
        let expected: Records = records
            .iter()
            .enumerate()
            .filter(|(n, _)| n / 3 != victim / 3)
            .map(|(_, one)| one.clone())
            .collect();
        assert_eq!(found.len(), expected.len(), "{victim}");
        assert_eq!(found, expected);
    }
}

#[test]
fn a_destroyed_segment_header_costs_nothing() {
    for number in 0..3 {
        let (disk, records) = filled();
        let segment = check(&disk).unwrap().segments[number].clone();
        zero(&disk, segment.file, 0, 64);
        assert!(matches!(open(&disk), Err(RecoveryError::Damaged(_))), "{number}");
        let repaired = repair(&disk).unwrap();
        assert_eq!(repaired.before.losses.len(), 1, "{number}: {:?}", repaired.before);
        assert!(repaired.after.losses.is_empty(), "{number}: {:?}", repaired.after);
        assert_eq!(open(&disk).unwrap().1, records, "{number}");
    }
}

#[test]
fn the_newest_segment_with_a_destroyed_header_is_refused_not_forgotten() {
    let (disk, records) = filled();
    let segment = check(&disk).unwrap().segments.last().unwrap().clone();
    zero(&disk, segment.file, 0, 64);
    assert!(matches!(open(&disk), Err(RecoveryError::Damaged(_))));
    repair(&disk).unwrap();
    assert_eq!(open(&disk).unwrap().1, records);
}

#[test]
fn a_missing_segment_costs_its_records_and_no_others() {
    for number in 0..3 {
        let (disk, records) = filled();
        let segment = check(&disk).unwrap().segments[number].clone();
        disk.delete(segment.file).unwrap();
        assert!(matches!(open(&disk), Err(RecoveryError::Damaged(_))), "{number}");
        let repaired = repair(&disk).unwrap();
        assert!(repaired.after.losses.is_empty(), "{number}: {:?}", repaired.after);
        let (_, found) = open(&disk).unwrap();
        let expected: Records =
            records.iter().filter(|(at, _)| *at < segment.begin || *at >= segment.end).cloned().collect();
        assert_eq!(found, expected, "{number}");
    }
}

#[test]
fn a_damaged_summary_is_not_needed() {
    let (disk, records) = filled();
    let segment = check(&disk).unwrap().segments[1].clone();
    let end = usize::try_from(segment.end.0 - segment.begin.0).unwrap();
    let summary = batch_before(&disk, segment.file, end - 64);
    flip(&disk, segment.file, summary + 90);
    // The chain through the summary is broken: that is damage, and nothing is lost by it.
    assert!(matches!(open(&disk), Err(RecoveryError::Damaged(_))));
    let repaired = repair(&disk).unwrap();
    assert!(repaired.after.losses.is_empty(), "{:?}", repaired.after);
    assert_eq!(open(&disk).unwrap().1, records);
}

#[test]
fn what_a_repair_overwrites_is_kept_beside_the_journal() {
    let (disk, records) = filled();
    let (file, offset) = place(&disk, records[115].0);
    flip(&disk, file, offset + 40);
    let batch = batch_before(&disk, file, offset);
    let damaged = disk.contents(file).unwrap();
    let repaired = repair(&disk).unwrap();
    assert_eq!(repaired.kept, [format!("{file}-{batch}-0.cut")]);
    let kept = disk.aside(&repaired.kept[0]).unwrap();
    assert!(kept.len() > 300 && kept == damaged[batch..batch + kept.len()]);
}

/// A segment with one record at `base`, written behind batches that are missing.
fn far_away(disk: &MemDisk, base: u64, tail: u64) -> (Position, Vec<u8>) {
    let file = FileId(900);
    let segment = Segment::begin(0, file, base, 3);
    let mut writer = Writer::new(base, 77, 5_000);
    let marks = Watermarks { synced: base, tail };
    writer.begin_segment(&segment, marks, None, &WrittenBy::default());
    let content = b"far away".to_vec();
    let header = RecordHeader::of(segment.seed, 8, &content, &[]);
    let at = writer.next_record(&segment);
    writer.add_part(bytes::Bytes::copy_from_slice(&header.encode()));
    writer.add_part(content.clone().into());
    writer.add_record(&header);
    writer.seal(&segment, marks);
    disk.replace(file, writer.next_group(|_| true).unwrap().parts.concat());
    (Position(at), content)
}

#[test]
fn a_missing_stretch_of_any_length_is_bridged() {
    const GIB: u64 = 1 << 30;
    for length in [64 * 3, GIB, 2 * GIB, 2 * GIB + 64, 4 * GIB, 4 * GIB + 64, 4 * GIB + 128, 11 * GIB] {
        // The newest segment is damaged at its end, and it is whole and sealed.
        for whole in [false, true] {
            let (disk, mut records) = filled();
            let report = check(&disk).unwrap();
            let end = if whole {
                let newest = report.segments.last().unwrap();
                disk.delete(newest.file).unwrap();
                records.retain(|(at, _)| *at < newest.begin);
                newest.begin.0
            } else {
                report.end.0
            };
            records.push(far_away(&disk, end + length, report.tail.0));
            let repaired = repair(&disk).unwrap();
            assert_eq!(repaired.before.losses.len(), 1, "{length}: {:?}", repaired.before);
            assert!(repaired.after.losses.is_empty(), "{length}: {:?}", repaired.after);
            assert_eq!(open(&disk).unwrap().1, records, "{length}, {whole}");
        }
    }
}

#[test]
fn an_unreadable_sector_costs_the_batches_in_it_and_no_others() {
    // One block at a time, of each file: segments with and without a successor, and those that hold nothing.
    let blocks: Vec<(FileId, u64)> = filled().0.list().unwrap();
    for (file, length) in blocks {
        for block in 0..length / 4096 {
            let case = format!("{file}, block {block}");
            let (disk, records) = filled();
            let whole = check(&disk).unwrap();
            let segment = whole.segments.iter().find(|segment| segment.file == file);
            if segment.is_none() && block > 0 {
                // Nobody reads it.
                continue;
            }
            let bad = BadSectors::new(disk.clone());
            bad.spoil(file, block);
            let report = check(&bad).unwrap();
            let named =
                report.losses.iter().find(|loss| loss.damage.fault == DamageKind::Unreadable).unwrap();
            assert_eq!(named.damage.file, Some(file), "{case}");
            assert!(named.damage.offset < (block + 1) * 4096, "{case}: {named:?}");
            let repaired = repair(&bad).unwrap();
            assert!(repaired.after.losses.is_empty() && bad.count_bad() == 0, "{case}: {:?}", repaired.after);
            let (_, found) = open(&disk).unwrap();
            let begin = segment.map(|segment| segment.begin.0 + block * 4096);
            // A batch has three records of at most 320 bytes.
            let near = |at: u64| begin.is_some_and(|begin| at + 1_000 > begin && at < begin + 4096 + 1_000);
            let expected: Records = records.iter().filter(|(at, _)| !near(at.0)).cloned().collect();
            assert!(expected.iter().all(|record| found.contains(record)), "{case}");
            assert!(found.iter().all(|record| records.contains(record)), "{case}");
        }
    }
}

#[test]
fn a_start_that_cannot_read_names_the_file_and_the_offset() {
    let (disk, _) = filled();
    let newest = check(&disk).unwrap().segments.pop().unwrap();
    let bad = BadSectors::new(disk);
    bad.spoil(newest.file, 0);
    let error = recover(bad, config(), &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains(&newest.file.to_string()) && error.contains("at offset 0"), "{error}");
}

#[test]
fn a_start_passes_over_an_unreadable_file_where_the_newest_segment_has_room() {
    let (disk, records) = filled();
    let report = check(&disk).unwrap();
    let idle = disk
        .list()
        .unwrap()
        .into_iter()
        .find(|(file, _)| report.segments.iter().all(|one| one.file != *file));
    let idle = idle.unwrap().0;
    let bad = BadSectors::new(disk);
    bad.spoil(idle, 0);
    let mut found = 0;
    let mut journal = recover(bad.clone(), config(), &mut |_, _| found += 1).unwrap();
    assert_eq!(found, records.len());
    let mut worker = DiskWorker::new(bad.clone());
    for _ in 0..20 {
        journal.append(&[1; 900], &[]);
        let until = journal.commit();
        journal.request_sync(until);
        while let Some(request) = journal.poll_io() {
            journal.handle_io(worker.perform(request));
        }
    }
    assert!(journal.poisoned().is_none(), "{:?}", journal.poisoned());
    assert_eq!(bad.count_bad(), 1, "the file is not used");
    drop(journal);
    recover(bad, config(), &mut |_, _| {}).unwrap();
}

#[test]
fn a_start_refuses_an_unreadable_file_that_may_be_the_newest_segment() {
    let (disk, _) = filled();
    let segments = check(&disk).unwrap().segments;
    let newest = segments.last().unwrap().file;
    for segment in segments {
        let bad = BadSectors::new(disk.snapshot());
        if segment.file == newest {
            // Nothing of it can be read: the one before it is sealed, and it may follow.
            (0..4).for_each(|block| bad.spoil(newest, block));
        }
        bad.spoil(segment.file, 0);
        let refused = recover(bad, config(), &mut |_, _| {}).unwrap_err();
        assert!(matches!(refused, RecoveryError::Disk { .. }), "{refused}");
        assert!(refused.to_string().contains(&segment.file.to_string()), "{refused}");
    }
}

#[test]
fn a_torn_tail_is_reported_as_unfinished_not_as_damage() {
    let (disk, records) = filled();
    let (file, offset) = place(&disk, records[119].0);
    flip(&disk, file, offset + 40);
    let report = check(&disk).unwrap();
    assert!(report.losses.is_empty(), "{report:?}");
    assert_eq!(report.records, 117);
    assert_eq!(open(&disk).unwrap().1, records[..117]);
}
