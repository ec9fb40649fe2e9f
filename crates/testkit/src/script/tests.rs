use super::*;

#[test]
fn a_script_reads_the_frames_of_another_however_they_are_cut() {
    let mut sender = Script::new();
    sender.sasl("ANONYMOUS", None).open("me").begin(3).attach_sender(3, 0, "link", Some("orders"));
    sender.transfer(3, 0, 7, false, b"payload").heartbeat().close(None);
    let bytes = sender.take_output();
    let mut whole = Script::new();
    whole.handle_input(&bytes);
    let mut cut = Script::new();
    for byte in &bytes {
        cut.handle_input(&[*byte]);
    }
    let all = |script: &mut Script| std::iter::from_fn(|| script.poll()).collect::<Vec<_>>();
    let (whole_frames, cut_frames) = (all(&mut whole), all(&mut cut));
    assert_eq!(whole_frames.len(), 9);
    assert_eq!(whole_frames, cut_frames);
    assert!(whole.broken().is_none());
    assert!(matches!(
        &whole_frames[6],
        Incoming::Frame(Received { channel: 3, performative: Performative::Transfer(transfer), payload })
            if transfer.delivery_id == Some(7) && payload.as_ref() == b"payload"
    ));
}

#[test]
fn bytes_that_are_no_amqp_are_said_to_be_so() {
    let mut script = Script::new();
    script.handle_input(b"HTTP/1.1 400 Bad Request\r\n");
    assert!(script.broken().is_some());
}
