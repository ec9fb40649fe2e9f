use amqp_codec::types::DeliveryTag;

use super::*;

const PIECE: usize = 256 << 10;

/// Memory in which things are stored, or written, together.
fn piece() -> Bytes {
    Bytes::from((0..=u8::MAX).cycle().take(PIECE).collect::<Vec<_>>())
}

/// Compacts waiting deliveries whose sections and bare messages are slices, each from a place in one piece of memory and of
/// a length. Says of each delivery whether its sections are still such a slice, and whether its bare message is.
fn kept(deliveries: impl IntoIterator<Item = ((usize, usize), (usize, usize))>) -> (Vec<bool>, Vec<bool>) {
    let (all_sections, all_bare) = (piece(), piece());
    let slice = |all: &Bytes, (at, length): (usize, usize)| all.slice(at..at + length);
    let shares = |all: &Bytes, part: &Bytes| !part.is_empty() && all.as_ptr_range().contains(&part.as_ptr());
    let mut compaction = Compaction::default();
    deliveries
        .into_iter()
        .map(|(sections, bare)| {
            let (sections, bare) = (slice(&all_sections, sections), slice(&all_bare, bare));
            let whole = [&sections[..], &bare[..]].concat();
            let delivery = OutgoingDelivery::new(DeliveryTag::from([0; 16]), sections, bare);
            let mut queued = Queued { link: 1, id: 2, sent: None, delivery };
            compaction.compact(&mut queued);
            let (front, rest) = queued.payload(0..whole.len());
            assert_eq!([front, rest].concat(), whole);
            (shares(&all_sections, &queued.delivery.sections), shares(&all_bare, &queued.delivery.bare))
        })
        .unzip()
}

/// Bare messages at these places; their sections follow each other closely.
fn bare_kept(bare: impl IntoIterator<Item = (usize, usize)>) -> Vec<bool> {
    kept((0..).map(|number| (number * 100, 90)).zip(bare)).1
}

#[test]
fn small_messages_that_lie_apart_get_memory_of_their_own() {
    assert_eq!(bare_kept((0..100).map(|number| (number * 2_000, 100))), [false; 100]);
    // Pairs of them do not help, nor does going backwards, or being the same message again and again.
    let pairs = (0..100).map(|number| (number / 2 * 4_000 + number % 2 * 150, 100));
    assert_eq!(bare_kept(pairs), [false; 100]);
    assert_eq!(bare_kept((0..1_000).rev().map(|number| (number * 150, 100))), [false; 1_000]);
    assert_eq!(bare_kept([(5_000, 4_000); 50]), [false; 50]);
}

#[test]
fn messages_that_lie_together_share_memory_once_they_are_worth_it() {
    let kept = bare_kept((0..200).map(|number| (number * 1_100, 1_000)));
    let first = BARE_WORTH.div_ceil(1_000) - 1;
    assert!(kept[..first].iter().all(|kept| !kept) && kept[first..].iter().all(|kept| *kept), "{kept:?}");
}

#[test]
fn a_large_message_is_worth_the_memory_that_it_keeps_wherever_it_lies() {
    let places = [(100_000, BARE_WORTH), (5_000, BARE_WORTH - 1), (190_000, BARE_WORTH), (0, 0)];
    assert_eq!(bare_kept(places), [true, false, true, false]);
}

#[test]
fn sections_that_were_written_among_those_of_others_get_memory_of_their_own_too() {
    let bare = |number: usize| (number * 2_600, 2_500);
    let first = BARE_WORTH.div_ceil(2_500);
    // Between two of them, 2,000 bytes of somebody else's were written.
    let (sections, bares) = kept((0..100).map(|number| ((number * 2_100, 100), bare(number))));
    assert_eq!(sections, [false; 100]);
    assert!(bares[first..].iter().all(|kept| *kept));
    // And none.
    let (sections, _) = kept((0..100).map(|number| ((number * 100, 100), bare(number))));
    assert!(sections[first.max(SECTIONS_WORTH.div_ceil(100))..].iter().all(|kept| *kept));
    // Large ones stay where they are although their message does not.
    assert_eq!(kept([((10_000, SECTIONS_WORTH), (30_000, 100))]), (vec![true], vec![false]));
}
