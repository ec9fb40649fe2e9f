use super::*;

#[test]
fn options_are_read_escaped_or_not() {
    let query = |version: &str, skip, top| {
        Ok(Query { version: version.into(), skip, top, is_total_size: false, names: NameScope::ServiceBus })
    };
    let cases = [
        ("", query("", 0, 100)),
        ("api-version=2021-05", query("2021-05", 0, 100)),
        ("api-version=2017-04&enrich=False&%24skip=5&%24top=7", query("2017-04", 5, 7)),
        ("$SKIP=18446744073709551615&$top=501", query("", u64::MAX, 500)),
        ("$top=0", query("", 0, 1)),
        ("api-version=<script>", query("", 0, 100)),
        ("$skip=-1", Err("`$skip` is not a number that can be used".to_owned())),
        ("$top=x", Err("`$top` is not a number that can be used".to_owned())),
        ("&&=&%ff=%ff", query("", 0, 100)),
    ];
    for (text, expected) in cases {
        assert_eq!(Query::parse(text), expected, "{text}");
    }
}
