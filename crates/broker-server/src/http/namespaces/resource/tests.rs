use super::*;

#[test]
fn each_path_is_one_resource_or_none() {
    let one = |name: &str| Some(Resource::One(name.to_owned()));
    let key = |name: &str, key: &str| Some(Resource::Key(name.to_owned(), key.to_owned()));
    let cases = [
        ("/$ferrybus/namespaces", Some(Resource::All)),
        ("/$ferrybus/namespaces/", Some(Resource::All)),
        ("/$ferrybus/namespaces/team-a", one("team-a")),
        ("/$ferrybus/namespaces/team-a/", one("team-a")),
        ("/$ferrybus/namespaces/b%C3%BCcher", one("bücher")),
        ("/$ferrybus/namespaces/team-a/keys", Some(Resource::Keys("team-a".into()))),
        ("/$ferrybus/namespaces/team-a/keys/Root", key("team-a", "Root")),
        ("/$ferrybus/namespaces/team-a/queues/Root", None),
        ("/$ferrybus/namespaces/team-a/keys/Root/more", None),
        ("/$ferrybus/namespaces/%FF", None),
    ];
    for (path, expected) in cases {
        assert_eq!(Resource::of(path), expected, "{path}");
    }
    for (path, expected) in
        [("/$ferrybus/namespaces", true), ("/$ferrybus/namespacesx", false), ("/x", false)]
    {
        assert_eq!(is_path(path), expected, "{path}");
    }
}
