//! `ferrybus journal`: says what is wrong with a journal, and repairs it when told to.
//!
//! Invariant: nothing is changed without `--yes`, and nothing at all in a folder that holds no journal.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use broker_log::{JournalConfig, Loss, MigrateFolderError, OpenError, RealDisk, RecoveryError, Report};
use serde_json::{Value, json};

use crate::{arguments::JournalArguments, failure::Failure, output};

/// Says whether the journal is sound.
pub(crate) fn check(arguments: &JournalArguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let disk = open(folder)?;
    let report = broker_log::check(&disk).map_err(|error| unreadable(folder, &error))?;
    if arguments.json {
        output::line(in_json(&report))?;
    } else {
        print(&report)?;
    }
    if report.losses.is_empty() {
        return Ok(());
    }
    Err(Failure::new(damaged(folder, &report)).hint(format_args!(
        "`ferrybus journal repair {} --yes` goes on without what is lost",
        folder.display()
    )))
}

/// Says what a repair would do, or does it.
pub(crate) fn repair(arguments: &JournalArguments, really: bool) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let disk = open(folder)?;
    if really {
        return repair_now(arguments, &disk);
    }
    let report = broker_log::check(&disk).map_err(|error| unreadable(folder, &error))?;
    if arguments.json {
        output::line(json!({ "repaired": false, "before": in_json(&report), "after": null, "kept": [] }))?;
    } else {
        print(&report)?;
        print_plan(&report)?;
    }
    if report.losses.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format_args!("{}, and nothing was changed", damaged(folder, &report)))
        .hint("`--yes` does it; copy the folder first if there is room for a copy"))
}

fn repair_now(arguments: &JournalArguments, disk: &RealDisk) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let done = broker_log::repair(disk).map_err(|error| unreadable(folder, &error))?;
    let kept: Vec<PathBuf> = done.kept.iter().map(|name| folder.join(name)).collect();
    let repaired = !done.before.losses.is_empty() && done.after.losses.is_empty();
    if arguments.json {
        let (before, after) = (in_json(&done.before), in_json(&done.after));
        output::line(json!({ "repaired": repaired, "before": before, "after": after, "kept": kept }))?;
    } else {
        print(&done.before)?;
        if repaired {
            let end = done.after.end;
            output::line(format_args!("repaired  {} up to position {end}", records(done.after.records)))?;
        } else {
            print_plan(&done.before)?;
        }
        for path in &kept {
            output::line(format_args!("kept      {}", path.display()))?;
        }
    }
    if done.after.losses.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format_args!("the repair was not enough: {}", damaged(folder, &done.after))))
}

/// Rewrites a journal of 0.1.0 in the present format, or ends a migration that was interrupted.
pub(crate) fn migrate(arguments: &JournalArguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    demand_journal(folder)?;
    let mut salt = [0; 8];
    getrandom::fill(&mut salt).map_err(|error| Failure::new(format_args!("no randomness: {error}")))?;
    let config = JournalConfig { salt: u64::from_be_bytes(salt), ..JournalConfig::default() };
    let done = match broker_log::migrate_folder(folder, config, &mut broker_core::convert_record_of_0_1) {
        Ok(done) => done,
        Err(MigrateFolderError::Open(error)) => return Err(not_opened(error)),
        Err(error) => {
            let failure = Failure::of(error);
            return Err(failure.hint("the old journal is whole; begin again when the reason is mended"));
        }
    };
    if arguments.json {
        let copied = done.copied.map(|copied| json!({ "records": copied.records, "bytes": copied.bytes }));
        return output::line(json!({ "migrated": true, "copied": copied, "old": done.old }));
    }
    if let Some(copied) = done.copied {
        output::line(format_args!("copied    {} of {} bytes", records(copied.records), copied.bytes))?;
    }
    output::line(format_args!("migrated  `{}` has the present format", folder.display()))?;
    output::line(format_args!(
        "kept      {} has the old journal; nothing needs it any more",
        done.old.display()
    ))
}

/// Opens and locks the journal's folder.
fn open(folder: &Path) -> Result<RealDisk, Failure> {
    demand_journal(folder)?;
    RealDisk::open(folder).map_err(not_opened)
}

/// The folder must be a journal's: else opening would make it one.
fn demand_journal(folder: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(folder).map_err(|error| {
        let failure = format!("cannot read folder `{}`: {error}", folder.display());
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Failure::misuse(failure),
            _ => Failure::new(failure),
        }
    })?;
    // In the middle of a migration all segments may be in a folder below.
    let segment = |name: &Path| {
        name.extension().is_some_and(|extension| extension == "segment")
            || name.starts_with("migrated-installing")
    };
    let found = entries.flatten().any(|entry| segment(Path::new(&entry.file_name())));
    if found {
        Ok(())
    } else {
        Err(Failure::misuse(format_args!("`{}` holds no journal", folder.display()))
            .hint("name the folder that is `data_dir` in the broker's configuration"))
    }
}

