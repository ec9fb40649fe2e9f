use std::path::Path;

use super::undocumented;
use crate::tidy::Findings;

#[test]
fn public_types_traits_and_functions_have_documentation() {
    let rows = [
        // text, findings
        ("pub fn f() {}\n", 1),
        ("/// F.\npub fn f() {}\n", 0),
        ("/// F.\n#[expect(\n    a,\n    reason = \"b\"\n)]\npub const fn f() {}\n", 0),
        ("#[derive(Debug)]\npub struct S {\n    pub field: u8,\n}\n", 1),
        ("/// E.\npub enum E {\n    One { two: u8 },\n}\n", 0),
        ("pub(crate) fn f() {}\nfn g() {}\npub use a::B;\npub mod c;\n", 0),
        ("/// A.\npub struct A;\npub trait T {}\n", 1),
    ];
    for row @ (text, count) in rows {
        let mut findings = Findings::default();
        undocumented(Path::new("a.rs"), text, &mut findings);
        assert_eq!(findings.broken.len(), count, "{row:?}");
    }
}
