use std::cell::Cell;

use super::*;

thread_local! {
    /// Names of which the bytes were compared.
    pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
}

#[test]
fn names_that_begin_in_the_same_way_are_told_apart_by_their_digests() {
    let front = "n".repeat(1000);
    let name = |number: u32| LinkName::new(&format!("{front}{number:04}"));
    let known: Vec<LinkName> = (0..5000).map(name).collect();
    COMPARED.set(0);
    assert!(known.iter().all(|it| !it.is(&name(5000))));
    assert_eq!(COMPARED.get(), 0);
    let same: Vec<usize> = (0..5000).filter(|&place| known[place].is(&name(7))).collect();
    assert_eq!((same, COMPARED.get()), (vec![7], 1));
}
