use super::pinned;

#[test]
fn names_and_versions_are_read_and_digests_left_to_pip() {
    let text = "# why\nastral-dev-toolchain-cargo-deny==0.20.2 --hash=sha256:00\nastral-dev-toolchain-cargo-fuzz==0.13.2 \\\n    --hash=sha256:11\n";
    assert_eq!(pinned(text).collect::<Vec<_>>(), [("cargo-deny", "0.20.2"), ("cargo-fuzz", "0.13.2")]);
}
