//! Checks of the fuzz targets on their stored corpora.

#[path = "../../fuzz/checks/engine.rs"]
mod engine;
#[path = "../../fuzz/checks/frames.rs"]
mod frames;

use testkit::corpus::replay;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn the_stored_corpus_of_engine_is_as_the_target_demands() {
    replay(HERE, "engine", engine::demand);
}

#[test]
fn the_stored_corpus_of_frames_is_as_the_target_demands() {
    replay(HERE, "frames", frames::demand);
}
