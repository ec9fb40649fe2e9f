use std::path::PathBuf;

use super::{BESIDES, Findings, TOP, check};

/// A file in each place that the top level has, but for `without`.
fn tree(without: &str) -> Vec<PathBuf> {
    let names = TOP.iter().chain(&BESIDES).filter(|name| **name != without);
    names.map(|name| PathBuf::from(name).join("file")).collect()
}

fn found(files: &[PathBuf]) -> Vec<String> {
    let mut findings = Findings::default();
    check(files, &mut findings);
    findings.broken.iter().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
}

#[test]
fn a_stranger_at_the_top_is_found() {
    let mut files = tree("");
    files.extend([".gitignore".into(), "scripts/a.sh".into(), "notes.md".into()]);
    assert_eq!(found(&files), ["notes.md", "scripts"]);
}

#[test]
fn missing_files_of_the_top_folder_are_found() {
    assert_eq!(found(&tree("")), [""; 0]);
    for name in TOP.iter().chain(&BESIDES) {
        assert_eq!(found(&tree(name)), [*name]);
    }
}
