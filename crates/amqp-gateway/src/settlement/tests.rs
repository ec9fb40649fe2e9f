use super::*;

use Answer::{Detach, NoTransaction, WhenDone};
use Deed::{Abandon, Complete, DeadLetter, Defer, Release};
use Face::{Plain, ServiceBus};
use SenderSettleMode::{Mixed, Settled, Unsettled};

const fn modified(delivery_failed: Option<bool>, undeliverable_here: Option<bool>) -> Said {
    Said::Modified { delivery_failed, undeliverable_here }
}

/// What is said, then deed and answer for Service Bus and plain AMQP, first unsettled then settled: the rows of
/// `docs/features/settlement.md`.
type Row = (Said, [(Deed, Answer); 2], [(Deed, Answer); 2]);

fn rows() -> Vec<Row> {
    let nothing = (Deed::Nothing, Answer::Nothing);
    let both = |deed: Deed| [(deed, WhenDone), (deed, Answer::Nothing)];
    let mut rows = vec![
        (Said::Nothing, [nothing, (Release, Answer::Nothing)], [nothing, (Release, Answer::Nothing)]),
        (Said::Received, [nothing, (Release, Answer::Nothing)], [nothing, (Release, Answer::Nothing)]),
        (Said::Accepted, both(Complete), both(Complete)),
        (Said::Rejected, both(DeadLetter), both(DeadLetter)),
        (Said::Released, both(Release), both(Release)),
        (
            Said::Transactional,
            [(Deed::Nothing, NoTransaction), nothing],
            [(Release, NoTransaction), (Release, Answer::Nothing)],
        ),
        (
            Said::Foreign,
            [(Deed::Nothing, Detach), (Deed::Nothing, Detach)],
            [(Deed::Nothing, Detach), (Deed::Nothing, Detach)],
        ),
    ];
    for undeliverable in [None, Some(false)] {
        rows.push((modified(None, undeliverable), both(Abandon), both(Release)));
        rows.push((modified(Some(false), undeliverable), both(Abandon), both(Release)));
        rows.push((modified(Some(true), undeliverable), both(Abandon), both(Abandon)));
    }
    for failed in [None, Some(false), Some(true)] {
        rows.push((modified(failed, Some(true)), both(Defer), both(DeadLetter)));
    }
    rows
}

#[test]
fn every_combination_has_its_row() {
    for (said, service_bus, plain) in rows() {
        for mode in [Unsettled, Mixed] {
            for (face, expected) in [(ServiceBus, service_bus), (Plain, plain)] {
                for (settled, (deed, answer)) in [(false, expected[0]), (true, expected[1])] {
                    let verdict = settlement(face, mode, settled, said, Said::Nothing);
                    assert_eq!(
                        verdict,
                        Verdict { deed, answer },
                        "{face:?} {mode:?} settled={settled} {said:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn nothing_said_about_a_pre_settled_delivery_counts() {
    for (said, ..) in rows() {
        for face in [ServiceBus, Plain] {
            for settled in [false, true] {
                let verdict = settlement(face, Settled, settled, said, Said::Accepted);
                assert_eq!(verdict, Verdict { deed: Deed::Nothing, answer: Answer::Nothing }, "{said:?}");
            }
        }
    }
}

#[test]
fn settling_without_a_word_means_the_default_outcome() {
    let cases = [
        // default outcome, deed
        (Said::Nothing, Release),
        (Said::Accepted, Complete),
        (Said::Released, Release),
        (Said::Rejected, DeadLetter),
        (modified(Some(true), None), Abandon),
        (modified(Some(false), None), Release),
        (modified(None, Some(true)), DeadLetter),
        (Said::Received, Release),
        (Said::Foreign, Release),
    ];
    for (default_outcome, deed) in cases {
        let verdict = settlement(Plain, Mixed, true, Said::Nothing, default_outcome);
        assert_eq!(verdict, Verdict { deed, answer: Answer::Nothing }, "{default_outcome:?}");
        assert_eq!(settlement(Plain, Mixed, false, Said::Nothing, default_outcome).deed, Deed::Nothing);
    }
}
