//! The gateway as a client sees it: frames in, frames out, with the real engine and the real core between.

#[cfg(test)]
mod address_texts;
#[cfg(test)]
mod associated_links;
#[cfg(test)]
mod budgets;
#[cfg(test)]
mod chaos;
#[cfg(test)]
mod claims;
#[cfg(test)]
mod delays;
#[cfg(test)]
mod dialects;
#[cfg(test)]
mod dynamic;
#[cfg(test)]
mod early_outcomes;
#[cfg(test)]
mod granted;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod holding;
#[cfg(test)]
mod idling;
#[cfg(test)]
mod larger;
#[cfg(test)]
mod leaving;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod logins;
#[cfg(test)]
mod lost_locks;
#[cfg(test)]
mod lost_work;
#[cfg(test)]
mod management;
#[cfg(test)]
mod node_kinds;
#[cfg(test)]
mod placement;
#[cfg(test)]
mod rollbacks;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod selectors;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod settlements;
#[cfg(test)]
mod spans;
#[cfg(test)]
mod stale_locks;
#[cfg(test)]
mod subscribers;
#[cfg(test)]
mod tiers;
#[cfg(test)]
mod token_logins;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod transactions;
#[cfg(test)]
mod transfer;
#[cfg(test)]
mod watched;
