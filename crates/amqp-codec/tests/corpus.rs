//! What the fuzz targets demand, of their stored corpora.

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
fn the_stored_corpus_of_frame_is_as_the_target_demands() {
    replay("frame", frame::demand);
}

#[test]
fn the_stored_corpus_of_guard_is_as_the_target_demands() {
    replay("guard", guard::demand);
}

#[test]
fn the_stored_corpus_of_performatives_is_as_the_target_demands() {
    replay("performatives", performatives::demand);
}

#[test]
fn the_stored_corpus_of_sections_is_as_the_target_demands() {
    replay("sections", sections::demand);
}
