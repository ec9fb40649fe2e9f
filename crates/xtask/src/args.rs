//! The options of a chore: `--name value`, `--name=value` and `--flag`.
//!
//! Invariant: an option nobody asked about is an error, never ignored.

use std::str::FromStr;

use crate::Fallible;

/// The words after the command's name.
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: impl IntoIterator<Item = String>) -> Self {
        let words = words
            .into_iter()
            .flat_map(|word| match word.split_once('=') {
                // `--peer=a=b,…` splits once; a value that holds `=` and stands alone is left whole.
                Some((name, value)) if name.starts_with("--") => vec![name.to_owned(), value.to_owned()],
                _ => vec![word],
            })
            .collect();
        Self { words }
    }

    /// Fails on an option that is in neither list, and on a value without an option.
    pub(crate) fn only(&self, valued: &[&str], flags: &[&str]) -> Fallible<()> {
        let mut words = self.words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if valued.contains(&word) {
                words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
            } else if !flags.contains(&word) {
                return Err(format!("unknown option `{word}`").into());
            }
        }
        Ok(())
    }

    /// Every value given for `name`, in order.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.words
            .windows(2)
            .filter(move |pair| pair.first().is_some_and(|word| word == name))
            .filter_map(|pair| pair.get(1).map(String::as_str))
    }

    /// The comma-separated values of `name`, of all its occurrences.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        self.values(name).flat_map(|value| value.split(',')).map(str::to_owned).collect()
    }

    /// The last value of `name`, parsed, or `default`.
    pub(crate) fn value_or<T: FromStr>(&self, name: &str, default: T) -> Fallible<T> {
        match self.values(name).last() {
            None => Ok(default),
            Some(word) => word.parse().map_err(|_| format!("`{name}` cannot be `{word}`").into()),
        }
    }

    /// All of them, for a program that reads them itself.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.words.iter().any(|word| word == name)
    }
}

#[cfg(test)]
mod tests;
