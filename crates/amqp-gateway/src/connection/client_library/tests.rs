use amqp_codec::{
    performative::Open,
    raw::{AnnotationValue, RawMap},
};

use super::ClientLibrary;

#[test]
fn a_library_is_known_by_the_product_of_its_open() {
    let cases = [
        // product, library, learns by token (and is known as Service Bus), overwrites
        ("Microsoft.Azure.ServiceBus", ClientLibrary::DotNet, true, true),
        ("Messaging.ServiceBus", ClientLibrary::DotNet, true, true),
        ("azsdk-net-ServiceBus", ClientLibrary::DotNet, true, true),
        ("Microsoft.Azure.EventHubs", ClientLibrary::MicrosoftAzureAmqp, false, true),
        ("azsdk-net-", ClientLibrary::MicrosoftAzureAmqp, false, true),
        ("azsdk-net", ClientLibrary::Other, false, false),
        ("microsoft.azure.servicebus", ClientLibrary::Other, false, false),
        ("MSGolangClient", ClientLibrary::Go, true, false),
        ("MSJSClient", ClientLibrary::JavaScript, false, false),
        ("azsdk-python-servicebus", ClientLibrary::Python, false, false),
        ("QpidJMS", ClientLibrary::Other, false, false),
        ("", ClientLibrary::Other, false, false),
    ];
    for (product, library, by_token, overwrites) in cases {
        let mut open = Open::new("container");
        open.properties = Some(RawMap::with_symbol_keys(&[("product", AnnotationValue::Str(product))]));
        assert_eq!(ClientLibrary::of(&open), library, "{product}");
        assert_eq!(library.learns_of_missing_entities_by_token(), by_token, "{product}");
        assert_eq!(library.overwrites_early_outcomes(), overwrites, "{product}");
        assert_eq!(library.is_service_bus(), by_token, "{product}");
        let as_unauthorized = product == "azsdk-python-servicebus";
        assert_eq!(library.takes_missing_entities_for_unauthorized(), as_unauthorized, "{product}");
        let empty_tags = ["MSGolangClient", "MSJSClient", "azsdk-python-servicebus"].contains(&product);
        assert_eq!(library.understands_empty_tags(), empty_tags, "{product}");
        let only_forced = ["MSGolangClient", "MSJSClient"].contains(&product);
        assert_eq!(library.reconnects_only_after_forced_closes(), only_forced, "{product}");
    }
}

#[test]
fn an_open_without_a_product_is_of_any_library() {
    let mut open = Open::new("container");
    assert_eq!(ClientLibrary::of(&open), ClientLibrary::Other);
    for product in [AnnotationValue::Int(7), AnnotationValue::Null] {
        open.properties = Some(RawMap::with_symbol_keys(&[("product", product)]));
        assert_eq!(ClientLibrary::of(&open), ClientLibrary::Other);
    }
}
