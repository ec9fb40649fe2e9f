use std::cell::Cell;

use super::*;

thread_local! {
    /// Names of which the bytes were compared.
    pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
}

#[test]
fn names_that_begin_in_the_same_way_are_told_apart_by_their_digests() {
    let front = "n".repeat(1000);
    let name = |number: u32| {
        let text = format!("{front}{number:04}");
        (NameDigest::of(7, &text), text)
    };
    let known: Vec<(NameDigest, String)> = (0..5000).map(name).collect();
    let same_as = |number: u32| -> Vec<usize> {
        let (digest, text) = name(number);
        let is = |place: &usize| is_same((known[*place].0, &known[*place].1), (digest, &text));
        (0..known.len()).filter(is).collect()
    };
    for (number, found) in [(5000, vec![]), (7, vec![7])] {
        COMPARED.set(0);
        assert_eq!(same_as(number), found);
        assert!(COMPARED.get() < 5000 / 64, "{} of 5,000 names were compared", COMPARED.get());
    }
    let by_seed = |name: &str| (0..64).map(|seed| NameDigest::of(seed, name)).collect::<Vec<_>>();
    assert_ne!(by_seed("name"), by_seed("other"), "the seed decides which names collide");
}
