//! Positions of the journal, which count bytes over all segments.
//!
//! Invariant: a position is given out once; what was written there never changes while it is live.

use std::fmt;

/// Start of a record: a byte position over all segments of the journal, which only grows.
/// Position 0 is never a record: every segment begins with a header.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Name of one file of the journal: `00000012.segment` is file 12. Files are reused; the number says nothing
/// about order, the header inside does.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileId(pub u32);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08}.segment", self.0)
    }
}
