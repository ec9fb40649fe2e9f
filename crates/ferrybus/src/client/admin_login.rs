//! Log-in of an administrator of the installation.
//!
//! Invariant: the password comes from a file or the environment, never from an argument, which other users of the machine
//! can see; no message shows it.

use std::{fs, path::Path};

use crate::{
    connection_string::Login,
    failure::{Failure, unreadable},
};

/// That of the file, else of the environment; `None` where neither has one.
pub(super) fn admin_login(
    file: Option<&Path>,
    get: impl Fn(&str) -> Option<String>,
) -> Result<Option<Login>, Failure> {
    if let Some(file) = file {
        let text = fs::read_to_string(file)
            .map_err(|error| unreadable("log-in of an administrator", file, &error))?;
        return parse(&text, &format!("`{}`", file.display())).map(Some);
    }
    let text = get(VARIABLE).filter(|text| !text.is_empty());
    text.map(|text| parse(&text, VARIABLE)).transpose()
}

fn parse(text: &str, place: &str) -> Result<Login, Failure> {
    let text = text.trim_end_matches(['\r', '\n']);
    match text.split_once(':') {
        Some((name, password)) if !name.is_empty() && !password.is_empty() => {
            Ok(Login::Password { name: name.to_owned(), password: password.to_owned() })
        }
        _ => Err(Failure::misuse(format_args!("{place} does not have the form `USER:PASSWORD`"))),
    }
}

/// The variable that has the log-in.
pub(super) const VARIABLE: &str = "FERRYBUS_ADMIN";

#[cfg(test)]
mod tests;
