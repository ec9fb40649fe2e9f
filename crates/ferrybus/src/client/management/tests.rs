use super::*;

#[test]
fn places_have_a_path_for_the_broker_and_a_name_for_people() {
    let cases = [
        (EntityRef::new(EntityKind::Queue, "/a/b/"), "a/b", "queue `a/b`", "a/b", "$Resources/queues"),
        (EntityRef::new(EntityKind::Topic, "t"), "t", "topic `t`", "t", "$Resources/topics"),
        (
            EntityRef::subscription("a/t", "s"),
            "a/t/Subscriptions/s",
            "subscription `a/t/s`",
            "s",
            "a/t/Subscriptions",
        ),
    ];
    for (entity_ref, path, told, own, list) in cases {
        assert_eq!((&*entity_ref.path, &*entity_ref.label()), (path, told));
        assert_eq!((entity_ref.own_name(), &*entity_ref.list()), (own, list));
    }
}

#[test]
fn paths_are_escaped_but_for_the_characters_of_names() {
    assert_eq!(url("a/b-c.d_e"), "/a/b-c.d_e?api-version=2021-05&all-names=true");
    assert_eq!(url("a b?c%d#e"), "/a%20b%3Fc%25d%23e?api-version=2021-05&all-names=true");
    let rule = rule_url(&EntityRef::subscription("t", "s"), "$Default");
    assert_eq!(rule, "/t/Subscriptions/s/Rules/$Default?api-version=2021-05&all-names=true");
}
