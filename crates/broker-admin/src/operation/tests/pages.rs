//! Lists that take more than one page, of each kind.

use super::*;

/// Follows the links to the next page from `path` on: how many entries each page has, and all their titles.
fn pages(broker: &mut Broker, path: &str) -> (Vec<usize>, Vec<String>) {
    let (mut counts, mut seen) = (Vec::new(), Vec::new());
    let mut path = Some(path.to_owned());
    while let Some(at) = path.take() {
        let page = broker.get(&at);
        counts.push(titles(&page).len());
        seen.extend(titles(&page).into_iter().map(str::to_owned));
        let next = page.text().split("<link rel=\"next\" href=\"").nth(1);
        let next = next.and_then(|rest| rest.split_once('"')).map(|(link, _)| link.replace("&amp;", "&"));
        path = next.map(|link| link.replace("https://ns.example:5300", ""));
        assert!(counts.len() < 20, "it ends");
    }
    (counts, seen)
}

#[test]
fn every_kind_of_list_comes_in_pages_without_gaps_or_repetitions() {
    let mut broker = Broker::new();
    broker.create("/t000", T, "");
    let filter = "<Filter i:type=\"FalseFilter\"/>";
    assert_eq!(broker.create("/t000/Subscriptions/s000", S, "").status, 201);
    for number in 1..105 {
        assert_eq!(broker.create(&format!("/t{number:03}"), T, "").status, 201);
        assert_eq!(broker.create(&format!("/t000/Subscriptions/s{number:03}"), S, "").status, 201);
        let rule = format!("/t000/Subscriptions/s000/Rules/r{number:03}");
        assert_eq!(broker.create(&rule, R, filter).status, 201);
    }
    let names = |letter: &str, from: u32| (from..105).map(|n| format!("{letter}{n:03}")).collect::<Vec<_>>();
    let mut rules = vec!["$Default".to_owned()];
    rules.extend(names("r", 1));
    for (path, expected) in [
        ("/$Resources/topics", names("t", 0)),
        ("/t000/Subscriptions", names("s", 0)),
        ("/t000/Subscriptions/s000/Rules", rules),
    ] {
        assert_eq!(pages(&mut broker, path), (vec![100, 5], expected.clone()), "{path}");
        let query = "?api-version=2021-05&$skip=50&$top=20";
        let (counts, seen) = pages(&mut broker, &format!("{path}{query}"));
        assert_eq!((counts, seen), (vec![20, 20, 15], expected[50..].to_vec()), "{path}");
        let (counts, _) = pages(&mut broker, &format!("{path}?api-version=2021-05&$skip=105&$top=100"));
        assert_eq!(counts, [0], "{path}");
        // A page that is full to the last entry has no next one.
        let (counts, _) = pages(&mut broker, &format!("{path}?api-version=2021-05&$skip=5&$top=100"));
        assert_eq!(counts, [100], "{path}");
    }
}

#[test]
fn who_lists_is_known_before_the_core_is_asked() {
    let broker = Broker::new();
    let cases: [(Method, &str, bool); 9] = [
        (Method::Get, "/$Resources/queues", true),
        (Method::Get, "/$Resources/topics?api-version=2021-05&$top=1", true),
        (Method::Get, "/t/Subscriptions", true),
        (Method::Get, "/t/Subscriptions/s/Rules", true),
        (Method::Get, "/q", false),
        (Method::Get, "/t/Subscriptions/s", false),
        (Method::Get, "/t/Subscriptions/s/Rules/r", false),
        (Method::Delete, "/q", false),
        (Method::Delete, "/t/Subscriptions/s/Rules/r", false),
    ];
    for (method, path, expected) in cases {
        let Step::Ask(_, pending) = broker.begin(method, path, None, "") else { panic!("{path}") };
        assert_eq!(pending.lists(), expected, "{path}");
    }
}
