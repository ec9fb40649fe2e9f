//! Corpus tests: the checks of a fuzz target, run over its stored inputs.

use std::path::Path;

/// Has a target of the crate in the folder `crate_folder` (`env!("CARGO_MANIFEST_DIR")`) look at everything that is
/// stored for it.
///
/// # Panics
/// If the target panics, or its corpus is missing.
pub fn replay(crate_folder: &str, target: &str, demand: fn(&[u8])) {
    let folder = Path::new(crate_folder).join("fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        demand(&std::fs::read(file.expect("a file").path()).expect("its bytes"));
        count += 1;
    }
    assert!(count > 2, "the corpus of {target} is there");
}
