//! The digests of many seeds, in a file: one line a seed, with the digests of the wire, of the journal under it, and of
//! the journal of the second world.
//!
//! Invariant: two builds that put the same bytes on the wire and on the disk write the same file.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use sim::{Digest, Report};

/// The digests of the seeds that were run.
#[derive(Debug, Default)]
pub(crate) struct Digests(BTreeMap<u64, String>);

impl Digests {
    /// Adds one seed. A run that failed has no digest, and differs from one that has.
    pub(crate) fn add(&mut self, seed: u64, wire_world: Option<&Report>, core_world: Option<&Report>) {
        let text =
            |digest: Option<Digest>| digest.map_or_else(|| "failed".to_owned(), |digest| digest.to_string());
        let wire = text(wire_world.map(|report| report.wire));
        let journal = text(wire_world.map(|report| report.journal));
        let core = text(core_world.map(|report| report.journal));
        self.0.insert(seed, format!("{wire} {journal} {core}"));
    }

    /// Writes the file that [`Digests::compare`] reads.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let mut text = String::new();
        for (seed, digests) in &self.0 {
            writeln!(text, "{seed} {digests}").map_err(|error| error.to_string())?;
        }
        std::fs::write(path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
    }

    /// The seeds whose digests are not those in the file, with the digests that differ by name. Seeds of the file that
    /// were not run are passed over.
    pub(crate) fn compare(&self, path: &Path) -> Result<Vec<String>, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        let recorded: BTreeMap<u64, &str> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(seed, digests)| Some((seed.parse().ok()?, digests)))
            .collect();
        Ok(self
            .0
            .iter()
            .filter_map(|(seed, digests)| difference(*seed, digests, recorded.get(seed)))
            .collect())
    }
}

fn difference(seed: u64, now: &str, recorded: Option<&&str>) -> Option<String> {
    let Some(recorded) = recorded else { return Some(format!("seed {seed}: not in the file")) };
    let names = ["wire", "journal", "journal of the second world"];
    let pairs = now.split(' ').zip(recorded.split(' '));
    let differ: Vec<&str> =
        names.into_iter().zip(pairs).filter(|(_, (now, then))| now != then).map(|(name, _)| name).collect();
    (!differ.is_empty()).then(|| format!("seed {seed}: {} differs", differ.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Plan, run, run_core_world};

    fn digests(seeds: std::ops::Range<u64>) -> Digests {
        let mut digests = Digests::default();
        for seed in seeds {
            let plan = Plan::from_seed(seed);
            let (wire, core) = (run(&plan).ok(), run_core_world(&plan).ok());
            digests.add(seed, wire.as_ref(), core.as_ref());
        }
        digests
    }

    #[test]
    fn a_second_run_has_the_same_digests_and_another_seed_has_others() {
        let path = std::env::temp_dir().join(format!("ferrybus-digests-{}", std::process::id()));
        let first = digests(1..3);
        first.write(&path).unwrap();
        assert_eq!(digests(1..3).compare(&path).unwrap(), Vec::<String>::new());
        assert_eq!(digests(3..4).compare(&path).unwrap(), ["seed 3: not in the file"]);
        std::fs::remove_file(&path).unwrap();
        let (one, two) = (first.0.get(&1).unwrap(), first.0.get(&2).unwrap());
        assert_eq!(
            difference(1, one, Some(&two.as_str())),
            Some("seed 1: wire and journal and journal of the second world differs".to_owned())
        );
    }
}
