use amqp_codec::{
    raw::AnnotationValue,
    types::{Descriptor, TypeKind},
};
use broker_core::{SubQueue, Ticket, Timestamp};
use bytes::Bytes;

use super::*;

fn path() -> EntityPath {
    EntityPath { entity: "t/Subscriptions/s".into(), sub_queue: SubQueue::Main }
}

fn map(entries: &[(&str, AnnotationValue<'_>)]) -> RawMap {
    RawMap::with_string_keys(entries)
}

fn nested(map: &RawMap) -> AnnotationValue<'_> {
    AnnotationValue::Raw(RawValue::first(map.bytes()).unwrap())
}

/// The rule that a request with this description asks for.
fn rule(description: &RawMap) -> Result<Rule, String> {
    let body = map(&[("rule-name", AnnotationValue::Str("r")), ("rule-description", nested(description))]);
    match add(&body, path(), &mut TurnWork::unbounded()).map(|ask| ask(Ticket(1))) {
        Ok(Command::AddRule { rule, .. }) => Ok(*rule),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => {
            assert_eq!(refusal.named().condition, "com.microsoft:argument-error");
            Err(refusal.text())
        }
    }
}

fn sql(text: &str) -> RawMap {
    map(&[("expression", AnnotationValue::Str(text))])
}

fn parsed(text: &str) -> Filter {
    Filter::Sql(SqlFilter::parse(text, Parameters::new()).unwrap())
}

#[test]
fn filters_and_actions_are_read_as_each_sdk_writes_them() {
    let (all, none, some) = (sql("1=1"), sql(" 1=0 "), sql("x > 1"));
    let set = sql("SET x = 1");
    let action = SqlAction::parse("SET x = 1", Parameters::new()).unwrap();
    let cases = [
        ("JS without action", map(&[("sql-filter", nested(&all))]), Filter::True, None),
        ("false", map(&[("sql-filter", nested(&none))]), Filter::False, None),
        (
            ".NET with a null action",
            map(&[("sql-filter", nested(&some)), ("sql-rule-action", AnnotationValue::Null)]),
            parsed("x > 1"),
            None,
        ),
        (
            "Rust with an empty map for no action",
            map(&[("sql-filter", nested(&some)), ("sql-rule-action", nested(&RawMap::empty()))]),
            parsed("x > 1"),
            None,
        ),
        (
            "with an action",
            map(&[("sql-filter", nested(&some)), ("sql-rule-action", nested(&set))]),
            parsed("x > 1"),
            Some(action),
        ),
        ("nothing", RawMap::empty(), Filter::True, None),
    ];
    for (case, description, filter, action) in cases {
        let expected = Rule { name: "r".into(), filter, action };
        assert_eq!(rule(&description), Ok(expected), "{case}");
    }
}

#[test]
fn a_correlation_filter_keeps_all_that_is_given() {
    let users = map(&[("n", AnnotationValue::Uint(5)), ("s", AnnotationValue::Str("x"))]);
    let given = map(&[
        ("correlation-id", AnnotationValue::Str("c")),
        ("label", AnnotationValue::Str("l")),
        ("to", AnnotationValue::Null),
        ("properties", nested(&users)),
    ]);
    let mut filter = CorrelationFilter::new();
    filter.system(SystemProperty::CorrelationId, Value::from("c"));
    filter.system(SystemProperty::Label, Value::from("l"));
    filter.user_written("n", Value::Int(5), Written::Number(NumberType::UnsignedInt));
    filter.user("s", Value::from("x"));
    let found = rule(&map(&[("correlation-filter", nested(&given))])).unwrap();
    assert_eq!(found.filter, Filter::Correlation(filter));
}

#[test]
fn values_of_a_correlation_filter_are_shown_in_the_types_in_which_they_were_given() {
    let written = |write: &dyn Fn(&mut BytesMut)| {
        let mut out = BytesMut::new();
        write(&mut out);
        out
    };
    let cases = [
        written(&|out| types::write_byte(out, -5)),
        written(&|out| types::write_short(out, -500)),
        written(&|out| types::write_int(out, 5)),
        written(&|out| types::write_int(out, 500_000)),
        written(&|out| types::write_long(out, 5)),
        written(&|out| types::write_long(out, i64::MIN)),
        written(&|out| types::write_ubyte(out, 5)),
        written(&|out| types::write_ushort(out, 500)),
        written(&|out| types::write_uint(out, 5)),
        written(&|out| types::write_ulong(out, 5)),
        written(&|out| types::write_float(out, 0.1)),
        written(&|out| types::write_double(out, 0.1)),
        written(&|out| types::write_bool(out, true)),
        written(&|out| types::write_uuid(out, [7; 16])),
        written(&|out| types::write_timestamp(out, 1_000)),
        written(&|out| types::write_str(out, "5")),
        written(&|out| types::write_binary(out, b"5")),
        written(&|out| types::write_null(out)),
    ];
    for bytes in cases {
        let users = map(&[("key", AnnotationValue::Raw(RawValue::first(&bytes).unwrap()))]);
        let given = map(&[("properties", nested(&users))]);
        let rule = rule(&map(&[("correlation-filter", nested(&given))])).unwrap();
        let shown = answer(&[StoredRule { rule, created_at: Timestamp::default() }], 10_000);
        let entry = [b"\xa1\x03key", &bytes[..]].concat();
        assert!(shown.windows(entry.len()).any(|part| part == entry), "{bytes:x?} in {shown:x?}");
    }
    // No integer here, so it is a double.
    let users = map(&[("key", AnnotationValue::Ulong(u64::MAX))]);
    let given = map(&[("properties", nested(&users))]);
    let rule = rule(&map(&[("correlation-filter", nested(&given))])).unwrap();
    let shown = answer(&[StoredRule { rule, created_at: Timestamp::default() }], 10_000);
    assert!(shown.windows(6).any(|part| part == b"\xa1\x03key\x82"), "{shown:x?}");
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    let (bad_filter, bad_action) = (sql("x > "), sql("SET x"));
    let cases = [
        (map(&[("sql-filter", nested(&bad_filter))]), "line 1, column 5"),
        (map(&[("sql-rule-action", nested(&bad_action))]), "line 1, column 6"),
        (map(&[("sql-filter", AnnotationValue::Str("x"))]), "'sql-filter' must be a map"),
        (map(&[("sql-filter", nested(&RawMap::empty()))]), "must be a string"),
        (map(&[("correlation-filter", AnnotationValue::Int(1))]), "'correlation-filter' must be a map"),
    ];
    for (description, expected) in cases {
        let text = rule(&description).unwrap_err();
        assert!(text.contains(expected), "{text}");
    }
    assert!(add(&RawMap::empty(), path(), &mut TurnWork::unbounded()).is_err());
    assert!(remove(&RawMap::empty(), path()).is_err());
}

#[test]
fn rules_are_asked_for_in_pages() {
    let cases = [
        (vec![], Some((0, COUNT_MAX))),
        (
            vec![("top", AnnotationValue::Int(i32::MAX)), ("skip", AnnotationValue::Int(0))],
            Some((0, COUNT_MAX)),
        ),
        (vec![("top", AnnotationValue::Long(100)), ("skip", AnnotationValue::Uint(7))], Some((7, 100))),
        (vec![("top", AnnotationValue::Int(-1))], None),
        (vec![("skip", AnnotationValue::Str("1"))], None),
    ];
    for (entries, expected) in cases {
        let found = match list(&map(&entries), path()).map(|ask| ask(Ticket(1))) {
            Ok(Command::ListRules { skip, top, .. }) => Some((skip, top)),
            Ok(other) => panic!("{other:?}"),
            Err(_) => None,
        };
        assert_eq!(found, expected, "{entries:?}");
    }
}

fn stored(filter: Filter, action: Option<&str>) -> StoredRule {
    let action = action.map(|text| SqlAction::parse(text, Parameters::new()).unwrap());
    let rule = Rule { name: "r".into(), filter, action };
    StoredRule { rule, created_at: Timestamp::from_millis(7) }
}

/// The descriptions in an answer.
fn descriptions(rules: &[StoredRule], bytes_max: u64) -> Vec<Bytes> {
    let body = RawMap::new(Bytes::from(answer(rules, bytes_max).to_vec())).unwrap();
    let list = body.get("rules").unwrap();
    assert_eq!(list.kind(), Some(TypeKind::List));
    let entry = |item: RawValue<'_>| {
        let map = item.as_map().unwrap();
        assert_eq!(map.len(), 1);
        Bytes::copy_from_slice(map.get("rule-description").unwrap().bytes())
    };
    list.as_list().unwrap().map(entry).collect()
}

