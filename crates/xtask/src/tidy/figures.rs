//! `cargo xtask tidy --figures`: sizes of each crate that may shrink and must not grow.
//!
//! Invariant: each figure has a ceiling in `figures/baseline.toml`, and a figure above its ceiling fails the run.

mod circles;
mod source;
mod text;
mod types;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{findings::Findings, sources};
use crate::Fallible;
use crate::table;
use crate::workspace::Workspace;
use source::Source;

/// Ceilings of every figure, relative to the root.
const BASELINE: &str = "crates/xtask/src/tidy/figures/baseline.toml";
/// Code grows by features too, so the ceiling of `lines` leaves room up to the next multiple of this many.
const LINES_STEP: u64 = 250;
/// Types that are listed for each crate.
const LISTED_TYPES: usize = 3;

/// Figures that have a ceiling, in the order of the table's columns.
const NAMES: [&str; 8] = ["lines", "methods", "files", "fields", "circles", "crossing", "words", "questions"];

/// Figures of one crate, in the order of `NAMES`.
type Row = [u64; NAMES.len()];

pub(super) fn check(
    workspace: &Workspace,
    files: &[PathBuf],
    lower: bool,
    findings: &mut Findings,
) -> Fallible<()> {
    let lists = words::Lists::read(workspace)?;
    let ceilings = parse(&workspace.read(BASELINE)?)?;
    let mut rows = BTreeMap::new();
    let mut details = Vec::new();
    for package in &workspace.packages {
        let folder = package.folder.strip_prefix(&workspace.root).unwrap_or(&package.folder).join("src");
        let own = files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs"));
        let own: Vec<&PathBuf> = own.filter(|file| file.starts_with(&folder)).collect();
        let mut sources = Vec::new();
        for file in own.iter().filter(|file| !sources::is_test(file)) {
            sources
                .push(Source { path: file.strip_prefix(&folder)?.to_owned(), text: workspace.read(file)? });
        }
        if !sources.is_empty() {
            rows.insert(package.name.clone(), measure(&package.name, &sources, &lists, &mut details));
        }
    }
    println!("{}\n\n{}", details.join("\n"), shown(&rows));
    findings.broken.extend(grown(&rows, &ceilings));
    if lower {
        std::fs::write(workspace.root.join(BASELINE), written(&rows, &ceilings))?;
    }
    Ok(())
}

fn measure(crate_name: &str, sources: &[Source], lists: &words::Lists, details: &mut Vec<String>) -> Row {
    let types = types::measure(sources);
    let circles = circles::find(sources, &types);
    let crossing = circles.iter().filter(|circle| circles::crosses_a_folder(circle)).count();
    let most = |figure: fn(&types::Type) -> usize| types.values().map(figure).max().unwrap_or(0);
    let mut largest: Vec<_> = types.iter().collect();
    largest.sort_by_key(|(_, size)| std::cmp::Reverse((size.methods.len(), size.fields)));
    for (name, size) in largest.iter().take(LISTED_TYPES) {
        let (methods, fields, files) = (size.methods.len(), size.fields, size.files.len());
        details
            .push(format!("{crate_name}: `{name}` has {methods} methods in {files} files, {fields} fields"));
    }
    for circle in &circles {
        let files: Vec<_> = circle.iter().map(|file| file.display().to_string()).collect();
        details.push(format!("{crate_name}: circle of {} files: {}", files.len(), files.join(" ")));
    }
    for (word, count) in lists.left(crate_name, sources) {
        details.push(format!("{crate_name}: `{word}` stands {count} times"));
    }
    let lines = sources.iter().map(|source| text::code_lines(&source.text)).sum();
    let words = lists.left(crate_name, sources).map(|(_, count)| count).sum();
    let questions = sources.iter().map(|source| text::questions(&source.text)).sum();
    [
        lines,
        most(|size| size.methods.len()),
        most(|size| size.files.len()),
        most(|size| size.fields),
        circles.len(),
        crossing,
        words,
        questions,
    ]
    .map(|figure| figure as u64)
}

/// One finding for each figure above its ceiling. A crate without ceilings has a ceiling of nothing.
fn grown(rows: &BTreeMap<String, Row>, ceilings: &BTreeMap<String, Row>) -> Vec<String> {
    let figures = rows.iter().flat_map(|(name, row)| {
        let ceiling = ceilings.get(name).copied().unwrap_or_default();
        NAMES.iter().zip(row.iter().zip(ceiling)).map(move |(figure, (now, most))| (name, figure, *now, most))
    });
    figures
        .filter(|(_, _, now, most)| now > most)
        .map(|(name, figure, now, most)| {
            format!("{name}: `{figure}` has grown to {now}, its ceiling in {BASELINE} is {most}")
        })
        .collect()
}

fn shown(rows: &BTreeMap<String, Row>) -> String {
    let header: Vec<&str> = std::iter::once("crate").chain(NAMES).collect();
    let rows = rows.iter().map(|(name, row)| {
        std::iter::once(name.clone()).chain(row.iter().map(|figure| table::thousands(*figure))).collect()
    });
    table::markdown(&header, &rows.collect::<Vec<Vec<String>>>())
}

fn parse(text: &str) -> Fallible<BTreeMap<String, Row>> {
    let table: BTreeMap<String, BTreeMap<String, u64>> = toml::from_str(text)?;
    let row = |figures: BTreeMap<String, u64>| NAMES.map(|name| figures.get(name).copied().unwrap_or(0));
    Ok(table.into_iter().map(|(name, figures)| (name, row(figures))).collect())
}

/// The baseline with every ceiling lowered to its figure. No ceiling is raised here: that is an edit by hand,
/// which a reviewer sees.
fn written(rows: &BTreeMap<String, Row>, ceilings: &BTreeMap<String, Row>) -> String {
    let head =
        "# Ceilings of `cargo xtask tidy --figures`. `--lower` lowers them; raise one by hand and say why.\n";
    let tables = rows.iter().map(|(name, row)| {
        let ceiling = ceilings.get(name).copied().unwrap_or([u64::MAX; NAMES.len()]);
        let lines = NAMES.iter().zip(row.iter().zip(ceiling)).map(|(figure, (now, most))| {
            let tight = if *figure == "lines" { now.next_multiple_of(LINES_STEP) } else { *now };
            format!("{figure} = {}\n", most.min(tight))
        });
        format!("\n[{name}]\n{}", lines.collect::<String>())
    });
    std::iter::once(head.to_owned()).chain(tables).collect()
}

#[cfg(test)]
mod tests;
