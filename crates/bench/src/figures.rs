//! Figures of several runs.
//!
//! Invariant: a figure that stands for several is the median of them.

/// The median; zero of none.
pub(crate) fn median(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}
