use proptest::prelude::*;

use super::*;

#[test]
fn only_what_is_well_formed_names_a_trace() {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let span = "b7ad6b7169203331";
    let cases = [
        (format!("00-{trace}-{span}-01"), Some(true)),
        (format!("00-{trace}-{span}-00"), Some(false)),
        (format!("00-{trace}-{span}-03"), Some(true)),
        (format!("00-{trace}-{span}-02"), Some(false)),
        (format!("cc-{trace}-{span}-01-what-the-future-will-be-like"), Some(true)),
        (format!("00-{trace}-{span}-01-more"), None),
        (format!("ff-{trace}-{span}-01"), None),
        (format!("00-{}-{span}-01", "0".repeat(32)), None),
        (format!("00-{trace}-{}-01", "0".repeat(16)), None),
        (format!("00-{}-{span}-01", trace.to_uppercase()), None),
        (format!("00-{trace}0-{span}-01"), None),
        (format!("00-{trace}-{span}-1"), None),
        (format!("00-{trace}-{span}"), None),
        (format!("0-{trace}-{span}-01"), None),
        (format!("00-+{}-{span}-01", &trace[1..]), None),
        (format!("|{trace}.{span}."), None),
        (String::new(), None),
    ];
    for (header, expected) in cases {
        let found = TraceContext::parse(&header);
        assert_eq!(found.as_ref().map(|context| context.sampled), expected, "{header}");
        if let Some(context) = found {
            assert_eq!((context.trace_id().as_str(), context.span_id().as_str()), (trace, span), "{header}");
        }
    }
}

#[test]
fn a_state_that_may_not_be_passed_on_is_left_out() {
    let context = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
    let cases = [
        ("a=1,b=2", true),
        (&"x".repeat(512), true),
        (&"x".repeat(513), false),
        ("", false),
        ("a=1\r\nX: y", false),
        ("a=ü", false),
    ];
    for (state, kept) in cases {
        let state = state.to_owned();
        let found = context.clone().with_state(Some(&state));
        assert_eq!(found.state(), kept.then_some(state.as_str()), "{state}");
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_read_is_what_is_written(text in "\\PC{0,80}", trace in 1u128.., span in 1u64..) {
        let _any: Option<TraceContext> = TraceContext::parse(&text);
        let header = format!("00-{trace:032x}-{span:016x}-01");
        let context = TraceContext::parse(&header).unwrap();
        prop_assert_eq!(context.trace_id(), format!("{trace:032x}"));
        prop_assert_eq!(context.span_id(), format!("{span:016x}"));
    }
}
