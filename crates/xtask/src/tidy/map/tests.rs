use std::path::Path;

use super::{links, resolved, sources};

#[test]
fn files_are_named_between_backticks() {
    let text = "Start at `connection.rs` and `sql/parser.rs`; `State` is a type, and notes.rs is no name.";
    assert_eq!(sources(text).collect::<Vec<_>>(), ["connection.rs", "sql/parser.rs"]);
}

#[test]
fn links_within_the_repository_are_paths_and_others_are_left_out() {
    let text = "[a](b.md), [c](../d.md#place), [here](#place), [web](https://example.org/x.md), f](x y)";
    assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "../d.md"]);
}

#[test]
fn a_link_counts_from_the_folder_of_its_page() {
    assert_eq!(resolved(Path::new("docs/features"), "../d.md"), Path::new("docs/d.md"));
    assert_eq!(resolved(Path::new(""), "docs/./d.md"), Path::new("docs/d.md"));
}
