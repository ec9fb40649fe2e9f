use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn the_lowest_slot_is_the_one_that_a_search_finds(steps in prop::collection::vec((any::<bool>(), 0_u16..40), 0..200)) {
        let (mut free, mut taken) = (FreeSlots::default(), BTreeSet::new());
        for (takes, slot) in steps {
            if takes {
                free.take(NamespaceSlot(slot));
                taken.insert(slot);
            } else {
                free.release(NamespaceSlot(slot));
                taken.remove(&slot);
            }
            let found = (0..=u16::MAX).find(|slot| !taken.contains(slot)).map(NamespaceSlot);
            prop_assert_eq!(free.lowest(), found);
        }
    }
}

#[test]
fn the_last_slot_is_given_out_and_then_none() {
    let mut free = FreeSlots::default();
    free.take(NamespaceSlot(u16::MAX));
    for slot in 0..u16::MAX {
        assert_eq!(free.lowest(), Some(NamespaceSlot(slot)));
        free.take(NamespaceSlot(slot));
    }
    assert_eq!(free.lowest(), None);
    free.release(NamespaceSlot(7));
    assert_eq!(free.lowest(), Some(NamespaceSlot(7)));
}