fn code_of(value: RawValue<'_>) -> (u64, Vec<Bytes>) {
    let (Descriptor::Code(code), list) = value.described().unwrap() else { panic!("{value:?}") };
    (code, list.to_items().unwrap())
}

#[test]
fn the_answer_has_the_descriptors_that_the_sdks_compare() {
    let correlation = {
        let mut filter = CorrelationFilter::new();
        filter.system(SystemProperty::Label, Value::from("l"));
        filter.user("n", Value::Double(5.0));
        Filter::Correlation(filter)
    };
    let cases = [
        (stored(Filter::True, None), 83_483_426_823, 0, 1_335_734_829_061, 0),
        (stored(Filter::False, None), 83_483_426_824, 0, 1_335_734_829_061, 0),
        (stored(parsed("x > 1"), Some("SET y = 2")), 83_483_426_822, 2, 1_335_734_829_062, 2),
        (stored(correlation, None), 83_483_426_825, 9, 1_335_734_829_061, 0),
    ];
    for (rule, filter_code, filter_fields, action_code, action_fields) in cases {
        let found = descriptions(&[rule], u64::MAX);
        let (code, fields) = code_of(RawValue::first(&found[0]).unwrap());
        assert_eq!((code, fields.len()), (1_335_734_829_060, 4));
        let (code, filter) = code_of(RawValue::first(&fields[0]).unwrap());
        assert_eq!((code, filter.len()), (filter_code, filter_fields));
        let (code, action) = code_of(RawValue::first(&fields[1]).unwrap());
        assert_eq!((code, action.len()), (action_code, action_fields));
        assert_eq!(RawValue::first(&fields[2]).unwrap().as_string(), Some("r"));
        assert_eq!(RawValue::first(&fields[3]).unwrap().as_timestamp(), Some(7));
        if filter.len() == 2 {
            assert_eq!(RawValue::first(&filter[0]).unwrap().as_string(), Some("x > 1"));
            let level = RawValue::first(&filter[1]).unwrap();
            assert_eq!((level.kind(), level.as_i64()), (Some(TypeKind::Int), Some(20)));
        }
        if filter.len() == 9 {
            assert!(RawValue::first(&filter[0]).unwrap().is_null());
            assert_eq!(RawValue::first(&filter[4]).unwrap().as_string(), Some("l"));
            let users = RawValue::first(&filter[8]).unwrap().as_map().unwrap();
            assert_eq!(users.get("n").unwrap().as_f64(), Some(5.0));
        }
    }
}

