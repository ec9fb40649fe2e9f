use super::binaries;

#[test]
fn the_targets_are_the_binaries_of_the_manifest() {
    let manifest = "[package]\nname = \"f\"\n[[bin]]\nname = \"guard\"\n[[bin]]\nname = \"frame\"\n";
    assert_eq!(binaries(manifest).unwrap(), ["guard", "frame"]);
    assert!(binaries("[package]\nname = \"f\"\n").unwrap().is_empty());
}
