//! Checks of the fuzz targets, run over their stored corpora.

#[cfg(test)]
#[path = "../fuzz/checks/frame.rs"]
mod frame;
#[cfg(test)]
#[path = "../fuzz/checks/guard.rs"]
mod guard;
#[cfg(test)]
#[path = "../fuzz/checks/performatives.rs"]
mod performatives;
#[cfg(test)]
#[path = "../fuzz/checks/sections.rs"]
mod sections;

use testkit::corpus::replay;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn the_stored_corpus_of_frame_is_as_the_target_demands() {
    replay(HERE, "frame", frame::demand);
}

#[test]
fn the_stored_corpus_of_guard_is_as_the_target_demands() {
    replay(HERE, "guard", guard::demand);
}

#[test]
fn the_stored_corpus_of_performatives_is_as_the_target_demands() {
    replay(HERE, "performatives", performatives::demand);
}

#[test]
fn the_stored_corpus_of_sections_is_as_the_target_demands() {
    replay(HERE, "sections", sections::demand);
}
