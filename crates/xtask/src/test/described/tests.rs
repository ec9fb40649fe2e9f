use super::super::expectations::{Case, Status};
use super::Described;

const PAGE: &str = "
| case | what must hold | Python SDK | rhea |
|---|---|---|---|
| `send` | comes | ✓ | ✓ (in part) |
| `peek`, `topics/peek` | sees | ✓ | – |

| case | what must hold | crash |
|---|---|---|
| `kills` | stays | ✓ |
";

fn differences(suite: &str, cases: &[(&str, Status)]) -> Vec<String> {
    let case =
        |&(name, status): &(&str, Status)| Case { name: name.to_owned(), status, detail: String::new() };
    let cases: Vec<Case> = cases.iter().map(case).collect();
    Described::read(PAGE).differences(suite, &cases).into_iter().map(|failure| failure.title).collect()
}

#[test]
fn a_page_that_shows_the_reports_of_the_suites_is_right() {
    use Status::{Failed, Passed, Skipped};
    let python =
        [("plain/sync/send", Passed), ("tls/async/send", Failed), ("plain/sync/topics/peek", Passed)];
    let rows: [(&str, &[(&str, Status)]); 4] = [
        ("azure-python", &python),
        ("rhea", &[("plain/send", Passed), ("peek", Skipped)]),
        ("crash", &[("kills", Passed)]),
        // One transport is enough.
        ("rhea", &[("plain/send", Passed), ("tls/send", Skipped), ("peek", Skipped)]),
    ];
    for (suite, cases) in rows {
        assert_eq!(differences(suite, cases), [""; 0], "{suite}");
    }
}

/// A suite, what it reports, and what is told of that.
type Told = (&'static str, &'static [(&'static str, Status)], &'static str);

#[test]
fn a_case_without_a_row_and_each_wrong_mark_are_told() {
    use Status::{Passed, Skipped};
    let rows: [Told; 6] = [
        ("crash", &[("kills", Passed), ("more", Passed)], "`more` of `crash` has no row"),
        // The row is there, and has no column for this suite.
        ("crash", &[("kills", Passed), ("send", Passed)], "shows NotAsked, the suite says Played"),
        ("crash", &[], "`kills` of `crash`: docs/features/interop.md shows Played, the suite says NotAsked"),
        ("rhea", &[("send", Passed), ("peek", Passed)], "`peek`, `topics/peek` of `rhea`"),
        ("rhea", &[("send", Skipped), ("peek", Skipped)], "shows Played, the suite says NoWay"),
        ("rhea", &[("send", Passed)], "shows NoWay, the suite says NotAsked"),
    ];
    for (suite, cases, expected) in rows {
        let found = differences(suite, cases);
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    }
}

#[test]
fn every_client_of_the_page_has_its_suite() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let page = std::fs::read_to_string(root.join(super::PAGE)).unwrap();
    let described = Described::read(&page);
    for (heading, suite) in super::COLUMNS {
        assert!(described.rows.iter().any(|row| row.marks.contains_key(suite)), "no column `{heading}`");
        assert!(root.join("interop").join(suite).join("suite.toml").is_file(), "no suite `{suite}`");
    }
}
