use super::*;

type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

#[test]
fn the_collector_is_the_one_of_the_file_or_else_of_the_environment() {
    let variable = |name: &'static str, value: &'static str| {
        move |asked: &str| (asked == name).then(|| value.to_owned())
    };
    let nothing = |_: &str| None;
    let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT", "http://base:4318/");
    let traces = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4318/own/path");
    let cases: [(Option<&str>, Environment<'_>, Option<&str>); 6] = [
        (None, &nothing, None),
        (Some("http://file:4318"), &nothing, Some("http://file:4318/v1/traces")),
        (Some("http://file:4318/v1/traces"), &nothing, Some("http://file:4318/v1/traces")),
        (Some("http://file:4318"), &base, Some("http://file:4318/v1/traces")),
        (None, &base, Some("http://base:4318/v1/traces")),
        (None, &traces, Some("http://traces:4318/own/path")),
    ];
    for (file, environment, expected) in cases {
        let settings =
            TelemetrySettings { otlp_endpoint: file.map(str::to_owned), ..TelemetrySettings::default() };
        let found = telemetry(&settings, environment).unwrap().map(|found| found.endpoint);
        assert_eq!(found.as_deref(), expected, "{file:?}");
    }
    let settings =
        TelemetrySettings { otlp_endpoint: Some("collector:4317".into()), ..TelemetrySettings::default() };
    telemetry(&settings, &nothing).unwrap_err();
}

#[test]
fn headers_of_the_environment_are_taken_apart() {
    let expected = [("api-key", "a=b"), ("x", "y")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(listed("api-key=a=b, x = y,nonsense").unwrap(), expected);
    assert!(listed("").unwrap().is_empty());
    let values = [
        ("Basic%20abc=", "Basic abc="),
        ("a%2Cb%3D%25%c3%a9", "a,b=%\u{e9}"),
        ("%20kept%20", " kept "),
        ("a+b", "a+b"),
        ("100%, ", "100%"),
        ("%zz", "%zz"),
    ];
    for (written, expected) in values {
        let expected = ("Authorization".to_owned(), expected.to_owned());
        assert_eq!(listed(&format!("Authorization={written}")).unwrap(), [expected], "{written}");
    }
    let refused = listed("x=y,api-key=secret%ff").unwrap_err().to_string();
    assert!(refused.contains("`api-key`") && !refused.contains("secret"), "{refused}");
}

#[test]
fn headers_of_the_file_are_sent_as_they_stand() {
    let mut settings =
        TelemetrySettings { otlp_endpoint: Some("http://file:4318".into()), ..TelemetrySettings::default() };
    settings.headers.insert("x".into(), "a%20b".into());
    let found = telemetry(&settings, &|_| Some("y=z".into())).unwrap().unwrap();
    assert_eq!(found.headers, [("x".to_owned(), "a%20b".to_owned())]);
}
