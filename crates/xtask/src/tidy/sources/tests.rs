use std::path::Path;

use super::{Findings, MARKS, has_invariant, is_test, program, rust, unfinished};

fn findings(file: &str, text: &str) -> Findings {
    let mut findings = Findings::default();
    rust(Path::new(file), text, &mut findings);
    unfinished(Path::new(file), text, &mut findings);
    findings
}

#[test]
fn a_file_may_have_800_lines_and_not_801() {
    let head = "//! Cuts frames.\n//!\n//! Invariant: none is lost.\n";
    for (lines, broken, notes) in [(450, 0, 0), (451, 0, 1), (800, 0, 1), (801, 1, 0)] {
        let text = format!("{head}{}", "x\n".repeat(lines - 3));
        let found = findings("crates/amqp-codec/src/frame.rs", &text);
        assert_eq!((found.broken.len(), found.notes.len()), (broken, notes), "{lines} lines");
    }
}

#[test]
fn a_program_of_a_foreign_client_may_have_600_lines_and_not_601() {
    for (lines, broken) in [(600, 0), (601, 1)] {
        let mut found = Findings::default();
        program(Path::new("interop/rhea/suite.js"), &"x\n".repeat(lines), &mut found);
        assert_eq!((found.broken.len(), found.notes.len()), (broken, 0), "{lines} lines");
    }
}

#[test]
fn modules_below_the_server_state_an_invariant() {
    let cases = [
        // file, documentation, allowed
        ("crates/amqp-codec/src/frame.rs", "//! Frames.\n//!\n//! Invariant: all.\n", true),
        ("crates/amqp-codec/src/frame.rs", "//! Frames.\n", false),
        ("crates/amqp-codec/src/frame/tests.rs", "use super::x;\n", true),
        ("crates/amqp-codec/benches/frame.rs", "fn main() {}\n", true),
        ("crates/broker-server/src/task.rs", "//! Tasks.\n", true),
    ];
    for row @ (file, text, allowed) in cases {
        assert_eq!(findings(file, text).broken.is_empty(), allowed, "{row:?}");
    }
}

#[test]
fn an_invariant_counts_only_in_the_documentation_of_the_module() {
    assert!(has_invariant("#![forbid(unsafe_code)]\n//! A.\n//! **Invariant:** b.\n"));
    assert!(!has_invariant("//! A.\nfn f() {}\n//! Invariant: late.\n"));
    assert!(!has_invariant("//! The word Invariant: inside a line.\n"));
}

#[test]
fn work_for_later_names_its_issue() {
    let mark = MARKS[0];
    for (rest, broken) in [("(#12): more", 0), (": more", 1), ("(#): more", 1), ("(me): more", 1)] {
        let text = format!("//! Invariant: x.\n// {mark}{rest}\n");
        assert_eq!(findings("crates/amqp-codec/src/a.rs", &text).broken.len(), broken, "{rest}");
    }
}

#[test]
fn tests_benches_and_fuzzers_are_told_from_production() {
    for (file, expected) in [
        ("crates/a/src/slot/tests.rs", true),
        ("crates/a/src/slot/tests/locks.rs", true),
        ("tests/it/send.rs", true),
        ("crates/a/fuzz/fuzz_targets/guard.rs", true),
        ("interop/azure-rust/src/cases.rs", false),
        ("crates/a/src/slot.rs", false),
        ("crates/xtask/src/test.rs", false),
    ] {
        assert_eq!(is_test(Path::new(file)), expected, "{file}");
    }
}

#[test]
fn a_module_is_not_called_mod() {
    assert_eq!(findings("crates/xtask/src/a/mod.rs", "").broken.len(), 1);
}
