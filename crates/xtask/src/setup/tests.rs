use std::path::Path;

use super::packages_for;

#[test]
fn the_needs_of_a_suite_follow_from_its_files_commands_and_words() {
    let nowhere = Path::new("/nonexistent");
    let cases = [
        // commands, more, one package that follows
        ("", "", "python3-venv"),
        ("pip install --requirement ../other/requirements.txt", "", "python3-dev"),
        ("mvn --file ../other/pom.xml process-classes", "", "maven"),
        ("make", "libqpid-proton-cpp12-dev", "libqpid-proton-cpp12-dev"),
    ];
    for row @ (command, more, package) in cases {
        let packages = packages_for(nowhere, &[command.to_owned()], &[more.to_owned()]);
        assert!(packages.iter().any(|name| name == package), "{row:?}: {packages:?}");
    }
    assert!(!packages_for(nowhere, &[], &[]).iter().any(|name| name == "python3-dev"));
}
