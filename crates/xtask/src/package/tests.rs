use super::*;

#[test]
fn the_licence_keeps_its_text_and_has_debians_form() {
    let copyright = copyright("One line.\n\n  Another.\n");
    assert!(
        copyright.ends_with("License: Apache-2.0 or Expat\n One line.\n .\n   Another.\n"),
        "{copyright}"
    );
}

#[test]
fn a_file_is_put_with_its_mode_and_counted() {
    let folder = std::env::temp_dir().join(format!("ferrybus-package-{}", std::process::id()));
    let workspace = Workspace::find().unwrap();
    let tree = Tree { workspace: &workspace, root: &folder };
    tree.put("usr/bin/x", b"12345", 0o755).unwrap();
    tree.put("etc/y", b"123", 0o644).unwrap();
    let mode = fs::metadata(folder.join("usr/bin/x")).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, size(&folder).unwrap()), (0o755, 8));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_unit_starts_what_the_package_installs() {
    let workspace = Workspace::find().unwrap();
    let unit = workspace.read(format!("{FILES}/ferrybus.service")).unwrap();
    assert!(unit.contains(&format!("ExecStart=/usr/bin/ferrybus serve --config {}", CONFFILES[0])), "{unit}");
    assert!(unit.contains("StateDirectory=ferrybus"), "{unit}");
}
