use super::{Findings, check};

#[test]
fn a_stranger_at_the_top_is_found() {
    let mut findings = Findings::default();
    check(
        &["crates/x/src/lib.rs".into(), ".ci/run".into(), "scripts/a.sh".into(), "notes.md".into()],
        &mut findings,
    );
    let found: Vec<_> = findings.broken.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(found, ["notes.md", "scripts"]);
}
