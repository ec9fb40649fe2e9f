//! A recording as steps.
//!
//! Invariant: each line of the text is part of one step, a comment or blank.

use super::term::{Term, TermError};

/// A recording that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    pub(super) steps: Vec<Step>,
}

/// Text that is no recording.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct RecordingError {
    line: usize,
    problem: Problem,
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
enum Problem {
    #[error("a step begins with `>`, `<`, `!` or `//`, and goes on behind a space")]
    Unmarked,
    #[error("`{0}` is neither a channel nor the name of a layer")]
    NoPlace(String),
    #[error("`{0}` is no control line")]
    NoControl(String),
    #[error(transparent)]
    Term(#[from] TermError),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// Counted from 1.
    pub(super) line: usize,
    /// As it was written, on one line.
    pub(super) text: String,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// The client says this.
    Say(Place, Vec<Term>),
    /// The client waits for this.
    Demand(Place, Vec<Term>),
    /// The variable gets a token of this key for this audience, a text with variables.
    Token { variable: String, key: String, audience: Term },
    /// The entity gets this message.
    Store { entity: String, message: Vec<Term> },
    /// The broker's clock moves forward by so many milliseconds.
    Advance(u64),
}

/// Position in the stream of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    SaslHeader,
    AmqpHeader,
    Sasl,
    /// The client's number of the channel.
    Channel(u16),
}

impl Recording {
    /// Reads the text of a recording.
    pub fn read(text: &str) -> Result<Self, RecordingError> {
        let mut steps = Vec::new();
        for (line, text) in joined(text)? {
            let what = what(&text).map_err(|problem| RecordingError { line, problem })?;
            steps.push(Step { line, text, what });
        }
        Ok(Self { steps })
    }
}

/// The steps as texts of one line each, with the numbers of their first lines.
fn joined(text: &str) -> Result<Vec<(usize, String)>, RecordingError> {
    let mut steps: Vec<(usize, String)> = Vec::new();
    let mut comment = false;
    for (number, line) in (1..).zip(text.lines()) {
        match line.chars().next() {
            None => {}
            Some(' ') if comment => {}
            Some(' ') => match steps.last_mut() {
                Some((_, step)) => {
                    step.push(' ');
                    step.push_str(line.trim());
                }
                None => return Err(RecordingError { line: number, problem: Problem::Unmarked }),
            },
            Some('/') => comment = true,
            Some('<' | '>' | '!') => {
                comment = false;
                steps.push((number, line.trim_end().to_owned()));
            }
            Some(_) => return Err(RecordingError { line: number, problem: Problem::Unmarked }),
        }
    }
    Ok(steps)
}

fn what(text: &str) -> Result<What, Problem> {
    let (mark, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    if mark == "!" {
        return control(word, rest);
    }
    let place = match word {
        "sasl-header" => Place::SaslHeader,
        "amqp-header" => Place::AmqpHeader,
        "sasl" => Place::Sasl,
        channel => Place::Channel(channel.parse().map_err(|_| Problem::NoPlace(channel.to_owned()))?),
    };
    let terms = Term::read_all(rest)?;
    Ok(if mark == ">" { What::Say(place, terms) } else { What::Demand(place, terms) })
}

fn control(word: &str, rest: &str) -> Result<What, Problem> {
    let unknown = || Problem::NoControl(format!("{word} {rest}"));
    match word {
        "token" => {
            let mut words = rest.split(' ').map(str::to_owned);
            let (Some(variable), Some(key), Some(audience)) = (words.next(), words.next(), words.next())
            else {
                return Err(unknown());
            };
            let audience =
                Term::read_all(&format!("\"{audience}\""))?.into_iter().next().ok_or_else(unknown)?;
            Ok(What::Token { variable, key, audience })
        }
        "store" => {
            let (entity, message) = rest.split_once(' ').ok_or_else(unknown)?;
            Ok(What::Store { entity: entity.to_owned(), message: Term::read_all(message)? })
        }
        "advance" => rest.trim().parse().map(What::Advance).map_err(|_| unknown()),
        _ => Err(unknown()),
    }
}
