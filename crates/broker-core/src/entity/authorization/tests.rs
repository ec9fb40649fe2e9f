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
        (primary(&format!("{}=", a(42))), false),
        (primary(&format!("{}=", a(44))), false),
        (primary(&a(44)), false),
        (primary(&format!("{}-=", a(42))), false),
        (primary(&format!("{}==", a(42))), false),
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
    let secret = "s".repeat(44);
    let wrong = AuthorizationRule { primary: KeyText::new(secret.as_str()), ..rule("k") };
    assert!(!format!("{wrong:?}").contains(&secret));
    assert!(!check(&[wrong]).unwrap_err().to_string().contains(&secret));
}

#[test]
fn a_rule_keeps_its_times_until_it_says_something_else() {
    let at = Timestamp::from_millis;
    let mut first = vec![rule("same"), rule("rights"), rule("key"), rule("gone")];
    date(&mut first, &[], at(1));
    let mut second = vec![
        rule("new"),
        AuthorizationRule { secondary: None, ..rule("key") },
        AuthorizationRule { rights: vec![AccessRight::Manage], ..rule("rights") },
        rule("same"),
    ];
    date(&mut second, &first, at(2));
    let times: Vec<_> = second.iter().map(|rule| (&*rule.name, rule.created_at, rule.modified_at)).collect();
    let expected =
        [("new", at(2), at(2)), ("key", at(1), at(2)), ("rights", at(1), at(2)), ("same", at(1), at(1))];
    assert_eq!(times, expected);
}
