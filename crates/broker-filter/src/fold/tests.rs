use proptest::prelude::*;

use super::*;

#[test]
fn names_differ_by_letters_and_not_by_case() {
    let cases = [
        ("color", "Color", Ordering::Equal),
        ("color", "colour", Ordering::Less),
        ("b", "A", Ordering::Greater),
        ("a_b", "A_B", Ordering::Equal),
        ("größe", "GRÖẞE", Ordering::Equal),
        ("größe", "GRÖSSE", Ordering::Greater),
        ("ЦВЕТ", "цвет", Ordering::Equal),
        ("", "a", Ordering::Less),
    ];
    for case @ (left, right, expected) in cases {
        assert_eq!(compare(left, right), expected, "{case:?}");
        assert_eq!(compare(right, left), expected.reverse(), "{case:?}");
        assert_eq!(same(left, right), expected.is_eq(), "{case:?}");
    }
}

proptest! {
    #[test]
    fn names_that_are_the_same_have_the_same_hash(name in "\\PC{0,8}") {
        for other in [name.to_lowercase(), name.to_ascii_uppercase(), name.clone()] {
            if same(&name, &other) {
                prop_assert_eq!(Hash::new().name(&name).get(), Hash::new().name(&other).get());
            }
        }
        prop_assert!(same(&name, &name.to_ascii_uppercase()));
    }

    #[test]
    fn the_order_of_names_is_one(a in "[a-cA-CäÄ]{0,3}", b in "[a-cA-CäÄ]{0,3}", c in "[a-cA-CäÄ]{0,3}") {
        prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
        if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
            prop_assert!(compare(&a, &c).is_le());
        }
    }
}
