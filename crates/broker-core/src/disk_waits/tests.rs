use super::*;

#[test]
fn each_goes_on_when_its_own_read_is_done() {
    let mut waits = DiskWaits::default();
    let (one, other) = (DiskWaiter::Store(QueueId(0)), DiskWaiter::Session(QueueId(7), SessionNumber(3)));
    for read in [ReadId(1), ReadId(2)] {
        waits.add(read, one);
        waits.add(read, one);
    }
    waits.add(ReadId(2), other);
    waits.add_requests(ReadId(3));
    assert_eq!(waits.pop(ReadId(2)), Some(one));
    assert_eq!(waits.pop(ReadId(2)), Some(other));
    assert_eq!((waits.pop(ReadId(2)), waits.pop(ReadId(4)), waits.pop(ReadId(0))), (None, None, None));
    assert!(waits.has_requests());
    assert_eq!(waits.pop(ReadId(3)), None);
    assert!(!waits.has_requests());
    assert_eq!((waits.pop(ReadId(1)), waits.pop(ReadId(1))), (Some(one), None));
}
