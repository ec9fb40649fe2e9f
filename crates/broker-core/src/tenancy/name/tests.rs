use super::*;

#[test]
fn a_name_is_one_label_in_any_case() {
    for (name, key) in [("team-a", "team-a"), ("Team_A", "team_a"), ("7", "7"), ("_x", "_x")] {
        assert_eq!(namespace_key(name).as_deref(), Ok(key));
    }
    let longest = "n".repeat(63);
    assert_eq!(namespace_key(&longest).as_deref(), Ok(&*longest));
}

#[test]
fn a_text_that_no_host_can_begin_with_is_no_name() {
    use NamespaceNameError::{Character, Hyphen, Length};
    let cases = [
        ("", Length(0)),
        (&*"n".repeat(64), Length(64)),
        ("a.b", Character('.')),
        ("a/b", Character('/')),
        ("a b", Character(' ')),
        ("bücher", Character('ü')),
        ("a\0", Character('\0')),
        ("-a", Hyphen),
        ("a-", Hyphen),
        ("-", Hyphen),
    ];
    for (name, error) in cases {
        assert_eq!(namespace_key(name), Err(error), "{name:?}");
    }
}
