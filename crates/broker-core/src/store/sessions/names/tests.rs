use super::*;

#[test]
fn names_are_found_and_memory_is_released() {
    let mut names = Names::new(7);
    let id = |number: u32| format!("session-{number}");
    for number in 0..1_000 {
        names.insert(id(number).into(), SessionNumber(number));
    }
    let grown = names.0.capacity();
    for number in 0..1_000 {
        assert_eq!(names.get(&id(number)), Some(SessionNumber(number)));
        names.remove(&id(number));
        assert_eq!(names.get(&id(number)), None);
    }
    assert_eq!(names.len(), 0);
    assert!(names.0.capacity() < grown / 8, "{} of {grown}", names.0.capacity());
}

#[test]
fn a_name_is_found_and_removed_in_any_case() {
    let mut names = Names::new(7);
    names.insert("CaseId".into(), SessionNumber(1));
    names.insert("other".into(), SessionNumber(2));
    for id in ["CaseId", "caseid", "CASEID"] {
        assert_eq!(names.get(id), Some(SessionNumber(1)), "{id}");
    }
    names.remove("cASEiD");
    assert_eq!((names.get("CaseId"), names.get("OTHER")), (None, Some(SessionNumber(2))));
}

#[test]
fn the_seed_decides_about_the_places() {
    let place = |seed: u64| Seeded(seed).hash_one("session");
    assert_eq!(place(1), place(1));
    assert_ne!(place(1), place(2));
}
