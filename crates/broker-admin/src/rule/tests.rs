use broker_core::Timestamp;
use proptest::prelude::*;

use super::*;

fn read_text(inside: &str) -> Result<Rule, String> {
    let text = format!(
        "<RuleDescription xmlns=\"{}\" xmlns:i=\"{}\" xmlns:x=\"{}\">{inside}</RuleDescription>",
        xml::SERVICE_BUS,
        xml::INSTANCE,
        xml::INSTANCE
    );
    xml::with_document(text.as_bytes(), |document| read(document.root_element(), None))
        .map_err(|e| e.to_string())?
}

fn shown(rule: Rule) -> String {
    let mut out = String::new();
    write(&mut out, RULE, &StoredRule { rule, created_at: Timestamp::from_millis(0) });
    out
}

fn again(text: &str) -> Rule {
    xml::with_document(text.as_bytes(), |document| read(document.root_element(), None)).unwrap().unwrap()
}

#[test]
fn filters_and_actions_of_all_clients_are_read() {
    let pair = |kind: &str, text: &str| {
        format!(
            "<Properties><KeyValueOfstringanyType><Key>k</Key><Value x:type=\"l28:{kind}\" \
             xmlns:l28=\"http://www.w3.org/2001/XMLSchema\">{text}</Value></KeyValueOfstringanyType></Properties>"
        )
    };
    let correlation = |value| {
        let mut filter = CorrelationFilter::new();
        filter.user("k", value);
        Filter::Correlation(filter)
    };
    let sql = |text: &str| Filter::Sql(SqlFilter::parse(text, Parameters::new()).unwrap());
    let cases = [
        (String::new(), Filter::True),
        ("<Filter i:type=\"TrueFilter\"><SqlExpression>1=1</SqlExpression></Filter>".into(), Filter::True),
        ("<Filter x:type=\"FalseFilter\"/>".into(), Filter::False),
        (
            "<Filter i:type=\"p4:SqlFilter\"><SqlExpression>a = 1</SqlExpression></Filter>".into(),
            sql("a = 1"),
        ),
        (
            format!("<Filter i:type=\"CorrelationFilter\">{}</Filter>", pair("double", "5")),
            correlation(Value::Double(5.0)),
        ),
        (
            format!("<Filter i:type=\"CorrelationFilter\">{}</Filter>", pair("boolean", "true")),
            correlation(Value::Bool(true)),
        ),
        (
            format!("<Filter i:type=\"CorrelationFilter\">{}</Filter>", pair("string", " x ")),
            correlation(Value::Text(" x ".into())),
        ),
        (
            format!(
                "<Filter i:type=\"CorrelationFilter\">{}</Filter>",
                pair("dateTime", "1970-01-01T00:00:01Z")
            ),
            correlation(Value::Timestamp(1_000)),
        ),
        (
            format!("<Filter i:type=\"CorrelationFilter\">{}</Filter>", pair("duration", "PT1S")),
            correlation(Value::duration_ms(1_000)),
        ),
    ];
    for (inside, filter) in cases {
        let rule = read_text(&inside).unwrap();
        assert_eq!(rule.filter, filter, "{inside}");
        assert_eq!((&*rule.name, rule.action.is_none()), ("$Default", true));
    }
    let rule = read_text(
        "<Action i:type=\"SqlRuleAction\"><SqlExpression>SET a = 1</SqlExpression></Action><Name>n</Name>",
    );
    let rule = rule.unwrap();
    assert_eq!((&*rule.name, rule.action.unwrap().text()), ("n", "SET a = 1"));
}

#[test]
fn rules_that_make_no_sense_are_named() {
    let cases = [
        ("<Filter/>", "the filter type '' is not known"),
        ("<Filter i:type=\"SqlFilter\"/>", "the `SqlExpression` is missing"),
        ("<Filter i:type=\"CorrelationFilter\"/>", "a correlation filter needs at least one condition"),
        ("<Action i:type=\"Thing\"/>", "the action type 'Thing' is not known"),
    ];
    for (inside, expected) in cases {
        assert_eq!(read_text(inside).unwrap_err(), expected);
    }
    let broken =
        read_text("<Filter i:type=\"SqlFilter\"><SqlExpression>a = </SqlExpression></Filter>").unwrap_err();
    assert!(broken.starts_with("the filter 'a = ' cannot be read: "), "{broken}");
}

