use amqp_codec::frame::ProtocolHeader;
use amqp_codec::performative::Open;

use crate::pair::*;

#[test]
fn open_is_answered_with_our_limits() {
    let mut pair = Pair::new(plain());
    pair.feed(&ProtocolHeader::Amqp.to_bytes());
    pair.feed(&amqp(0, Open::new("client")));
    let got = pair.read();
    assert_eq!(got[0], Got::Header(ProtocolHeader::Amqp));
    let Got::Frame(0, amqp_codec::performative::Performative::Open(open), _) = &got[1] else {
        panic!("{got:?}")
    };
    assert_eq!(open.max_frame_size, 65_536);
    assert_eq!(open.idle_time_out, Some(120_000));
}
