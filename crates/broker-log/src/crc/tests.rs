use proptest::prelude::*;

use super::*;

/// One bit at a time, as the polynomial says.
fn plainly(before: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!before, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[test]
fn the_examples_of_rfc_3720_come_out() {
    let rising: Vec<u8> = (0..32).collect();
    let falling: Vec<u8> = (0..32).rev().collect();
    let cases: [(&[u8], u32); 6] = [
        (b"", 0),
        (b"123456789", 0xe306_9283),
        (&[0; 32], 0x8a91_36aa),
        (&[0xff; 32], 0x62a8_ab43),
        (&rising, 0x46dd_794e),
        (&falling, 0x113f_db5c),
    ];
    for (bytes, sum) in cases {
        assert_eq!(crc32c(bytes), sum, "{bytes:?}");
    }
}

proptest! {
    /// Lengths on both sides of every size at which the library takes other instructions.
    #[test]
    fn every_length_and_split_gives_the_checksum_of_the_polynomial(
        bytes in prop::collection::vec(any::<u8>(), 0..3_000),
        before in any::<u32>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]);
        prop_assert_eq!(crc32c_of(before, pieces.clone()), plainly(before, &bytes));
        prop_assert_eq!(pieces.fold(before, crc32c_append), plainly(before, &bytes));
    }
}
