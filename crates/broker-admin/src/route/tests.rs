use proptest::prelude::*;

use super::*;

#[test]
fn every_spelling_of_a_path_is_understood() {
    let cases = [
        ("/$namespaceinfo", Ok(Route::Namespace)),
        ("/$NamespaceInfo/", Ok(Route::Namespace)),
        ("/$Resources/queues", Ok(Route::List(EntityKind::Queue))),
        ("/%24resources/Topics/", Ok(Route::List(EntityKind::Topic))),
        ("/q1", Ok(Route::Entity("q1".into()))),
        ("/a/q2", Ok(Route::Entity("a/q2".into()))),
        ("/a%2Fq2", Ok(Route::Entity("a/q2".into()))),
        ("/t1/Subscriptions/", Ok(Route::Subscriptions("t1".into()))),
        ("/a/t/subscriptions", Ok(Route::Subscriptions("a/t".into()))),
        ("/t1/SUBSCRIPTIONS/s1", Ok(Route::Subscription("t1/Subscriptions/s1".into()))),
        ("/t1/subscriptions/s1/rules", Ok(Route::Rules("t1/Subscriptions/s1".into()))),
        (
            "/t1/Subscriptions/s1/Rules/$Default",
            Ok(Route::Rule("t1/Subscriptions/s1".into(), "$Default".into())),
        ),
        ("/Subscriptions/x", Ok(Route::Entity("Subscriptions/x".into()))),
        ("/t/Subscriptions/s/x/y", Ok(Route::Entity("t/Subscriptions/s/x/y".into()))),
        ("/$nservicebus-verification-queue", Ok(Route::Entity("$nservicebus-verification-queue".into()))),
        ("/$Resources", Err(RouteError::Unknown)),
        ("/", Err(RouteError::Unknown)),
        ("", Err(RouteError::Unknown)),
        ("/$Resources/rules", Err(RouteError::Unknown)),
        ("/q/$DeadLetterQueue", Err(RouteError::Unknown)),
        ("/a//b", Err(RouteError::Unknown)),
        ("/%ff", Err(RouteError::NotText)),
    ];
    for (path, expected) in cases {
        assert_eq!(Route::parse(path, NameScope::ServiceBus), expected, "{path}");
    }
}

proptest! {
    #[test]
    fn no_path_panics(path in "[/a-c%$0-9]{0,30}|(/|t|subscriptions|rules|%2f|\\$default){0,9}|.{0,30}") {
        if let Ok(route) = Route::parse(&path, NameScope::ServiceBus) {
            // The place that a token has to be good for is the route again.
            prop_assert_eq!(Route::parse(&format!("/{}", route.resource().replace('%', "%25")), NameScope::ServiceBus), Ok(route));
        }
    }
}
