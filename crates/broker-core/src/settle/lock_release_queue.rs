//! Locks that are to end and wait for a call with room for them, or for a read of the disk.
//!
//! Invariant: a lock in this queue is locked like any other until it is taken from the queue.

use std::collections::VecDeque;

use crate::{LockRef, ReadId, store::reads_in_vain::READS_IN_VAIN_MAX};

/// Locks that no client will settle.
#[derive(Debug, Default)]
pub(crate) struct LockReleaseQueue {
    waiting: VecDeque<PendingRelease>,
    /// Locks of messages that become dead letters and are read from the disk for that.
    awaiting_disk: Vec<(ReadId, PendingRelease)>,
}

/// A lock to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingRelease {
    pub(crate) lock: LockRef,
    /// It counts as a failed delivery.
    pub(crate) fail: bool,
    /// Reads that it has waited for.
    reads: u8,
}

impl PendingRelease {
    /// Whether it need not be ended now if its message is to be read from the disk.
    pub(crate) fn may_wait(self) -> bool {
        self.reads < READS_IN_VAIN_MAX
    }
}

impl LockReleaseQueue {
    /// Whether a lock can be ended before another read is done.
    pub(crate) fn has_work(&self) -> bool {
        !self.waiting.is_empty() && self.awaiting_disk.len() < READS_MAX
    }

    /// Whether a lock waits for a read of the disk.
    pub(crate) fn is_reading(&self) -> bool {
        !self.awaiting_disk.is_empty()
    }

    /// A lock ends, as failed or not, as soon as there is room for it.
    pub(crate) fn push(&mut self, lock: LockRef, fail: bool) {
        self.waiting.push_back(PendingRelease { lock, fail, reads: 0 });
    }

    /// Takes the first lock that can be ended.
    pub(crate) fn pop(&mut self) -> Option<PendingRelease> {
        if self.has_work() { self.waiting.pop_front() } else { None }
    }

    /// Gives back a lock that was taken: it ends when this read is done. Others end meanwhile.
    pub(crate) fn put_back_to_read(&mut self, release: PendingRelease, read: ReadId) {
        self.awaiting_disk.push((read, PendingRelease { reads: release.reads + 1, ..release }));
    }

    /// A read is done: the locks that have waited for it are the first ones.
    pub(crate) fn on_read(&mut self, read: ReadId) {
        let done: Vec<_> = self.awaiting_disk.extract_if(.., |(waited, _)| *waited == read).collect();
        for (_, release) in done.into_iter().rev() {
            self.waiting.push_front(release);
        }
    }
}

/// Locks that wait for the disk at the same time.
const READS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockId, QueueId};

    fn queue(locks: u64) -> LockReleaseQueue {
        let mut queue = LockReleaseQueue::default();
        for sequence in 0..locks {
            queue.push(LockRef { queue: QueueId(1), sequence, lock: LockId(7) }, false);
        }
        queue
    }

    fn number(release: Option<PendingRelease>) -> Option<u64> {
        release.map(|release| release.lock.sequence)
    }

    #[test]
    fn a_lock_that_waits_for_the_disk_holds_up_no_other_and_comes_first_afterwards() {
        let mut queue = queue(4);
        for (sequence, read) in [(0, 8), (1, 9), (2, 8)] {
            let release = queue.pop().unwrap();
            assert_eq!(release.lock.sequence, sequence);
            queue.put_back_to_read(release, ReadId(read));
        }
        assert!(queue.is_reading() && queue.has_work());
        queue.on_read(ReadId(8));
        assert_eq!([0, 2, 3].map(Some), [(); 3].map(|()| number(queue.pop())));
        assert!(queue.is_reading() && !queue.has_work());
        queue.on_read(ReadId(7));
        assert_eq!(number(queue.pop()), None);
        queue.on_read(ReadId(9));
        assert_eq!(number(queue.pop()), Some(1));
        assert!(!queue.is_reading());
    }

    #[test]
    fn so_many_wait_for_the_disk_at_once_and_the_others_after_them() {
        let most = READS_MAX as u64;
        let mut queue = queue(most + 1);
        for read in 0..most {
            let release = queue.pop().unwrap();
            queue.put_back_to_read(release, ReadId(read));
        }
        assert!(!queue.has_work());
        assert_eq!(number(queue.pop()), None);
        queue.on_read(ReadId(3));
        assert_eq!(number(queue.pop()), Some(3));
        assert_eq!(number(queue.pop()), Some(most));
    }

    #[test]
    fn a_lock_waits_so_often_and_no_more() {
        let mut queue = queue(1);
        for read in 0..u64::from(READS_IN_VAIN_MAX) {
            let release = queue.pop().unwrap();
            assert!(release.may_wait(), "{read}");
            queue.put_back_to_read(release, ReadId(read));
            queue.on_read(ReadId(read));
        }
        assert!(!queue.pop().unwrap().may_wait());
    }
}
