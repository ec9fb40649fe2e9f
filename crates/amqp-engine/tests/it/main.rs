//! The engine as a peer sees it: a scripted client speaks, the engine answers, a test looks at
//! both sides.

#[cfg(test)]
#[allow(dead_code, reason = "a toolbox")]
mod pair;

#[cfg(test)]
mod allocations;
#[cfg(test)]
mod attaches;
#[cfg(test)]
mod awaited_answers;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod credit;
#[cfg(test)]
mod delayed;
#[cfg(test)]
#[path = "../../fuzz/checks/driver.rs"]
mod driver;
#[cfg(test)]
mod framing;
#[cfg(test)]
mod gathering;
#[cfg(test)]
mod handshake;
#[cfg(test)]
mod joining;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod links;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod settlement;
#[cfg(test)]
mod splits;
#[cfg(test)]
mod transfers;
#[cfg(test)]
mod wire;
#[cfg(test)]
mod work_lost;