/// Failure to open a journal's folder, with the operating system's error.
pub(crate) fn not_opened(error: OpenError) -> Failure {
    let in_use = matches!(error, OpenError::InUse { .. });
    let failure = Failure::of(error);
    if in_use { failure.hint("stop the broker that uses it first, or name another folder") } else { failure }
}

fn unreadable(folder: &Path, error: &RecoveryError) -> Failure {
    Failure::new(format_args!("the journal in `{}`: {error}", folder.display()))
}

fn damaged(folder: &Path, report: &Report) -> String {
    let places = count(report.losses.len() as u64, "place");
    format!("the journal in `{}` is damaged in {places}", folder.display())
}

fn print(report: &Report) -> Result<(), Failure> {
    for segment in &report.segments {
        output::line(format_args!(
            "segment   `{}`, positions {} to {}: {} in {}",
            segment.file,
            segment.begin,
            segment.end,
            records(segment.records),
            batches(segment.batches),
        ))?;
    }
    if report.lost_records > 0 {
        output::line(format_args!("lost      {}, by an earlier repair", records(report.lost_records)))?;
    }
    for loss in &report.losses {
        let damage = &loss.damage;
        let place = match damage.file {
            Some(file) => format!("`{file}` at offset {}", damage.offset),
            None => "a missing file".into(),
        };
        output::line(format_args!(
            "damaged   {place}, positions {} to {}: {}; {}",
            damage.position,
            loss.to,
            damage.fault,
            lost(loss)
        ))?;
    }
    if let Some(at) = report.unfinished {
        output::line(format_args!(
            "torn      from position {at} on: the disk never confirmed it, the next start cuts it off"
        ))?;
    }
    if report.losses.is_empty() {
        let end = report.end;
        output::line(format_args!("sound     {} up to position {end}", records(report.records)))?;
    }
    Ok(())
}

fn print_plan(report: &Report) -> Result<(), Failure> {
    if report.losses.is_empty() {
        return output::line("nothing to repair");
    }
    let known: u64 = report.losses.iter().map(|loss| given_up(loss).unwrap_or(0)).sum();
    let more = if report.losses.iter().any(|loss| loss.records.is_none()) { "at least " } else { "" };
    output::line(format_args!(
        "plan      keep {}, give up {more}{}, and keep a copy of what is overwritten in `.cut` files",
        records(report.records + report.losses.iter().map(|loss| loss.savable).sum::<u64>()),
        records(known)
    ))
}

/// Description of the loss.
fn lost(loss: &Loss) -> String {
    let saved = match loss.savable {
        0 => String::new(),
        saved => format!(", {} can be saved", records(saved)),
    };
    match given_up(loss) {
        Some(given_up) => format!("{} lost{saved}", records(given_up)),
        None => format!("nobody knows how many records are lost{}{saved}", in_batches(loss)),
    }
}

/// The number of batches that are missing, where only that is known.
fn in_batches(loss: &Loss) -> String {
    loss.batches.map_or_else(String::new, |number| format!(", in {}", batches(number)))
}

fn given_up(loss: &Loss) -> Option<u64> {
    loss.records.map(|records| records.saturating_sub(loss.savable))
}

fn records(number: u64) -> String {
    count(number, "record")
}

fn batches(number: u64) -> String {
    if number == 1 { "1 batch".into() } else { format!("{number} batches") }
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn in_json(report: &Report) -> Value {
    let segments: Vec<Value> = report.segments.iter().map(segment_in_json).collect();
    let losses: Vec<Value> = report.losses.iter().map(loss_in_json).collect();
    json!({
        "sound": losses.is_empty(),
        "tail": report.tail.0,
        "end": report.end.0,
        "unfinished": report.unfinished.map(|at| at.0),
        "records": report.records,
        "lost_records": report.lost_records,
        "idle_files": report.idle_files,
        "segments": segments,
        "losses": losses,
    })
}

fn segment_in_json(segment: &broker_log::SegmentReport) -> Value {
    json!({
        "file": segment.file.to_string(),
        "begin": segment.begin.0,
        "end": segment.end.0,
        "batches": segment.batches,
        "records": segment.records,
        "summary": segment.has_summary,
    })
}

fn loss_in_json(loss: &Loss) -> Value {
    let damage = &loss.damage;
    json!({
        "file": damage.file.map(|file| file.to_string()),
        "offset": damage.file.map(|_| damage.offset),
        "position": damage.position.0,
        "to": loss.to.0,
        "fault": damage.fault.to_string(),
        "durable": damage.durable.0,
        "records": loss.records,
        "savable": loss.savable,
        "batches": loss.batches,
    })
}

#[cfg(test)]
mod tests;
