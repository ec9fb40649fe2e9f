//! Rules of any kind, and values of any type.

use proptest::{prelude::*, sample::select};

use super::{Fields, canonical, element, own_name, text, xml};

/// A rule as it is sent, and what is to be shown of it.
#[derive(Clone, Debug)]
pub(in crate::descriptions) struct Rule {
    pub(in crate::descriptions) name: String,
    /// What is inside of its description.
    pub(in crate::descriptions) sent: String,
    pub(in crate::descriptions) shown: Fields,
}

/// A rule with a filter and an action of any kind; one that a subscription begins with may go without a name.
pub(super) fn rule(is_first: bool) -> impl Strategy<Value = Rule> {
    let filter = prop_oneof![
        Just(constant("TrueFilter", "1=1")),
        Just(constant("FalseFilter", "1=0")),
        sql_filter(),
        correlation(),
    ];
    (own_name(), any::<bool>(), filter, action()).prop_map(move |(own, is_unnamed, filter, action)| {
        let is_unnamed = is_first && is_unnamed;
        let name = if is_unnamed { "$Default".to_owned() } else { own };
        let written = if is_unnamed { String::new() } else { element("Name", &name) };
        let mut shown: Fields = filter.1.into_iter().chain(action.1).collect();
        shown.insert("Name".into(), name.clone());
        Rule { sent: format!("{}{}{written}", filter.0, action.0), name, shown }
    })
}

/// What is sent, and what is to be shown of it.
pub(super) type Part = (String, Fields);

pub(super) fn constant(kind: &str, text: &str) -> Part {
    let sent = format!("<Filter i:type=\"{kind}\">{}</Filter>", element("SqlExpression", text));
    (sent, expression("Filter", kind, text))
}

/// What is shown of an expression without parameters.
fn expression(place: &str, kind: &str, text: &str) -> Fields {
    Fields::from([
        (place.to_owned(), kind.to_owned()),
        (format!("{place}/SqlExpression"), text.to_owned()),
        (format!("{place}/CompatibilityLevel"), "20".to_owned()),
    ])
}

fn sql_filter() -> BoxedStrategy<Part> {
    let literal = text(0..60).prop_map(|text| format!("name = '{}'", text.replace('\'', "''")));
    let longest = Just(format!("{}a = 1", "a = 1 OR ".repeat(113)) + "00");
    let known = select(vec![
        "amount > 100.5 AND NOT (region IN ('eu', 'us'))".to_owned(),
        "sys.Label LIKE '50!%%' ESCAPE '!' OR EXISTS(colour)".to_owned(),
        "a = @a AND user.b IS NOT NULL".to_owned(),
        "-(x + 1) * 2 >= y % 3".to_owned(),
    ]);
    let text = prop_oneof![3 => known, 1 => literal, 1 => longest];
    (text, values("@", &["@a"])).prop_map(|(text, given)| sql("Filter", "SqlFilter", &text, &given)).boxed()
}

fn action() -> BoxedStrategy<Part> {
    let shown = || Fields::from([("Action".to_owned(), "EmptyRuleAction".to_owned())]);
    let known = select(vec![
        "SET sys.Label = @l".to_owned(),
        "SET size = 'groß'; REMOVE colour; SET n = n + 1".to_owned(),
        format!("SET a = '{}'", "x".repeat(1_014)),
    ]);
    prop_oneof![
        Just((String::new(), shown())),
        Just(("<Action i:type=\"EmptyRuleAction\"/>".to_owned(), shown())),
        (known, values("@", &["@l"])).prop_map(|(text, given)| sql("Action", "SqlRuleAction", &text, &given)),
    ]
    .boxed()
}

fn sql(place: &str, kind: &str, text: &str, given: &[Given]) -> Part {
    let (list, values) = listed(place, "Parameters", given);
    let sent = format!(
        "<{place} i:type=\"{kind}\">{}<CompatibilityLevel>20</CompatibilityLevel>{list}</{place}>",
        element("SqlExpression", &xml(text))
    );
    let mut shown = expression(place, kind, text);
    shown.extend(values);
    (sent, shown)
}

const SYSTEM: [&str; 8] =
    ["CorrelationId", "MessageId", "To", "ReplyTo", "Label", "SessionId", "ReplyToSessionId", "ContentType"];

