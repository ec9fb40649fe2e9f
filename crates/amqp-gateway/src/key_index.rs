//! Index from the engine's keys to the gateway's numbers.
//!
//! Invariant: a name finds the number it was put in with until it is removed.

/// A sorted list with a memory for the last name asked: events come in runs for one link.
#[derive(Debug)]
pub(crate) struct Index<K> {
    entries: Vec<(K, u32)>,
    last: usize,
}

impl<K: Copy + Ord> Index<K> {
    /// Empty, without memory.
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), last: 0 }
    }

    /// Adds or replaces a name.
    pub(crate) fn insert(&mut self, name: K, number: u32) {
        match self.entries.binary_search_by_key(&name, |entry| entry.0) {
            Ok(at) => {
                if let Some(entry) = self.entries.get_mut(at) {
                    entry.1 = number;
                }
            }
            Err(at) => self.entries.insert(at, (name, number)),
        }
    }

    /// The number of a name.
    #[inline]
    pub(crate) fn find(&mut self, name: K) -> Option<u32> {
        if let Some(&(last, number)) = self.entries.get(self.last)
            && last == name
        {
            return Some(number);
        }
        let at = self.entries.binary_search_by_key(&name, |entry| entry.0).ok()?;
        self.last = at;
        self.entries.get(at).map(|entry| entry.1)
    }

    /// Removes a name.
    pub(crate) fn remove(&mut self, name: K) {
        if let Ok(at) = self.entries.binary_search_by_key(&name, |entry| entry.0) {
            self.entries.remove(at);
        }
    }
}

#[cfg(test)]
mod tests;
