use super::*;

#[test]
fn preparation_is_as_fast_as_the_writing_leaves_time_for() {
    let mut background = BackgroundIo::new();
    assert_eq!(background.prepare_priority(), PreparePriority::Background, "nothing was written yet");
    background.on_write(LARGE_WRITE_BYTES - 1);
    assert_eq!(background.prepare_priority(), PreparePriority::KeepUp);
    background.on_write(LARGE_WRITE_BYTES);
    assert_eq!(background.prepare_priority(), PreparePriority::Stopped);
    background.on_idle();
    assert_eq!(background.prepare_priority(), PreparePriority::Background);
    assert!(!background.writes_are_small(), "an idle time changes nothing of the last write");
}
