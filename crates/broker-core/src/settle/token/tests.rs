use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn a_token_tells_its_lock_to_the_key_alone(queue: u32, lock: u32, sequence: u64) {
        let lock = (QueueId(queue), LockId(lock), SequenceNumber(sequence));
        let token = LockTokenCipher::new([1; 16]).seal(lock.0, lock.1, lock.2);
        prop_assert_eq!(LockTokenCipher::new([1; 16]).open(token), lock);
        prop_assert_ne!(LockTokenCipher::new([2; 16]).open(token), lock);
    }
}

#[test]
fn the_key_is_not_printed() {
    assert_eq!(format!("{:?}", LockTokenCipher::new([65; 16])), "LockTokenCipher(key hidden)");
}
