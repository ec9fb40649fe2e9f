//! Units: the parts of a batch that are each recorded in one atomic unit of the journal.
//!
//! Invariant: a unit fits into one journal batch, and a transaction commits in a unit of its own.

use broker_core::{Command, Outcome};

/// Splits a batch where one unit ends. A transaction commits in a unit of its own: all of it, and nothing else that
/// could make the unit too large for a journal batch.
pub(crate) fn split_off_unit(commands: &mut Vec<Command>) -> Option<Vec<Command>> {
    let commits = |command: &Command| matches!(command, Command::Discharge { .. });
    match commands.iter().position(commits) {
        Some(0) if commands.len() > 1 => Some(commands.split_off(1)),
        None | Some(0) => split_off_copies(commands),
        Some(place) => {
            let rest = commands.split_off(place);
            match split_off_copies(commands) {
                None => Some(rest),
                Some(mut more) => {
                    more.extend(rest);
                    Some(more)
                }
            }
        }
    }
}

/// Splits a batch behind the command with which the messages copied in one unit could become too many: one wide
/// disposition may dead-letter thousands of large messages, and a unit has to fit into one journal batch.
pub(crate) fn split_off_copies(commands: &mut Vec<Command>) -> Option<Vec<Command>> {
    let copies = |command: &Command| match command {
        Command::Settle { outcome, .. } => !matches!(outcome, Outcome::Complete),
        _ => false,
    };
    let mut places =
        commands.iter().enumerate().filter(|(_, command)| copies(command)).map(|(place, _)| place);
    let place = places.nth(COPIES_MAX)?;
    Some(commands.split_off(place))
}

/// Messages that one unit may copy; of the largest allowed (100 MB) so many are still less than 4 GiB.
const COPIES_MAX: usize = 32;
