use super::replays;

#[test]
fn a_corpus_is_replayed_by_a_test_that_names_it() {
    assert!(replays("#[test]\nfn it() { replay(HERE, \"guard\", demand); }", "guard"));
    assert!(!replays("#[test]\nfn it() { replay(HERE, \"guard\", demand); }", "frame"));
    assert!(!replays("fn it() { replay(HERE, \"guard\", demand); }", "guard"));
}
