//! The project's chores: `cargo xtask test`, `tidy`, `sim`, `fuzz`, `bench`, `tools`, `package`.
//!
//! Invariant: nothing here is part of the broker; no crate depends on this one.
#![expect(clippy::print_stdout, reason = "reports on standard output are what this program is for")]

mod args;
mod bench;
mod counts;
mod fuzz;
mod package;
mod process;
mod setup;
mod sim;
mod table;
mod test;
mod tidy;
mod tools;
mod workspace;

use std::error::Error;
use std::process::ExitCode;

use args::Args;
use workspace::Workspace;

/// A chore either gives its result or a sentence for the person who ran it.
type Fallible<T> = Result<T, Box<dyn Error>>;

/// Whether everything a chore looked at was good.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Good,
    Bad,
}

const USAGE: &str = "\
usage: cargo xtask <command> [options]

  test [--only NAME[,NAME]] [--list]   install what the tests need and run every suite
       [--seeds N]
  tidy [--figures [--lower]]           the rules that no compiler checks; sizes that must not grow
  sim  [--seeds N [--first S]]         the simulator, release build: many seeds,
       [--seed S]                      or one again
  fuzz [--seconds S] [--target NAME]   every fuzz target for a bounded time (cargo-fuzz)
  bench [--help]                       Ferrybus and its peers under load (crates/bench)
  tools                                the programs that checks and tests need, at pinned versions
  package [--binary PATH]              a Debian package, of a static binary that is built unless one is given
";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let run = match command.as_str() {
        "test" => test::run,
        "tidy" => tidy::run,
        "sim" => sim::run,
        "fuzz" => fuzz::run,
        "bench" => bench::run,
        "package" => package::run,
        "tools" => tools::run,
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(if command == "help" || command == "--help" { 0 } else { 2 });
        }
    };
    let outcome = Workspace::find().and_then(|workspace| run(&workspace, &Args::new(words)));
    match outcome {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask {command}: {error}");
            ExitCode::FAILURE
        }
    }
}