fn correlation() -> BoxedStrategy<Part> {
    let words = text(1..30).prop_filter("white space alone says nothing", |text| !text.trim().is_empty());
    let fields = proptest::sample::subsequence(SYSTEM.to_vec(), 0..=8);
    (fields, proptest::collection::vec(words, 8), values("", &["grade"]))
        .prop_map(|(fields, words, given)| {
            let (list, mut shown) = listed("Filter", "Properties", &given);
            let mut sent = String::new();
            for (name, text) in fields.into_iter().zip(words) {
                sent += &element(name, &xml(&text));
                shown.insert(format!("Filter/{name}"), text);
            }
            shown.insert("Filter".to_owned(), "CorrelationFilter".to_owned());
            (format!("<Filter i:type=\"CorrelationFilter\">{sent}{list}</Filter>"), shown)
        })
        .boxed()
}

/// The name of a value, its type and text as they are sent, and as they are shown.
type Given = (String, (String, String), (String, String));

fn listed(place: &str, list: &str, given: &[Given]) -> Part {
    let (mut sent, mut shown) = (String::new(), Fields::new());
    for (name, (kind, text), (shown_kind, shown_text)) in given {
        let prefix =
            if kind == "duration" { "http://schemas.microsoft.com/2003/10/Serialization/" } else { SCHEMA };
        sent.extend([format!(
            "<KeyValueOfstringanyType><Key>{}</Key><Value i:type=\"d6p1:{kind}\" xmlns:d6p1=\"{prefix}\">{}</Value>\
             </KeyValueOfstringanyType>",
            xml(name),
            xml(text)
        )]);
        shown.insert(format!("{place}/{list}/{name}"), format!("{shown_kind} {shown_text}"));
    }
    (element(list, &sent), shown)
}

const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";

/// Values under the names that are needed, and some more.
fn values(sign: &'static str, needed: &'static [&'static str]) -> impl Strategy<Value = Vec<Given>> {
    let more = proptest::collection::btree_set("[b-kä☃][a-zäöü_0-9]{0,19}", 0..4);
    (more, proptest::collection::vec(value(), 5)).prop_map(move |(more, values)| {
        let more = more.into_iter().map(|name| format!("{sign}x{name}"));
        let names = needed.iter().map(|name| (*name).to_owned()).chain(more);
        names.zip(values).map(|(name, (sent, shown))| (name, sent, shown)).collect()
    })
}

type Typed = (String, String);

/// A value of each type that clients send.
fn value() -> impl Strategy<Value = (Typed, Typed)> {
    let same =
        |kind: &'static str| move |text: String| ((kind.to_owned(), text.clone()), (kind.to_owned(), text));
    let whole = |kinds: Vec<&'static str>, numbers: BoxedStrategy<i64>| {
        (select(kinds), numbers).prop_map(|(kind, number)| {
            let given = (kind.to_owned(), number.to_string());
            (given.clone(), given)
        })
    };
    let small = (i64::from(i32::MIN)..=i64::from(i32::MAX)).boxed();
    let double = prop_oneof![any::<f64>().prop_map(|number| number.to_string()), Just("NaN".to_owned())];
    let infinite = select(vec!["INF", "-INF"]).prop_map(str::to_owned);
    let double = prop_oneof![3 => double, 1 => infinite].prop_map(|text| match &*text {
        "inf" => "INF".to_owned(),
        "-inf" => "-INF".to_owned(),
        _ => text,
    });
    prop_oneof![
        text(0..30).prop_map(same("string")),
        whole(vec!["int", "long"], small),
        whole(vec!["long"], any::<i64>().boxed()),
        whole(vec!["short", "unsignedInt", "unsignedByte"], (0..=255_i64).boxed()),
        double.prop_map(same("double")),
        any::<bool>().prop_map(|on| on.to_string()).prop_map(same("boolean")),
        date_time().prop_map(same("dateTime")),
        duration().prop_map(same("duration")),
    ]
}

fn date_time() -> impl Strategy<Value = String> {
    let day = (1..=9_999_u32, 1..=12_u32, 1..=28_u32);
    let clock = (0..24_u32, 0..60_u32, 0..60_u32, "(\\.[0-9]{1,7})?");
    // Whatever the zone, and with none: it is shown as it was sent.
    let zone = select(vec!["Z", "", "+05:30", "-08:00"]);
    (day, clock, zone).prop_map(|((year, month, day), (hour, minute, second, fraction), zone)| {
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}")
    })
}

fn duration() -> impl Strategy<Value = String> {
    any::<i64>().prop_map(|ticks| {
        let (sign, size) = (if ticks < 0 { "-" } else { "" }, ticks.unsigned_abs());
        format!("{sign}{}", canonical(size / 10_000_000, size % 10_000_000))
    })
}
