use super::*;

#[test]
fn a_transfer_reads_back_as_it_was_written() {
    let transfer = Transfer {
        handle: 7,
        delivery_id: Some(300),
        delivery_tag: Some([9; 16].into()),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::default()
    };
    let mut out = BytesMut::new();
    transfer.encode(&mut out);
    out.extend_from_slice(b"payload");
    let (performative, rest) = decode(&out.freeze()).unwrap();
    assert_eq!(performative, Performative::Transfer(transfer));
    assert_eq!(&rest[..], b"payload");
}
