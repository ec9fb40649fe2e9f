use proptest::prelude::*;

use super::*;

#[test]
fn ids_are_one_in_the_cases_that_dotnet_folds_and_in_no_other() {
    let cases = [
        // one id, another, whether they are one session to `StringComparer.OrdinalIgnoreCase`
        ("", "", true),
        ("CaseId", "caseid", true),
        ("A-1_z.", "a-1_Z.", true),
        ("a", "b", false),
        ("[", "{", false),
        ("@", "`", false),
        ("zażółć", "ZAŻÓŁĆ", true),
        ("ΣΑΣ", "σας", true),
        ("жук", "ЖУК", true),
        ("ﬀ", "FF", false),
        ("straße", "STRASSE", false),
        ("straße", "STRAßE", true),
        // Unlike Unicode's own mapping: Windows' table has neither.
        ("ı", "I", false),
        ("ſ", "S", false),
        ("i", "İ", false),
        ("k", "\u{212A}", false),
        ("\u{E5}", "\u{212B}", false),
        ("ǆ", "ǅ", true),
        ("ᾳ", "ᾼ", true),
        ("ᾀ", "ᾈ", true),
        ("ᾳ", "ΑΙ", false),
        ("\u{10428}", "\u{10400}", true),
        // Ordinal: nothing is composed.
        ("é", "e\u{301}", false),
        ("a ", "a", false),
    ];
    for (one, other, same) in cases {
        assert_eq!(session_key(one) == session_key(other), same, "{one} {other}");
    }
}

#[test]
fn most_ids_are_their_own_keys() {
    for id in ["", "0f8fad5b-d9cb-469f-a165-70867728950e", "order 17", "#@[`{~"] {
        assert!(matches!(session_key(id), Cow::Borrowed(key) if key == id), "{id}");
    }
}

proptest! {
    #[test]
    fn a_key_is_its_own_key_and_that_of_its_upper_case(id in ".{0,20}") {
        let key = session_key(&id).into_owned();
        prop_assert_eq!(&*session_key(&key), &*key);
        let ascii = id.to_ascii_uppercase();
        prop_assert_eq!(&*session_key(&ascii), &*key);
        prop_assert_eq!(key.chars().count(), id.chars().count());
    }
}
