use super::*;

#[test]
fn values_outside_their_limits_are_brought_inside() {
    let wild = JournalConfig {
        segment_bytes: 0,
        max_record_bytes: u32::MAX,
        space_factor: 0,
        spare_segments: 1000,
        ..JournalConfig::default()
    };
    let bounded = wild.bounded();
    assert_eq!(bounded.segment_bytes, SEGMENT_BYTES_MIN);
    assert_eq!(bounded.max_record_bytes, RECORD_BYTES_MAX);
    assert_eq!((bounded.space_factor, bounded.spare_segments), (2, SPARE_SEGMENTS_MAX));
    assert_eq!(JournalConfig { segment_bytes: u64::MAX, ..wild }.bounded().segment_bytes, SEGMENT_BYTES_MAX);
}

#[test]
fn the_defaults_are_inside_their_limits() {
    assert_eq!(JournalConfig::default().bounded(), JournalConfig::default());
}

#[test]
fn in_memory_segments_are_small() {
    let config = JournalConfig { durability: Durability::None, ..JournalConfig::default() };
    assert_eq!(config.bounded().segment_bytes, MEMORY_SEGMENT_BYTES);
}
