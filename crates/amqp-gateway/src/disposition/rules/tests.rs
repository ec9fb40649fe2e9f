use amqp_codec::performative::TxnId;

use super::*;

use Dialect::{Plain, ServiceBus};
use QueueAction::{Abandon, Complete, DeadLetter, Defer, Release};
use SenderSettleMode::{Mixed, Settled, Unsettled};
use SettlementReply::{Detach, NoTransaction, WhenDone};

const ACCEPTED: PeerState = PeerState::Outcome(WireOutcome::Accepted);
const REJECTED: PeerState = PeerState::Outcome(WireOutcome::Rejected);
const RELEASED: PeerState = PeerState::Outcome(WireOutcome::Released);

const fn modified(delivery_failed: Option<bool>, undeliverable_here: Option<bool>) -> PeerState {
    PeerState::Outcome(WireOutcome::Modified { delivery_failed, undeliverable_here })
}

/// What is said, then deed and answer for Service Bus and plain AMQP, first unsettled then settled: the rows of
/// `docs/features/settlement.md`.
type Row = (PeerState, [(QueueAction, SettlementReply); 2], [(QueueAction, SettlementReply); 2]);

fn rows() -> Vec<Row> {
    let nothing = (QueueAction::Nothing, SettlementReply::Nothing);
    let both = |action: QueueAction| [(action, WhenDone), (action, SettlementReply::Nothing)];
    let mut rows = vec![
        (
            PeerState::Nothing,
            [nothing, (Release, SettlementReply::Nothing)],
            [nothing, (Release, SettlementReply::Nothing)],
        ),
        (
            PeerState::Received,
            [nothing, (Release, SettlementReply::Nothing)],
            [nothing, (Release, SettlementReply::Nothing)],
        ),
        (ACCEPTED, both(Complete), both(Complete)),
        (REJECTED, both(DeadLetter), both(DeadLetter)),
        (RELEASED, both(Release), both(Release)),
        (
            PeerState::Transactional,
            [(QueueAction::Nothing, NoTransaction), (QueueAction::Nothing, NoTransaction)],
            [(Release, NoTransaction), (QueueAction::Nothing, NoTransaction)],
        ),
        (
            PeerState::Foreign,
            [(QueueAction::Nothing, Detach), (QueueAction::Nothing, Detach)],
            [(QueueAction::Nothing, Detach), (QueueAction::Nothing, Detach)],
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

/// The words of the page for what is said: how the first cell of a row begins, and the rows here that it stands for.
fn documented(cell: &str) -> Option<fn(PeerState, bool) -> bool> {
    Some(match cell {
        "`accepted`" => |said, _| said == ACCEPTED,
        "`rejected`" => |said, _| said == REJECTED,
        "`released`" => |said, _| said == RELEASED,
        "`modified`, `undeliverable-here` true" => |said, _| {
            matches!(said.outcome(), Some(WireOutcome::Modified { undeliverable_here: Some(true), .. }))
        },
        "`modified`, `delivery-failed` true" => |said, _| {
            matches!(said.outcome(), Some(WireOutcome::Modified { delivery_failed: Some(true), undeliverable_here })
                if undeliverable_here != Some(true))
        },
        "`modified`, otherwise" => |said, _| {
            matches!(said.outcome(), Some(WireOutcome::Modified { delivery_failed, undeliverable_here })
                if delivery_failed != Some(true) && undeliverable_here != Some(true))
        },
        "none, or `received`, with `settled=false`" => {
            |said, settled| matches!(said, PeerState::Nothing | PeerState::Received) && !settled
        }
        "none, or `received`, with `settled=true`" => {
            |said, settled| matches!(said, PeerState::Nothing | PeerState::Received) && settled
        }
        "`transactional-state` of no open transaction, with `settled=false`" => {
            |said, settled| said == PeerState::Transactional && !settled
        }
        "`transactional-state` of no open transaction, with `settled=true`" => {
            |said, settled| said == PeerState::Transactional && settled
        }
        "`declared` or unknown" => |said, _| said == PeerState::Foreign,
        _ => return None,
    })
}

/// What the page says is done.
fn deed_in_words(cell: &str) -> QueueAction {
    let deeds = [
        ("complete", Complete),
        ("abandon", Abandon),
        ("dead-letter", DeadLetter),
        ("defer", Defer),
        ("release", Release),
        ("nothing", QueueAction::Nothing),
        // The rows here have no default outcome.
        ("the source's default outcome, else release", Release),
        ("the link is detached with", QueueAction::Nothing),
    ];
    let found = deeds.into_iter().find(|(words, _)| cell.starts_with(words));
    found.unwrap_or_else(|| panic!("`{cell}` is no deed")).1
}

#[test]
fn the_page_says_what_the_table_does() {
    let page = include_str!("../../../../../docs/features/settlement.md");
    let table =
        page.split("## What a receiver says").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let mut met = vec![[[false; 2]; 2]; rows().len()];
    for line in table.lines().filter(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [state, service_bus, plain] = cells[..] else { panic!("{line}") };
        let Some(is_meant) = documented(state) else {
            assert_eq!(state, "`transactional-state`", "a row that no test knows");
            continue;
        };
        let plain = if plain == "the same" { service_bus } else { plain };
        for (row, (said, ..)) in rows().into_iter().enumerate() {
            for settled in [false, true].into_iter().filter(|settled| is_meant(said, *settled)) {
                for (at, (dialect, words)) in
                    [(ServiceBus, service_bus), (Plain, plain)].into_iter().enumerate()
                {
                    let rule = settlement(dialect, Unsettled, settled, said, None);
                    assert_eq!(rule.action, deed_in_words(words), "{line}: {said:?}");
                    let unknown = state.contains("no open transaction");
                    let foreign = words.contains("detached") && !unknown;
                    assert_eq!(rule.answer == Detach, foreign, "{line}");
                    assert_eq!(rule.answer == NoTransaction, unknown, "{line}");
                    assert_eq!(words.contains("unknown-id"), unknown, "{line}");
                    met[row][usize::from(settled)][at] = true;
                }
            }
        }
    }
    assert!(met.iter().flatten().flatten().all(|met| *met), "rows that the page leaves out: {met:?}");
}

#[test]
fn every_combination_has_its_row() {
    for (said, service_bus, plain) in rows() {
        for mode in [Unsettled, Mixed] {
            for (dialect, expected) in [(ServiceBus, service_bus), (Plain, plain)] {
                for (settled, (action, answer)) in [(false, expected[0]), (true, expected[1])] {
                    let rule = settlement(dialect, mode, settled, said, None);
                    assert_eq!(
                        rule,
                        SettlementRule { action, answer },
                        "{dialect:?} {mode:?} settled={settled} {said:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn nothing_said_about_a_pre_settled_delivery_counts() {
    for (said, ..) in rows() {
        for dialect in [ServiceBus, Plain] {
            for settled in [false, true] {
                let rule = settlement(dialect, Settled, settled, said, Some(WireOutcome::Accepted));
                assert_eq!(
                    rule,
                    SettlementRule { action: QueueAction::Nothing, answer: SettlementReply::Nothing },
                    "{said:?}"
                );
            }
        }
    }
}

#[test]
fn settling_without_a_word_means_the_default_outcome() {
    let cases = [
        // default outcome, deed for Service Bus and plain AMQP
        (None, Release, Release),
        (ACCEPTED.outcome(), Complete, Complete),
        (RELEASED.outcome(), Release, Release),
        (REJECTED.outcome(), DeadLetter, DeadLetter),
        (modified(Some(true), None).outcome(), Abandon, Abandon),
        (modified(Some(false), None).outcome(), Abandon, Release),
        (modified(None, Some(true)).outcome(), Defer, DeadLetter),
    ];
    for (default_outcome, service_bus, plain) in cases {
        for (dialect, action) in [(ServiceBus, service_bus), (Plain, plain)] {
            for said in [PeerState::Nothing, PeerState::Received] {
                let rule = settlement(dialect, Mixed, true, said, default_outcome);
                assert_eq!(
                    rule,
                    SettlementRule { action, answer: SettlementReply::Nothing },
                    "{dialect:?} {default_outcome:?}"
                );
                assert_eq!(
                    settlement(dialect, Mixed, false, said, default_outcome).action,
                    QueueAction::Nothing
                );
            }
        }
    }
}

#[test]
fn a_state_that_is_no_outcome_is_none_by_default_either() {
    let cases = [
        (DeliveryState::Received { section_number: 0, section_offset: 0 }, PeerState::Received),
        (DeliveryState::Declared { txn_id: TxnId::from(&b"t"[..]) }, PeerState::Foreign),
        (
            DeliveryState::Transactional { txn_id: TxnId::from(&b"t"[..]), outcome: None },
            PeerState::Transactional,
        ),
    ];
    for (state, said) in cases {
        assert_eq!((PeerState::of(Some(&state)), WireOutcome::of(&state)), (said, None), "{state:?}");
    }
    assert_eq!(PeerState::of(None), PeerState::Nothing);
}

#[test]
fn the_answer_repeats_the_outcome_without_its_error() {
    let error = amqp_codec::performative::Error {
        condition: amqp_codec::types::Symbol::from_static("com.microsoft:dead-letter"),
        description: None,
        info: None,
    };
    let rejected = DeliveryState::Rejected(Some(Box::new(error)));
    assert_eq!(PeerState::of(Some(&rejected)), REJECTED);
    assert_eq!(REJECTED.outcome().map(WireOutcome::state), Some(DeliveryState::Rejected(None)));
    for said in [ACCEPTED, RELEASED, modified(Some(true), None), modified(None, Some(false))] {
        let repeated = said.outcome().map(WireOutcome::state);
        assert_eq!(PeerState::of(repeated.as_ref()), said);
    }
}
