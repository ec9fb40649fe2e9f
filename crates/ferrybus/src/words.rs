//! Words of the file and of the command line for values of types that other layers own.
//!
//! Invariant: a type has one table of words, from which both are read.

use broker_core::Profile;
use broker_log::Durability;
use broker_server::MissingRight;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::{Deserialize as _, Deserializer, de};

/// A value and its word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<T: 'static> {
    word: &'static str,
    value: T,
    /// For `--help`.
    help: &'static str,
}

/// A type with a word for each of its values.
pub(crate) trait Worded: Copy + Send + Sync + 'static {
    const WORDS: &'static [Choice<Self>];
}

const fn choice<T>(word: &'static str, value: T, help: &'static str) -> Choice<T> {
    Choice { word, value, help }
}

impl Worded for Durability {
    const WORDS: &'static [Choice<Self>] = &[
        choice("fsync", Self::Fsync, "Accepted messages survive a power loss"),
        choice("os", Self::Os, "Accepted messages survive a killed process, not a power loss"),
        choice("none", Self::None, "Memory only: everything is gone when the process ends"),
    ];
}

impl Worded for MissingRight {
    const WORDS: &'static [Choice<Self>] = &[
        choice("forbidden", Self::Forbidden, "403"),
        choice("unauthorized", Self::Unauthorized, "401, as Azure Service Bus"),
    ];
}

impl Worded for Profile {
    const WORDS: &'static [Choice<Self>] = &[
        choice("standard", Self::STANDARD, "Everything there is"),
        choice("standard-only", Self::STANDARD_ONLY, "The same without the sizes of the Premium tier"),
        choice("basic", Self::BASIC, "Plain queues only"),
        choice("emulator", Self::EMULATOR, "The numbers of Microsoft's emulator"),
    ];
}

/// The value that has this word.
fn find<T: Worded>(word: &str) -> Option<T> {
    T::WORDS.iter().find(|choice| choice.word == word).map(|choice| choice.value)
}

/// Reads an optional key of the file: `#[serde(deserialize_with)]`.
pub(crate) fn of_file<'de, T: Worded, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let word = String::deserialize(deserializer)?;
    find(&word).map(Some).ok_or_else(|| unknown(&word, T::WORDS.iter().map(|choice| choice.word.to_owned())))
}

/// Reads a value with a word in the administration API; files have it in small letters and with hyphens.
pub(crate) fn of_elements<'de, T: Copy, D: Deserializer<'de>>(
    all: &[T],
    element: fn(T) -> &'static str,
    deserializer: D,
) -> Result<T, D::Error> {
    let word = String::deserialize(deserializer)?;
    let found = all.iter().find(|value| in_files(element(**value)) == word).copied();
    found.ok_or_else(|| unknown(&word, all.iter().map(|value| in_files(element(*value)))))
}

/// A word of the administration API as files have it: `SendDisabled` is `send-disabled`.
pub(crate) fn in_files(element: &str) -> String {
    let mut word = String::new();
    for letter in element.chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push('-');
        }
        word.push(letter.to_ascii_lowercase());
    }
    word
}

/// The error about a word that is none of these, in the text of serde for other types.
fn unknown<E: de::Error>(word: &str, words: impl Iterator<Item = String>) -> E {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    let expected = match words.as_slice() {
        [one, other] => format!("{one} or {other}"),
        _ => format!("one of {}", words.join(", ")),
    };
    E::custom(format_args!("unknown variant `{word}`, expected {expected}"))
}

/// Reads an option of the command line: `#[arg(value_parser)]`.
pub(crate) fn of_argument<T: Worded>() -> impl TypedValueParser<Value = T> {
    let words = T::WORDS.iter().map(|choice| PossibleValue::new(choice.word).help(choice.help));
    PossibleValuesParser::new(words).try_map(|word| find::<T>(&word).ok_or("no such word"))
}
