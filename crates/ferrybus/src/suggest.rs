//! The name somebody probably meant.
//!
//! Invariant: a suggestion is one of the candidates, and near enough that a slip of the fingers explains it.

/// The candidate closest to `name`, if one is close: at most a third of its letters differ.
pub(crate) fn suggest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let name = fold(name);
    candidates
        .into_iter()
        .map(|candidate| (distance(&name, &fold(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Case and word separators are what people confuse first.
fn fold(name: &str) -> Vec<char> {
    name.chars()
        .take(LENGTH_MAX)
        .map(|letter| if letter == '-' { '_' } else { letter.to_ascii_lowercase() })
        .collect()
}

/// Letters to insert, delete, replace, or swap with their neighbour (optimal string alignment).
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let mut previous = None;
    for (at, &letter) in from.iter().enumerate() {
        let mut row = vec![at + 1];
        for (to_at, &wanted) in to.iter().enumerate() {
            let cell = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX - 1);
            let mut best = (cell(&last, to_at) + usize::from(letter != wanted))
                .min(cell(&last, to_at + 1) + 1)
                .min(cell(&row, to_at) + 1);
            let wanted_before = to_at.checked_sub(1).and_then(|at| to.get(at)).copied();
            if previous == Some(wanted) && wanted_before == Some(letter) {
                best = best.min(cell(&before, to_at - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
        previous = Some(letter);
    }
    last.last().copied().unwrap_or_default()
}

/// Names are short; a long text is compared by its beginning.
const LENGTH_MAX: usize = 64;

#[cfg(test)]
mod tests;
