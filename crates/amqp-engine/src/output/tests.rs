use super::*;

#[test]
fn a_frame_too_long_is_tried_short_and_then_left_out() {
    let cases = [
        // long, short, frame limit, what is written
        (10, 5, 18, Some(18)),
        (11, 5, 18, Some(13)),
        (11, 11, 18, None),
    ];
    for case @ (long, short, limit, expected) in cases {
        let mut out = BytesMut::from(&b"before"[..]);
        let written = write_bounded(
            &mut out,
            limit,
            0,
            |out| out.extend_from_slice(&vec![1; long]),
            |out| out.extend_from_slice(&vec![2; short]),
        );
        assert_eq!((written, out.len()), (expected.is_some(), 6 + expected.unwrap_or(0)), "{case:?}");
    }
}

#[test]
fn descriptions_are_cut_between_characters() {
    let error = Error::new("amqp:internal-error", "ü".repeat(SHORT_DESCRIPTION));
    let short = shorten(&error);
    assert_eq!(short.description.unwrap().len(), SHORT_DESCRIPTION);
    let error = Error::new("amqp:internal-error", format!("x{}", "ü".repeat(SHORT_DESCRIPTION)));
    assert_eq!(shorten(&error).description.unwrap().len(), SHORT_DESCRIPTION - 1);
}
