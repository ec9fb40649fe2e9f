//! Checks of the fuzz targets, run over their stored corpora.

#[cfg(test)]
#[path = "../fuzz/checks/recovery.rs"]
mod recovery;
#[cfg(test)]
#[path = "../fuzz/checks/segment.rs"]
mod segment;

use testkit::corpus::replay;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn the_stored_corpus_of_recovery_is_as_the_target_demands() {
    replay(HERE, "recovery", recovery::demand);
}

#[test]
fn the_stored_corpus_of_segment_is_as_the_target_demands() {
    replay(HERE, "segment", segment::demand);
}
