//! Truncation of texts.
//!
//! Invariant: a character is never taken apart.

/// The front of a text: whole characters, `max` bytes at most.
pub fn cut(text: &str, max: usize) -> &str {
    // `str::floor_char_boundary` of Rust 1.91 would say it.
    let end = (0..=max.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
