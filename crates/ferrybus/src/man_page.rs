//! Shell completions and man pages, generated from the description of the command line.
//!
//! Invariant: nothing is said here that `--help` does not say.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{arguments::Arguments, failure::Failure, output};

/// Prints what the shell needs.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "ferrybus", &mut script);
    print(&script)
}

/// Prints the page of the whole, or writes one for it and each command to a folder.
pub(crate) fn pages(folder: Option<&Path>) -> Result<(), Failure> {
    let mut command = Arguments::command();
    // Commands get their full names, and what is said for all of them.
    command.build();
    let Some(folder) = folder else { return print(&page(command)?) };
    let failed =
        |error: io::Error| Failure::new(format_args!("cannot write to `{}`: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    let count = write(command, folder).map_err(failed)?;
    output::line(format_args!("wrote {count} pages to `{}`", folder.display()))
}

fn write(command: Command, folder: &Path) -> io::Result<usize> {
    let mut waiting = vec![command];
    let mut count = 0;
    while let Some(command) = waiting.pop() {
        if command.get_name() == "help" || command.is_hide_set() {
            continue;
        }
        waiting.extend(command.get_subcommands().cloned());
        let man = Man::new(command.clone().name(file_name(&command)));
        let mut page = Vec::new();
        man.render(&mut page)?;
        fs::write(folder.join(format!("{}.1", file_name(&command))), page)?;
        count += 1;
    }
    Ok(count)
}

/// `ferrybus-queue-create`, as pages are called.
fn file_name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let rendered = Man::new(command).render(&mut page);
    rendered.map_err(|error| Failure::new(format_args!("the page cannot be made: {error}")))?;
    Ok(page)
}

fn print(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).map_err(|error| output::lost(&error))
}
