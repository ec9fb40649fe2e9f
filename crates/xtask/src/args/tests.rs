use super::Args;

fn args(words: &[&str]) -> Args {
    Args::new(words.iter().map(|word| (*word).to_owned()))
}

#[test]
fn both_spellings_of_a_value_are_read() {
    for words in [&["--seeds", "7"][..], &["--seeds=7"][..]] {
        assert_eq!(args(words).value_or("--seeds", 1_u32).unwrap(), 7, "{words:?}");
    }
}

#[test]
fn the_default_stands_where_nothing_is_said() {
    assert_eq!(args(&[]).value_or("--seeds", 5_u32).unwrap(), 5);
}

#[test]
fn a_peer_keeps_the_equals_signs_of_its_command() {
    let given = args(&["--peer", "x=run --port=1,5000,q{}"]);
    assert_eq!(given.values("--peer").collect::<Vec<_>>(), ["x=run --port=1,5000,q{}"]);
}

#[test]
fn unknown_options_and_missing_values_are_refused() {
    assert!(args(&["--sedes", "7"]).only(&["--seeds"], &[]).is_err());
    assert!(args(&["--seeds"]).only(&["--seeds"], &[]).is_err());
    assert!(args(&["--seeds", "7", "--list"]).only(&["--seeds"], &["--list"]).is_ok());
}
