use proptest::prelude::*;

use super::*;

#[test]
fn a_number_finds_nothing_after_its_thing_is_gone() {
    let mut slab = Slab::<char, 4, 4>::new();
    let a = slab.insert('a').unwrap();
    assert_eq!(slab.remove(a), Some('a'));
    let b = slab.insert('b').unwrap();
    assert_ne!(a, b);
    assert_eq!((slab.get(a), slab.get(b)), (None, Some(&'b')));
    assert_eq!(slab.remove(a), None);
    assert_eq!(slab.len(), 1);
}

#[test]
fn a_full_slab_takes_nothing_more() {
    let mut slab = Slab::<u32, 2, 2>::new();
    for thing in 0..4 {
        assert!(slab.insert(thing).is_some());
    }
    assert_eq!(slab.insert(4), None);
    slab.remove(2);
    assert!(slab.insert(5).is_some());
}

proptest! {
    #[test]
    fn the_slab_is_a_map(steps in prop::collection::vec((any::<bool>(), any::<usize>()), 1..200)) {
        let mut slab = Slab::<usize, 6, 20>::new();
        let mut model: Vec<(u32, usize)> = Vec::new();
        for (insert, value) in steps {
            if insert {
                let Some(number) = slab.insert(value) else {
                    prop_assert_eq!(model.len(), 64);
                    continue;
                };
                prop_assert!(model.iter().all(|(known, _)| *known != number));
                model.push((number, value));
            } else if !model.is_empty() {
                let (number, thing) = model.remove(value % model.len());
                prop_assert_eq!(slab.get_mut(number).copied(), Some(thing));
                prop_assert_eq!(slab.remove(number), Some(thing));
                prop_assert_eq!(slab.get(number), None);
            }
            let mut listed: Vec<_> = slab.iter().map(|(number, thing)| (number, *thing)).collect();
            let mut expected = model.clone();
            listed.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(listed, expected);
            prop_assert_eq!(slab.len(), model.len());
        }
    }
}
