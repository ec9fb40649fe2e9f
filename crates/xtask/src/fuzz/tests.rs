use super::{binaries, runs};

#[test]
fn the_targets_are_the_binaries_of_the_manifest() {
    let manifest = "[package]\nname = \"f\"\n[[bin]]\nname = \"guard\"\n[[bin]]\nname = \"frame\"\n";
    assert_eq!(binaries(manifest).unwrap(), ["guard", "frame"]);
    assert!(binaries("[package]\nname = \"f\"\n").unwrap().is_empty());
}

#[test]
fn the_number_of_runs_is_read_from_the_final_statistics() {
    assert_eq!(runs("Done\nstat::number_of_executed_units: 4096\nstat::x: 1\n"), Some(4096));
    assert_eq!(runs("Done\n"), None);
}
