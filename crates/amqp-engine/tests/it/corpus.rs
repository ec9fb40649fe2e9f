//! What the fuzz targets demand, of their stored corpora.

#[path = "../../fuzz/checks/engine.rs"]
mod engine;
#[path = "../../fuzz/checks/frames.rs"]
mod frames;

use std::path::Path;

/// Has a target look at everything that is stored for it.
fn replay(target: &str, demand: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        demand(&std::fs::read(file.expect("a file").path()).expect("its bytes"));
        count += 1;
    }
    assert!(count > 2, "the corpus of {target} is there");
}

#[test]
fn the_stored_corpus_of_engine_is_as_the_target_demands() {
    replay("engine", engine::demand);
}

#[test]
fn the_stored_corpus_of_frames_is_as_the_target_demands() {
    replay("frames", frames::demand);
}