#[test]
fn values_are_written_for_the_strictest_reader() {
    let mut filter = CorrelationFilter::new();
    filter.user("a", Value::Int(5));
    filter.system(SystemProperty::Label, Value::Text("<l>".into()));
    let text = shown(Rule { name: "r".into(), filter: Filter::Correlation(filter), action: None });
    let value = "<Value i:type=\"d6p1:int\" xmlns:d6p1=\"http://www.w3.org/2001/XMLSchema\">5</Value>";
    for part in [value, "<Label>&lt;l&gt;</Label>", "<Action i:type=\"EmptyRuleAction\"/>", "<Name>r</Name>"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn values_are_written_in_the_words_of_xml() {
    let cases = [
        (Value::Double(f64::INFINITY), "double", "INF"),
        (Value::Double(f64::NEG_INFINITY), "double", "-INF"),
        (Value::Double(f64::NAN), "double", "NaN"),
        (Value::Double(-1.5), "double", "-1.5"),
        (Value::Timestamp(-1), "dateTime", "1969-12-31T23:59:59.999Z"),
        (Value::Timestamp(i64::MIN), "dateTime", "0001-01-01T00:00:00Z"),
        (Value::Duration(-10_000_001), "duration", "-PT1.0000001S"),
    ];
    for (value, kind, text) in cases {
        let mut out = String::new();
        write_value(&mut out, &value, None);
        assert!(
            out.contains(&format!("d6p1:{kind}\"")) && out.contains(&format!(">{text}</Value>")),
            "{out}"
        );
    }
}

#[test]
fn numbers_and_identifiers_are_given_back_in_the_types_in_which_they_were_written() {
    let (schema, own) = ("http://www.w3.org/2001/XMLSchema", SERIALIZATION);
    let guid = "903a173c-50b2-46df-a7d2-162f15125cba";
    let cases = [
        (schema, "byte", "-5"),
        (schema, "short", "5"),
        (schema, "int", "5"),
        (schema, "int", "-2147483648"),
        (schema, "long", "5"),
        (schema, "long", "9223372036854775807"),
        (schema, "unsignedByte", "255"),
        (schema, "unsignedShort", "5"),
        (schema, "unsignedInt", "4294967295"),
        (schema, "unsignedLong", "5"),
        (schema, "float", "0.5"),
        (schema, "double", "0.5"),
        (schema, "decimal", "0.5"),
        (schema, "string", "5"),
        (schema, "boolean", "true"),
        (own, "guid", guid),
        (own, "duration", "PT1S"),
    ];
    for (namespace, kind, text) in cases {
        let list = |name: &str, key: &str| {
            format!(
                "<{name}><KeyValueOfstringanyType><Key>{key}</Key><Value i:type=\"d6p1:{kind}\" \
                 xmlns:d6p1=\"{namespace}\">{text}</Value></KeyValueOfstringanyType></{name}>"
            )
        };
        let filters = [
            format!("<Filter i:type=\"CorrelationFilter\">{}</Filter>", list("Properties", "k")),
            format!(
                "<Filter i:type=\"SqlFilter\"><SqlExpression>a = @p</SqlExpression>{}</Filter>",
                list("Parameters", "@p")
            ),
        ];
        for filter in filters {
            let inside = format!(
                "{filter}<Action i:type=\"SqlRuleAction\"><SqlExpression>SET a = @p</SqlExpression>{}</Action>",
                list("Parameters", "@p"),
            );
            let rule = read_text(&inside).unwrap();
            let shown = shown(rule.clone());
            let value = format!("<Value i:type=\"d6p1:{kind}\" xmlns:d6p1=\"{namespace}\">{text}</Value>");
            assert_eq!(shown.matches(&value).count(), 2, "{value} in {shown}");
            assert_eq!(again(&shown), rule, "{kind}");
        }
    }
    let number = |kind: &str, text: &str| {
        format!(
            "<Filter i:type=\"CorrelationFilter\"><Properties><KeyValueOfstringanyType><Key>k</Key><Value \
             i:type=\"d6p1:{kind}\" xmlns:d6p1=\"{schema}\">{text}</Value></KeyValueOfstringanyType></Properties></Filter>"
        )
    };
    // Go's SDK calls each integer an `int`.
    let large = shown(read_text(&number("int", "4294967296")).unwrap());
    assert!(large.contains("d6p1:long\"") && large.contains(">4294967296</Value>"), "{large}");
    for (kind, text) in [("int", "five"), ("unsignedInt", "1.5"), ("guid", "x"), ("int", "")] {
        let refused = read_text(&number(kind, text)).unwrap_err();
        assert_eq!(refused, format!("the property `k` is '{text}', which is no {kind}"));
    }
}

#[test]
fn spaces_at_the_ends_of_an_expression_are_kept() {
    let inside = "<Filter i:type=\"SqlFilter\"><SqlExpression>  a = 1 \n</SqlExpression></Filter>\
                  <Action i:type=\"SqlRuleAction\"><SqlExpression> SET a = 1  </SqlExpression></Action>";
    let rule = read_text(inside).unwrap();
    let Filter::Sql(filter) = &rule.filter else { panic!("{rule:?}") };
    assert_eq!((filter.text(), rule.action.as_ref().unwrap().text()), ("  a = 1 \n", " SET a = 1  "));
    assert_eq!(again(&shown(rule.clone())), rule);
    let blank = "<Filter i:type=\"SqlFilter\"><SqlExpression>  </SqlExpression></Filter>";
    assert_eq!(read_text(blank).unwrap_err(), "the `SqlExpression` is missing");
}

#[test]
fn times_are_given_back_as_they_were_written() {
    let long = format!("1970-01-01T00:00:01.{:0<48}", "");
    let cases = [
        // written, milliseconds, given back
        ("2020-07-05T11:12:13", 1_593_947_533_000, "2020-07-05T11:12:13"),
        ("2020-07-05T11:12:13Z", 1_593_947_533_000, "2020-07-05T11:12:13Z"),
        ("2020-07-05T13:12:13+02:00", 1_593_947_533_000, "2020-07-05T13:12:13+02:00"),
        ("2020-07-05T11:12:13.1234567Z", 1_593_947_533_123, "2020-07-05T11:12:13.1234567Z"),
        (" 2020-07-05T11:12:13.5 ", 1_593_947_533_500, "2020-07-05T11:12:13.5"),
        ("2020-07-05T11:12:13.000Z", 1_593_947_533_000, "2020-07-05T11:12:13.000Z"),
        // Longer than any time has to be.
        (&long, 1_000, "1970-01-01T00:00:01Z"),
    ];
    for (written, millis, expected) in cases {
        let list = |name: &str, key: &str| {
            format!(
                "<{name}><KeyValueOfstringanyType><Key>{key}</Key><Value i:type=\"d6p1:dateTime\" \
                 xmlns:d6p1=\"http://www.w3.org/2001/XMLSchema\">{written}</Value></KeyValueOfstringanyType></{name}>"
            )
        };
        let inside = format!(
            "<Filter i:type=\"CorrelationFilter\">{}</Filter><Action i:type=\"SqlRuleAction\">\
             <SqlExpression>SET a = @p</SqlExpression>{}</Action>",
            list("Properties", "k"),
            list("Parameters", "@p"),
        );
        let rule = read_text(&inside).unwrap();
        let Filter::Correlation(filter) = &rule.filter else { panic!("{rule:?}") };
        let value = Some(Value::Timestamp(millis));
        assert_eq!(filter.conditions().next().map(|(_, value)| value.clone()), value, "{written}");
        assert_eq!(rule.action.as_ref().unwrap().parameters().get("@p"), value.as_ref(), "{written}");
        let shown = shown(rule.clone());
        assert_eq!(shown.matches(&format!(">{expected}</Value>")).count(), 2, "{shown}");
        assert_eq!(again(&shown), rule, "{written}");
    }
    let longest = format!("1970-01-01T00:00:01.{:0<44}", "");
    assert!(longest.len() == WRITTEN_BYTES_MAX && is_worth_keeping(1_000, &longest));
    assert!(!is_worth_keeping(1_000, &format!("{longest}0")));
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        prop_oneof![
            any::<f64>().prop_filter("a number", |number| !number.is_nan()),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
        ]
        .prop_map(Value::Double),
        "[ -~äß€𝄞\t\r\n]{0,20}".prop_map(|text| Value::Text(text.into())),
        (-62_135_596_800_000..=253_402_300_799_999i64).prop_map(Value::Timestamp),
        any::<i64>().prop_map(Value::Duration),
    ]
}

proptest! {
    #[test]
    fn a_rule_that_was_shown_is_read_back(
        name in "[a-zA-Z0-9]{1,20}",
        conditions in proptest::collection::btree_map("[a-z]{1,8}", value(), 1..4),
        label in proptest::option::of("[ -~\t]{0,5}[!-~][ -~\n]{0,5}"),
        has_action: bool,
    ) {
        let mut filter = CorrelationFilter::new();
        for (key, value) in conditions {
            match value {
                Value::Int(_) => filter.user_written(&key, value, Written::Number(NumberType::Long)),
                value => filter.user(&key, value),
            }
        }
        if let Some(label) = label {
            filter.system(SystemProperty::Label, Value::Text(label.into()));
        }
        let action = has_action.then(|| SqlAction::parse("SET x = 'y'", Parameters::new()).unwrap());
        let rule = Rule { name: name.into(), filter: Filter::Correlation(filter), action };
        prop_assert_eq!(again(&shown(rule.clone())), rule);
    }
}
