use super::*;

fn key(letter: char) -> KeyText {
    KeyText::new(format!("{}=", letter.to_string().repeat(43)))
}

fn rule(name: &str) -> AuthorizationRule {
    AuthorizationRule {
        name: name.into(),
        rights: vec![AccessRight::Send],
        primary: key('a'),
        secondary: Some(key('b')),
        created_at: Timestamp::default(),
        modified_at: Timestamp::default(),
    }
}

#[test]
fn rules_are_checked_at_their_bounds() {
    use AccessRight::{Listen, Manage, Send};
    let rights = |rights: &[AccessRight]| AuthorizationRule { rights: rights.to_vec(), ..rule("k") };
    let primary = |text: &str| AuthorizationRule { primary: KeyText::new(text), ..rule("k") };
    let secondary = |text: &str| AuthorizationRule { secondary: Some(KeyText::new(text)), ..rule("k") };
    let a = |count: usize| "a".repeat(count);
    let cases = [
        (rule("k"), true),
        (rule(""), false),
        (rule(&a(256)), true),
        (rule(&a(257)), false),
        (rule("a-b_c.d~e!f*g(h)i'"), true),
        (rule("a b"), false),
        (rule("a:b"), false),
        (rule("a&b"), false),
        (rule("a/b"), false),
        (rule("ä"), false),
        (rule("a\0b"), false),
        (rights(&[]), false),
        (rights(&[Manage]), true),
        (rights(&[Listen, Send, Manage]), true),
        (rights(&[Send, Listen, Send]), false),
        (primary(&format!("{}=", a(43))), true),
        (primary(&a(44)), true),
        (primary(&a(43)), false),
        (primary(&a(45)), false),
        (primary(&format!("{}-;=\"<", a(39))), true),
        (primary(&format!("{} {}", a(22), a(21))), false),
        (primary(&format!("{}\0", a(43))), false),
        (primary(&format!("{}ä", a(42))), false),
        (primary(""), false),
        (secondary(""), false),
        (secondary(&format!("{}+/=", a(41))), true),
        (AuthorizationRule { secondary: None, ..rule("k") }, true),
    ];
    for (rule, allowed) in cases {
        let checked = check(std::slice::from_ref(&rule));
        assert_eq!(checked.is_ok(), allowed, "{rule:?}: {checked:?}");
    }
}

#[test]
fn an_entity_has_twelve_rules_at_most_and_each_name_once() {
    let rules = |count: usize| (0..count).map(|number| rule(&format!("k{number}"))).collect::<Vec<_>>();
    assert_eq!(check(&rules(12)), Ok(()));
    let full = EntityError::LimitReached { what: "authorization rules of an entity", limit: 12 };
    assert_eq!(check(&rules(13)), Err(full));
    assert!(check(&[rule("k"), rule("l"), rule("k")]).is_err());
    assert_eq!(check(&[rule("k"), rule("K")]), Ok(()), "tokens name them exactly");
}

#[test]
fn no_text_that_leaves_has_a_key() {
    let secret = "s".repeat(45);
    let wrong = AuthorizationRule { primary: KeyText::new(secret.as_str()), ..rule("k") };
    assert!(!format!("{wrong:?}").contains(&secret));
    assert!(!check(&[wrong]).unwrap_err().to_string().contains(&secret));
}

#[test]
fn a_key_is_refused_for_its_length_or_for_its_characters() {
    let refused = |text: &str| {
        let wrong = AuthorizationRule { primary: KeyText::new(text), ..rule("k") };
        check(&[wrong]).unwrap_err().to_string()
    };
    let cases = [
        ("a".repeat(43), "a key of 43 characters", "keys of 44 characters"),
        ("ä".repeat(44), "a key with others", "keys of visible ASCII characters"),
    ];
    for (text, value, allowed) in cases {
        let said = refused(&text);
        assert!(said.contains(value) && said.contains(allowed), "{said}");
    }
}
