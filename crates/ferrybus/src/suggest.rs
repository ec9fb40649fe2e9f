//! The name somebody probably meant.
//!
//! Invariant: a suggestion is one of the candidates, and near enough that a slip of the fingers explains it.

/// The candidate closest to `name`, if one is close: at most a third of its letters differ.
pub(crate) fn suggest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let name = fold(name);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&name, &fold(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Case and word separators are what people confuse first.
fn fold(name: &str) -> String {
    name.chars()
        .take(LENGTH_MAX)
        .map(|letter| if letter == '-' { '_' } else { letter.to_ascii_lowercase() })
        .collect()
}

/// Names are short; a long text is compared by its beginning.
const LENGTH_MAX: usize = 64;

#[cfg(test)]
mod tests;
