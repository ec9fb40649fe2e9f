use super::{BANNED, lacking};

const ROOT: &str = "too-many-lines-threshold = 70\ndoc-valid-idents = [\"AMQP\"]\n";

/// A file with the root's rule and these bans.
fn file(banned: &[&str]) -> String {
    let bans: Vec<String> =
        banned.iter().map(|path| format!("    {{ path = \"{path}\", reason = \"as said\" }},\n")).collect();
    format!("too-many-lines-threshold = 70\ndisallowed-types = [\n{}]\n", bans.concat())
}

fn found(text: &str) -> Vec<String> {
    lacking(ROOT, text).collect()
}

#[test]
fn a_file_with_every_ban_and_the_roots_rules_is_in_order() {
    assert_eq!(found(&file(&BANNED)), Vec::<String>::new());
}

#[test]
fn each_ban_that_is_missing_is_found() {
    for (place, missing) in BANNED.iter().enumerate() {
        let mut banned = BANNED.to_vec();
        banned.remove(place);
        assert_eq!(found(&file(&banned)), [format!("does not ban `{missing}`")]);
    }
}

#[test]
fn a_rule_of_the_root_that_is_not_repeated_is_found() {
    let text = file(&BANNED).replace("70", "700");
    // 700 begins like 70 and is another rule.
    assert_eq!(found(&text), ["lacks the root's line `too-many-lines-threshold = 70`"]);
}
