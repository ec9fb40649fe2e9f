use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn the_index_is_a_map(steps in prop::collection::vec((0u8..3, 0u16..20, any::<u32>()), 1..200)) {
        let (mut index, mut model) = (Index::new(), BTreeMap::new());
        for (kind, name, number) in steps {
            match kind {
                0 => {
                    index.insert(name, number);
                    model.insert(name, number);
                }
                1 => {
                    index.remove(name);
                    model.remove(&name);
                }
                _ => {}
            }
            prop_assert_eq!(index.find(name), model.get(&name).copied());
        }
    }
}
