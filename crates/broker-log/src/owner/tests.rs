use super::*;

#[test]
fn an_owner_has_weight_one_until_another_is_set() {
    let mut weights = Weights::default();
    weights.set(Owner(7), 1);
    assert!(weights.0.is_empty(), "no memory for what is the default");
    weights.set(Owner(3), 10);
    weights.set(Owner(1), 0);
    assert_eq!([0, 1, 2, 3, 4, u16::MAX].map(|owner| weights.of(Owner(owner))), [1, 1, 1, 10, 1, 1]);
    weights.set(Owner(3), 1);
    assert_eq!(weights.of(Owner(3)), 1);
}
