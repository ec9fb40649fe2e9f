//! Shares of the owners in the write cache: who holds how much of it, and how much each may hold.
//!
//! Invariant: an owner's share is at least its part by weight of the bytes that are shared, among the owners that have
//! something in the cache. What one of them does not need of its part goes to the others, by weight.

use crate::owner::{Owner, Weights};

/// Memory of the owners, and the shares that follow from it.
#[derive(Debug, Default)]
pub(crate) struct CacheShares {
    /// By owner.
    accounts: Vec<Account>,
    /// Owners that have something in the cache, and some that had when this was looked at last.
    present: Vec<Owner>,
    /// Share of an owner of weight 1.
    per_weight: u64,
    /// Chunks that were forgotten since the shares were computed.
    forgotten: usize,
}

/// Memory of one owner.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Bytes of its living records in the chunks.
    live: u64,
    /// Its runs in the chunks, dead ones among them.
    runs: u64,
    /// Bytes of its retained runs.
    retained: u64,
    /// Whether it is among those that are present.
    is_listed: bool,
}

impl Account {
    fn is_present(&self) -> bool {
        self.runs > 0 || self.retained > 0
    }

    fn held(&self) -> u64 {
        self.live + self.retained
    }
}

impl CacheShares {
    /// Bytes of memory for the living records of an owner.
    pub(crate) fn held(&self, owner: Owner) -> u64 {
        self.account(owner).held()
    }

    /// Bytes of its retained runs.
    pub(crate) fn retained(&self, owner: Owner) -> u64 {
        self.account(owner).retained
    }

    /// A run of an owner came into a chunk, with so many living bytes.
    pub(crate) fn add_run(&mut self, owner: Owner, live: u64) {
        let account = self.account_mut(owner);
        account.live += live;
        account.runs += 1;
        self.list(owner);
    }

    /// So many bytes of an owner died in a chunk.
    #[inline]
    pub(crate) fn release(&mut self, owner: Owner, bytes: u64) {
        if let Some(account) = self.accounts.get_mut(owner.index()) {
            account.live = account.live.saturating_sub(bytes);
        }
    }

    /// A run left its chunk while so much of it was alive.
    pub(crate) fn remove_run(&mut self, owner: Owner, live: u64) {
        let account = self.account_mut(owner);
        account.live = account.live.saturating_sub(live);
        account.runs = account.runs.saturating_sub(1);
    }

    /// A run is retained, and takes so many bytes.
    pub(crate) fn add_retained(&mut self, owner: Owner, bytes: u64) {
        self.account_mut(owner).retained += bytes;
        self.list(owner);
    }

    /// It is no longer.
    pub(crate) fn remove_retained(&mut self, owner: Owner, bytes: u64) {
        let account = self.account_mut(owner);
        account.retained = account.retained.saturating_sub(bytes);
    }

    /// A chunk is forgotten.
    pub(crate) fn note_forgotten(&mut self) {
        self.forgotten += 1;
    }

    /// Whether the shares are too old. The more owners there are, the more chunks go between two times.
    pub(crate) fn is_due(&self) -> bool {
        self.forgotten >= self.present.len() / OWNERS_PER_CHUNK
    }

    /// Computes the shares in a cache of `keep` bytes.
    pub(crate) fn compute(&mut self, keep: u64, weights: &Weights) {
        self.forgotten = 0;
        let Self { accounts, present, .. } = self;
        present.retain(|owner| {
            let account = accounts.get_mut(owner.index());
            account.is_some_and(|account| {
                account.is_listed = account.is_present();
                account.is_listed
            })
        });
        let all: u64 = present.iter().map(|owner| weights.of(*owner)).sum();
        let shared = keep - keep / UNSHARED_FRACTION;
        self.per_weight = shared / all.max(1);
        for _ in 0..PASSES_MAX {
            // Those that need less than their share leave the rest to the others.
            let (mut rest, mut wanting) = (shared, all);
            for owner in present.iter() {
                let weight = weights.of(*owner);
                let held = accounts.get(owner.index()).map_or(0, Account::held);
                if held <= self.per_weight.saturating_mul(weight) {
                    rest = rest.saturating_sub(held);
                    wanting -= weight;
                }
            }
            if wanting == 0 {
                self.per_weight = u64::MAX;
                return;
            }
            let more = rest / wanting;
            if more <= self.per_weight {
                return;
            }
            self.per_weight = more;
        }
    }

    /// Whether more than one owner has something in the cache, as far as is known since the shares were computed. `open` is
    /// about to come into it.
    pub(crate) fn is_shared(&self, open: Owner) -> bool {
        self.present.len() > 1 || self.present.first().is_some_and(|owner| *owner != open)
    }

    /// The share of an owner, in bytes.
    pub(crate) fn share(&self, owner: Owner, weights: &Weights) -> u64 {
        self.per_weight.saturating_mul(weights.of(owner))
    }

    /// The owners that have something in the cache, as far as is known since the shares were computed, by number.
    pub(crate) fn present(&self, number: usize) -> Option<Owner> {
        self.present.get(number).copied()
    }

    /// Whether an owner has retained runs, and more than its share.
    pub(crate) fn is_over(&self, owner: Owner, weights: &Weights) -> bool {
        let account = self.account(owner);
        account.retained > 0 && account.held() > self.share(owner, weights)
    }

    fn account(&self, owner: Owner) -> Account {
        self.accounts.get(owner.index()).copied().unwrap_or_default()
    }

    fn account_mut(&mut self, owner: Owner) -> &mut Account {
        let index = owner.index();
        if index >= self.accounts.len() {
            self.accounts.resize(index + 1, Account::default());
        }
        self.accounts.get_mut(index).expect("there are as many")
    }

    fn list(&mut self, owner: Owner) {
        let account = self.account_mut(owner);
        if !std::mem::replace(&mut account.is_listed, true) {
            self.present.push(owner);
        }
    }
}

/// One byte in so many belongs to nobody's share: owners that all append as much as they can hold about as much as each may,
/// and without this their records would be copied only to be dropped at once.
const UNSHARED_FRACTION: u64 = 8;
/// Shares are computed for at most about so many owners for each chunk that is forgotten.
const OWNERS_PER_CHUNK: usize = 64;
/// The shares grow from pass to pass, and each is a share that may be used: so many passes bring nearly all.
const PASSES_MAX: usize = 8;

#[cfg(test)]
mod tests;
