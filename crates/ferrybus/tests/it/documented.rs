//! The console examples of the documentation: each is typed into a shell, and what comes is what the page shows.
//!
//! Invariant: every ```` ```console ```` block of the README and of `docs/` has its line in the table, with what it
//! needs to be played, or with the reason why it is not, so a new example cannot go unplayed by mistake.

use std::{collections::BTreeMap, fs, path::Path, process::Stdio};

use crate::support::{Broker, Folder, command};

mod page;
mod table;

use page::{Block, blocks, told_alike};
use table::{EXAMPLES, Example, Play};

/// Stands for the exit code in what the shell prints after each command.
const MARK: &str = "@@ exit ";

/// Runs lines in `folder` as somebody at a terminal would, and returns what each printed, errors too, and its exit code.
fn typed(folder: &Path, lines: &[String], broker: Option<&Broker>) -> Vec<(Vec<String>, i32)> {
    let mut script = "exec 2>&1 </dev/null\n".to_owned();
    for line in lines {
        script.extend([line, "\necho \"", MARK, "$?\"\n"]);
    }
    fs::write(folder.join("typed.sh"), script).unwrap();
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = std::process::Command::new("sh");
    for (name, value) in command(folder, &[]).get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(broker) = broker {
        shell.env("FERRYBUS_CONNECTION_STRING", &broker.connection_string);
    }
    let output =
        shell.arg("typed.sh").current_dir(folder).env("PATH", path).stderr(Stdio::null()).output().unwrap();
    let mut said = vec![(Vec::new(), 0)];
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        // Output without an end of line stands before the mark.
        let (text, exit) = line.split_once(MARK).map_or((line, None), |(text, exit)| (text, Some(exit)));
        let (lines, code) = said.last_mut().unwrap();
        if exit.is_none() || !text.is_empty() {
            lines.push(text.to_owned());
        }
        if let Some(exit) = exit {
            *code = exit.parse().unwrap();
            said.push((Vec::new(), 0));
        }
    }
    said.pop();
    said
}

/// A folder in which the binary is found as the pages call it.
fn folder(example: &Example) -> Folder {
    let name = format!("documented-{}", example.block.replace([' ', '/', '.', '#'], "-"));
    let folder = Folder::new(&name);
    for place in ["bin", "target/release"] {
        fs::create_dir_all(folder.0.join(place)).unwrap();
        let link = folder.0.join(place).join("ferrybus");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ferrybus"), link).unwrap();
    }
    for (name, text) in example.files {
        folder.write(name, text);
    }
    folder
}

/// Plays a block and says what went otherwise than it shows.
fn differences(example: &Example, block: &Block) -> Vec<String> {
    let (serve, before) = match example.play {
        Play::WithBroker { serve, before } => (Some(serve), before),
        Play::Alone { before } => (None, before),
        Play::Starts => return starts(example, block),
        Play::Elsewhere(_) => return Vec::new(),
    };
    let folder = folder(example);
    let broker = serve.map(|serve| {
        let always = ["--listen", "127.0.0.1:0", "--durability", "none", "--data-dir", "beside"];
        Broker::start(&folder.0, &[&always, serve].concat())
    });
    let mut lines: Vec<String> = before.iter().map(|&line| line.to_owned()).collect();
    lines.extend(block.commands.iter().map(|command| {
        example.instead.iter().fold(command.line.clone(), |line, (shown, typed)| line.replace(shown, typed))
    }));
    let said = typed(&folder.0, &lines, broker.as_ref());
    if said.len() != lines.len() {
        return vec![format!("the shell ended after {} of {} lines: {said:?}", said.len(), lines.len())];
    }
    let (prepared, played) = said.split_at(before.len());
    let mut differences: Vec<String> = prepared
        .iter()
        .zip(before)
        .filter(|((_, code), _)| *code != 0)
        .map(|((lines, code), line)| format!("to prepare, `{line}` ended with {code}: {lines:?}"))
        .collect();
    for (command, (lines, code)) in block.commands.iter().zip(played) {
        if !command.exits_with(*code) || !told_alike(&command.shown, lines, example.figures) {
            let (shown, came) = (command.shown.join("\n"), lines.join("\n"));
            differences
                .push(format!("`{}` shows\n{shown}\nand exited with {code} after\n{came}", command.line));
        }
    }
    differences
}

/// Plays a block whose last command is a broker.
fn starts(example: &Example, block: &Block) -> Vec<String> {
    let folder = folder(example);
    let (last, before) = block.commands.split_last().unwrap();
    let lines: Vec<String> = before.iter().map(|command| command.line.clone()).collect();
    let mut differences = Vec::new();
    for (command, (lines, code)) in before.iter().zip(typed(&folder.0, &lines, None)) {
        if code != 0 || !told_alike(&command.shown, &lines, example.figures) {
            differences.push(format!("`{}` exited with {code} after {lines:?}", command.line));
        }
    }
    let (program, arguments) = last.line.split_once(' ').unwrap_or((&last.line, ""));
    let arguments = arguments.strip_prefix("run --release -- ").unwrap_or(arguments);
    assert!(["ferrybus", "cargo"].contains(&program), "{program}");
    let mut words: Vec<&str> = arguments.split(' ').collect();
    words.extend(["--listen", "127.0.0.1:0"]);
    if words.contains(&"--tls-certificate") {
        words.extend(["--listen-tls", "127.0.0.1:0"]);
    }
    let broker = Broker::start(&folder.0, &words);
    if !broker.stop().success() {
        differences.push(format!("`{}` did not end well", last.line));
    }
    differences
}

#[test]
fn each_console_example_of_the_documentation_has_the_output_it_shows() {
    let blocks: BTreeMap<String, Block> =
        blocks(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).into_iter().collect();
    let mut wrong: Vec<String> = Vec::new();
    for example in &EXAMPLES {
        match blocks.get(example.block) {
            None => wrong.push(format!("{}: there is no such example", example.block)),
            Some(block) => {
                let differences = differences(example, block);
                wrong.extend(
                    differences.into_iter().map(|difference| format!("{}: {difference}", example.block)),
                );
            }
        }
    }
    for name in blocks.keys().filter(|name| EXAMPLES.iter().all(|example| example.block != name.as_str())) {
        wrong.push(format!("{name}: nothing says how to play this example"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
