use super::*;

fn list(names: &[&str]) -> PropertyList {
    names.iter().map(|name| ((*name).into(), PropertyValue::Text("value".into()))).collect()
}

#[test]
fn a_clone_shares_until_one_is_changed() {
    let first = list(&["a", "b"]);
    let alone = first.memory_bytes();
    assert!(alone >= 2 * (1 + 5));
    let mut second = first.clone();
    assert!(std::ptr::eq(first.as_ptr(), second.as_ptr()));
    assert_eq!(first.memory_bytes() * 2, alone, "each has its half");
    second.push(("c".into(), PropertyValue::Removed));
    assert_eq!(first, list(&["a", "b"]));
    assert_eq!(second.len(), 3);
    assert_eq!(first.memory_bytes(), alone);
    assert_eq!(first.into_iter().count(), 2);
}

#[test]
fn an_empty_list_takes_no_memory_and_equals_one_that_was_emptied() {
    let mut emptied = list(&["a"]);
    emptied.clear();
    assert_eq!(emptied, PropertyList::default());
    assert_eq!(PropertyList::from(Vec::new()).memory_bytes(), 0);
    assert!(PropertyList::default().is_empty());
}