#[test]
fn each_field_of_a_correlation_filter_is_read_and_shown_in_its_place() {
    // The order in which the SDKs read the list.
    let fields = [
        ("correlation-id", SystemProperty::CorrelationId),
        ("message-id", SystemProperty::MessageId),
        ("to", SystemProperty::To),
        ("reply-to", SystemProperty::ReplyTo),
        ("label", SystemProperty::Label),
        ("session-id", SystemProperty::SessionId),
        ("reply-to-session-id", SystemProperty::ReplyToSessionId),
        ("content-type", SystemProperty::ContentType),
    ];
    for (place, (key, property)) in fields.into_iter().enumerate() {
        let given = map(&[(key, AnnotationValue::Str("x"))]);
        let found = rule(&map(&[("correlation-filter", nested(&given))])).unwrap();
        let mut expected = CorrelationFilter::new();
        expected.system(property, Value::from("x"));
        assert_eq!(found.filter, Filter::Correlation(expected), "{key}");
        let shown = descriptions(&[stored(found.filter, None)], u64::MAX);
        let (_, fields) = code_of(RawValue::first(&shown[0]).unwrap());
        let (_, filter) = code_of(RawValue::first(&fields[0]).unwrap());
        let texts: Vec<_> =
            filter[..8].iter().map(|field| RawValue::first(field).unwrap().as_string()).collect();
        let mut expected = [None; 8];
        expected[place] = Some("x");
        assert_eq!(texts, expected, "{key}");
    }
}

#[test]
fn an_answer_stops_before_it_grows_too_large_but_shows_one_rule() {
    let rules = vec![stored(Filter::True, None), stored(Filter::True, None), stored(Filter::True, None)];
    let two = answer(rules.get(..2).unwrap(), u64::MAX).len() as u64;
    for (bytes_max, shown) in [(0, 1), (two, 2), (u64::MAX, 3)] {
        assert_eq!(descriptions(&rules, bytes_max).len(), shown, "{bytes_max}");
    }
    assert!(descriptions(&[], 0).is_empty());
}
