//! Deletions with a condition.

use super::*;

#[test]
fn a_deletion_is_of_the_state_that_its_tag_names() {
    let mut broker = Broker::new();
    broker.create("/t", T, "");
    broker.create("/t/Subscriptions/s", S, "");
    let changed = "<MaxDeliveryCount>3</MaxDeliveryCount>";
    let rule = "<Filter i:type=\"FalseFilter\"/>";
    for (path, element, inside) in [
        ("/q", Q, changed),
        ("/t/Subscriptions/s2", S, changed),
        ("/t/Subscriptions/s/Rules/r", R, rule),
        ("/t2", T, "<UserMetadata>x</UserMetadata>"),
    ] {
        let first = broker.create(path, element, "").etag.unwrap().to_string();
        let second = broker.update(path, element, inside).etag.unwrap().to_string();
        let delete =
            |broker: &mut Broker, tag: &str| broker.request(Method::Delete, path, Some(tag), "").status;
        for other in [&first, "1", "", "x"] {
            assert_eq!(delete(&mut broker, other), 412, "{path} {other}");
        }
        // Somebody changes it between the look and the deletion.
        let beside = broker.request_beside(Method::Delete, path, Some(&second), "", |broker, asked| {
            if asked == 1 {
                broker.update(path, element, "");
            }
        });
        assert_eq!(detail(&beside).0, 412, "{path}: {beside:?}");
        let third = broker.get(path).etag.unwrap().to_string();
        assert_eq!(delete(&mut broker, &format!("\"{third}\"")), 200, "{path}");
        assert_eq!((delete(&mut broker, &third), delete(&mut broker, "*")), (404, 404), "{path}");
        broker.create(path, element, "");
        assert_eq!(delete(&mut broker, "*"), 200, "{path}");
    }
}
