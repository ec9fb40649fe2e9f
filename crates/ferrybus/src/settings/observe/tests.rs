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
    assert_eq!(listed("api-key=a=b, x = y,nonsense"), expected);
    assert!(listed("").is_empty());
}
