use super::*;

#[test]
fn manage_implies_the_others_and_they_imply_nothing() {
    let cases = [
        // held, Send, Listen, Manage, Dynamic
        (Rights::NONE, [false, false, false, false]),
        (Rights::NONE.with(Right::Send), [true, false, false, false]),
        (Rights::NONE.with(Right::Listen), [false, true, false, false]),
        (Rights::NONE.with(Right::Dynamic), [false, false, false, true]),
        (Rights::NONE.with(Right::Send).with(Right::Listen), [true, true, false, false]),
        (Rights::NONE.with(Right::Send).with(Right::Listen).with(Right::Dynamic), [true, true, false, true]),
        (Rights::NONE.with(Right::Manage), [true, true, true, true]),
        (Rights::ALL, [true, true, true, true]),
    ];
    for case @ (held, expected) in cases {
        let found =
            [Right::Send, Right::Listen, Right::Manage, Right::Dynamic].map(|right| held.contains(right));
        assert_eq!(found, expected, "{case:?}");
    }
}

#[test]
fn rights_are_read_in_any_case() {
    assert_eq!("Send".parse(), Ok(Right::Send));
    assert_eq!("LISTEN".parse(), Ok(Right::Listen));
    assert_eq!("manage".parse(), Ok(Right::Manage));
    assert_eq!("dynamic".parse(), Ok(Right::Dynamic));
    assert_eq!("sends".parse::<Right>(), Err(UnknownRight));
}

#[test]
fn a_list_of_rights_becomes_a_set() {
    let rights: Rights = [Right::Listen, Right::Send].into_iter().collect();
    assert!(
        rights.contains(Right::Send) && rights.contains(Right::Listen) && !rights.contains(Right::Manage)
    );
    assert!(Rights::from_iter([]).is_empty());
}
