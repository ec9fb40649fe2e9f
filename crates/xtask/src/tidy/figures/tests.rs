use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{NAMES, Row, Source, circles, grown, parse, text, types, words, written};

fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    files.iter().map(|(path, text)| Source { path: path.into(), text: (*text).to_owned() }).collect()
}

fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<PathBuf>> {
    let sources = sources(files);
    circles::find(&sources, &types::measure(&sources))
}

#[test]
fn a_line_is_code_or_comment_and_never_both() {
    let text = "//! What it is.\n\n/// Whether it is open.\nfn open() {} // Who asks\n    // Why not?\n";
    assert_eq!((text::code_lines(text), text::questions(text)), (1, 2));
}

#[test]
fn methods_count_for_the_type_that_declares_them_and_not_for_its_traits() {
    let files = [
        ("a.rs", "pub struct Core<T> {\n    pub(crate) one: T,\n    /// Two: a number.\n    two: u8,\n}\n"),
        (
            "b.rs",
            "impl<T: Into<u8>> Core<T> {\n    pub(crate) fn f() {\n        let fn_ = 1;\n    }\n\n    const fn g() {}\n}\n",
        ),
        (
            "c.rs",
            "impl<'a> super::Core<'a> {\n    async fn h() {}\n}\nimpl Drop for Core<u8> {\n    fn drop(&mut self) {}\n}\n",
        ),
    ];
    let types = types::measure(&sources(&files));
    let core = &types["Core"];
    assert_eq!((core.methods.len(), core.files.len(), core.fields), (3, 2, 2));
}

#[test]
fn two_files_that_use_each_other_are_a_circle() {
    let circle = circles_of(&[
        ("a.rs", "use crate::{b::B, c::C};\n"),
        ("b.rs", "fn f(a: super::a::A) {}\n"),
        ("c.rs", ""),
    ]);
    assert_eq!(circle, [["a.rs", "b.rs"].map(PathBuf::from)]);
    assert!(!circles::crosses_a_folder(&circle[0]));
}

#[test]
fn a_reexport_leads_to_the_file_that_declares_the_name() {
    let files = [
        ("lib.rs", "pub use a::A;\nuse b::B;\n"),
        ("a.rs", "use crate::b::B;\n"),
        ("b.rs", "use crate::A;\n"),
    ];
    assert_eq!(circles_of(&files).len(), 1);
}

#[test]
fn methods_of_one_type_in_two_files_that_call_each_other_are_a_circle() {
    let files = [
        ("core.rs", "mod pump;\nimpl Core {\n    fn run_all(&self) { self.pump_one(); }\n}\n"),
        ("core/pump.rs", "use super::Core;\nimpl Core {\n    fn pump_one(&self) {}\n}\n"),
    ];
    assert_eq!(circles_of(&files).len(), 1);
}

#[test]
fn a_module_and_the_files_below_it_are_one_folder_and_others_are_not() {
    let rows: [(&[&str], bool); 4] = [
        // files of the circle, whether it crosses a folder
        (&["a.rs", "b.rs"], false),
        (&["a.rs", "a/b.rs", "a/c.rs"], false),
        (&["a.rs", "a/b.rs", "c.rs"], true),
        (&["a/b.rs", "c/d.rs"], true),
    ];
    for row @ (files, crosses) in rows {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        assert_eq!(circles::crosses_a_folder(&files), crosses, "{row:?}");
    }
}

#[test]
fn listed_words_are_counted_in_code_and_names_of_files_and_not_in_comments() {
    let lists = words::Lists::parse("sim = \"desk Turn\"").expect("this is a list");
    let sources =
        sources(&[("desk.rs", "// desk\nstruct Turn { desk: Desk, turn: u8 }\nconst A: &str = \"Turn\";\n")]);
    let left: Vec<_> = lists.left("sim", &sources).collect();
    assert_eq!(left, [("Turn".to_owned(), 1), ("desk".to_owned(), 2)]);
    assert_eq!(lists.left("other", &sources).count(), 0);
}

#[test]
fn a_figure_at_its_ceiling_passes_and_one_above_it_fails() {
    let rows = |figure: u64| BTreeMap::from([("sim".to_owned(), Row::from([figure; NAMES.len()]))]);
    assert_eq!(grown(&rows(7), &rows(7)), Vec::<String>::new());
    assert_eq!(grown(&rows(8), &rows(7)).len(), NAMES.len());
    assert_eq!(grown(&rows(1), &BTreeMap::new()).len(), NAMES.len());
}

#[test]
fn lowering_lowers_ceilings_and_raises_none() {
    let rows = |figure: u64| BTreeMap::from([("sim".to_owned(), Row::from([figure; NAMES.len()]))]);
    for (now, ceiling, expected) in [(500, 700, 500), (900, 700, 700), (700, 700, 700)] {
        let text = written(&rows(now), &rows(ceiling));
        assert_eq!(parse(&text).expect("the baseline can be read"), rows(expected), "{now} {ceiling}");
    }
}
