use amqp_codec::performative::Transfer;

use super::{Assembly, FILLER, STAMP_BYTES, Stamp, check_order};

const SIZE: usize = 100;
const STAMP: Stamp = Stamp { sender: 0, number: 5, due: 9 };

fn filler() -> Vec<u8> {
    vec![FILLER; SIZE - STAMP_BYTES]
}

/// Sections in front, then a body.
fn payload() -> Vec<u8> {
    [&b"front"[..], &filler(), &STAMP.to_bytes()].concat()
}

fn transfer(more: bool) -> Transfer {
    Transfer { delivery_id: Some(7), more, ..Transfer::default() }
}

#[test]
fn a_message_in_one_frame_is_known_by_its_stamp() {
    let taken = Assembly::default().take(&transfer(false), &payload(), &filler()).unwrap();
    assert_eq!(taken, Some((7, STAMP)));
}

#[test]
fn a_message_may_be_cut_into_two_frames_anywhere() {
    let payload = payload();
    for cut in 1..payload.len() {
        let (front, rest) = payload.split_at(cut);
        let mut assembly = Assembly::default();
        let begun = assembly.take(&transfer(true), front, &filler()).unwrap();
        assert_eq!(begun, None, "{cut}");
        // A cut in front of the body leaves more than the body.
        let whole = assembly.take(&transfer(false), rest, &filler());
        if cut >= 5 {
            assert_eq!(whole.unwrap(), Some((7, STAMP)), "{cut}");
        }
    }
}

#[test]
fn a_damaged_or_short_body_is_an_error() {
    let good = payload();
    let mut damaged = good.clone();
    damaged[20] ^= 1;
    let short = &good[..STAMP_BYTES + 10];
    for bytes in [&damaged[..], short] {
        assert!(Assembly::default().take(&transfer(false), bytes, &filler()).is_err());
    }
}

#[test]
fn a_message_that_was_overtaken_or_comes_twice_is_an_error() {
    let at = |number| Stamp { number, ..STAMP };
    let mut next = vec![0];
    assert!(check_order(&mut next, at(3)).is_ok());
    assert!(check_order(&mut next, at(4)).is_ok());
    assert!(check_order(&mut next, at(4)).is_err());
    assert!(check_order(&mut next, at(2)).is_err());
    // A sender of another run.
    assert!(check_order(&mut next, Stamp { sender: 1, ..STAMP }).is_ok());
}
