use super::*;
use crate::{FileId, format::Seed};

fn segment(number: u64, base: u64) -> Segment {
    let seed = Seed::of(base);
    Segment { number, file: FileId(0), base, end: base + 64, incarnation: base, seed, file_bytes: 0, live: 0 }
}

const MARKS: Watermarks = Watermarks { synced: 0, tail: 0 };

fn add(writer: &mut Writer, segment: &Segment, bytes: &'static [u8]) -> u64 {
    let at = writer.next_record(segment);
    let header = RecordHeader::of(segment.seed, u32::try_from(bytes.len()).unwrap(), bytes, &[]);
    writer.add_part(Bytes::copy_from_slice(&header.encode()));
    writer.add_part(Bytes::from_static(bytes));
    writer.add_record(&header);
    at
}

#[test]
fn batches_begin_at_multiples_of_64_and_chain() {
    let first = segment(0, 0);
    let mut writer = Writer::new(64, 7, 0);
    assert_eq!(add(&mut writer, &first, b"hello"), 128);
    assert_eq!(add(&mut writer, &first, b"again"), 145);
    writer.seal(&first, MARKS);
    assert_eq!(writer.end, 192);
    writer.push_empty(&first, MARKS, BatchKind::Data, 0);
    let group = writer.next_group(|_| true).unwrap();
    let bytes: Vec<u8> = group.parts.concat();
    assert_eq!((group.position, bytes.len(), group.records), (64, 192, 2));
    let one = BatchHeader::decode(bytes.first_chunk().unwrap()).unwrap();
    let two = BatchHeader::decode(bytes[128..].first_chunk().unwrap()).unwrap();
    assert_eq!((one.previous, one.count, one.length, one.position), (7, 2, 98, 64));
    assert_eq!((two.count, two.length, two.position), (0, 64, 192));
    assert_eq!(two.previous.to_le_bytes(), bytes[60..64]);
}

#[test]
fn one_write_is_outstanding_and_none_crosses_segments() {
    let (first, second) = (segment(0, 0), segment(1, 128));
    let mut writer = Writer::new(64, 0, 9);
    writer.push_empty(&first, MARKS, BatchKind::Seal, 0);
    writer.begin_segment(&second, MARKS, Some(4096), &WrittenBy { shard: 1, node: 2, time: 3 });
    writer.push_empty(&second, MARKS, BatchKind::Data, 0);
    let group = writer.next_group(|_| false).unwrap();
    assert_eq!((group.position, group.create, group.outstanding.end), (64, None, 128));
    assert!(writer.is_writing() && writer.next_group(|_| true).is_none());
    assert_eq!(writer.finish().unwrap().end, 128);
    let group = writer.next_group(|_| true).unwrap();
    assert_eq!((group.position, group.create, group.outstanding.end), (128, Some(4096), 448));
    let bytes: Vec<u8> = group.parts.concat();
    let mark = Mark::decode(&bytes[64 + 64 + 12..][..60]).unwrap();
    assert_eq!(mark, Mark { shard: 1, number: 11, node: 2, time: 3 }, "the seal is batch 10");
    assert_eq!(writer.number, 12);
    assert_eq!(group.records, 0, "what the journal writes of its own");
    writer.finish();
    assert!(!writer.has_pending() && writer.next_group(|_| true).is_none());
}

#[test]
#[should_panic(expected = "a unit of 4294967307 bytes")]
fn a_unit_longer_than_a_header_can_say_is_refused() {
    let segment = segment(0, 0);
    let mut writer = Writer::new(64, 0, 9);
    let rest = u32::MAX - 64 - 12;
    for length in [rest, 0] {
        writer.next_record(&segment);
        writer.add_record(&RecordHeader::unchecked(length, &[]));
    }
}
