use super::*;

#[test]
fn the_licence_keeps_its_text_and_has_debians_form() {
    let licence = "Either.\n\n====\nMIT License\n====\n\nOne line.\n\n  Another.\n\n====\nApache License\n====\nLong.\n";
    let copyright = copyright(licence).unwrap();
    assert!(copyright.ends_with("\nLicense: Expat\n One line.\n .\n   Another.\n"), "{copyright}");
    assert!(super::copyright("Another licence.\n").is_err());
    let own = super::copyright(&Workspace::find().unwrap().read("LICENSE").unwrap()).unwrap();
    assert!(
        own.contains("\n Permission is hereby granted") && own.ends_with("IN THE\n SOFTWARE.\n"),
        "{own}"
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
fn the_unit_starts_the_installed_binary() {
    let workspace = Workspace::find().unwrap();
    let unit = workspace.read(format!("{FILES}/ferrybus.service")).unwrap();
    assert!(unit.contains(&format!("ExecStart=/usr/bin/ferrybus serve --config {}", CONFFILES[0])), "{unit}");
    assert!(unit.contains("StateDirectory=ferrybus"), "{unit}");
}
