//! Partitions of an entity: the partition of a key, and the sequence numbers of each (`docs/features/partitions.md`).
//!
//! Invariant: the top 16 bits of a number name the partition that gave it out, and the rest counts within it. A key
//! belongs to the same partition for as long as the journal is read, by every version of the program.

/// Partitions of an entity, as in Azure Service Bus.
pub(crate) const PARTITIONS: u16 = 16;
/// Bits that count within a partition.
const COUNT_BITS: u32 = 48;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// One of an entity's partitions: 1 to [`PARTITIONS`]. Numbers without partition have zero there, and no partition has
/// a number zero.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct PartitionId(u16);

impl PartitionId {
    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (1..=PARTITIONS).map(Self)
    }

    /// Partition of a key.
    pub(crate) fn of_key(key: &str) -> Self {
        // FNV-1a, with the upper bits folded in: the lowest ones alone mix less well.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        let hash = key.bytes().fold(0xCBF2_9CE4_8422_2325, mix);
        let place = (hash ^ (hash >> 32)) % u64::from(PARTITIONS);
        Self(1 + u16::try_from(place).unwrap_or_default())
    }

    /// The partition that gave out a number; `None` for one that has no partition.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        let id = u16::try_from(number >> COUNT_BITS).ok()?;
        (1..=PARTITIONS).contains(&id).then_some(Self(id))
    }

    /// Top 16 bits of its sequence numbers.
    pub(crate) fn id(self) -> u16 {
        self.0
    }

    /// Its lowest number.
    pub(crate) fn first_number(self) -> u64 {
        u64::from(self.0) << COUNT_BITS
    }

    /// First number of the partition after that of `number`.
    pub(crate) fn end_of(number: u64) -> u64 {
        ((number >> COUNT_BITS) + 1) << COUNT_BITS
    }

    fn place(self) -> usize {
        usize::from(self.0) - 1
    }
}

/// The numbers of one entity's partitions: for each the count that its next message gets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Counters([u64; PARTITIONS as usize]);

impl Default for Counters {
    fn default() -> Self {
        Self([1; PARTITIONS as usize])
    }
}

impl Counters {
    /// Bytes of its encoding.
    pub(crate) const BYTES: usize = PARTITIONS as usize * 8;

    /// From counts, in order of partition; `None` where they are not as many, or too high.
    pub(crate) fn new(counts: impl Iterator<Item = u64>) -> Option<Self> {
        let mut own = Self::default();
        let mut places = own.0.iter_mut();
        for count in counts {
            *places.next()? = Some(count).filter(|count| *count <= COUNT_MAX)?;
        }
        places.next().is_none().then_some(own)
    }

    /// The counts, in order of partition.
    pub(crate) fn counts(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    /// The number that the next message of a partition gets.
    pub(crate) fn next(&self, partition: PartitionId) -> u64 {
        partition.first_number() | self.0.get(partition.place()).copied().unwrap_or_default()
    }

    /// A message got this number, or it is passed over. After the last number of a partition comes its zero (SEQ-2).
    pub(crate) fn pass(&mut self, number: u64) {
        let partition = PartitionId::of_number(number);
        if let Some(count) = partition.and_then(|partition| self.0.get_mut(partition.place())) {
            *count = ((number & COUNT_MAX) + 1) & COUNT_MAX;
        }
    }

    /// A message was found that has this number: what comes gets a higher one.
    pub(crate) fn see(&mut self, number: u64) {
        let partition = PartitionId::of_number(number);
        if let Some(count) = partition.and_then(|partition| self.0.get_mut(partition.place()))
            && *count <= number & COUNT_MAX
        {
            self.pass(number);
        }
    }

    /// New messages get no lower numbers than `others` would give.
    pub(crate) fn raise(&mut self, others: &Self) {
        self.0.iter_mut().zip(&others.0).for_each(|(own, other)| *own = (*own).max(*other));
    }

    /// The partition for a message that may go to any: the one that has given out the fewest numbers.
    pub(crate) fn fairest(&self) -> PartitionId {
        PartitionId::all().min_by_key(|partition| self.next(*partition) & COUNT_MAX).unwrap_or(PartitionId(1))
    }
}

/// Cursor that passes each sequence number once: one number for a plain store, one for each partition where a store has
/// partitions, because new numbers lie between old ones there.
#[derive(Debug, Default)]
pub(crate) struct SequenceCursor {
    plain: u64,
    partitions: Option<Box<[u64; PARTITIONS as usize + 1]>>,
}

impl SequenceCursor {
    /// The next number to visit, `next_before(from, end)` being the lowest one that exists in a range.
    pub(crate) fn next(
        &self,
        has_partitions: bool,
        next_before: impl Fn(u64, u64) -> Option<u64>,
    ) -> Option<u64> {
        if !has_partitions {
            return next_before(self.plain, u64::MAX);
        }
        let seen = |place: usize| self.partitions.as_ref().and_then(|own| own.get(place)).copied();
        (0..=u64::from(PARTITIONS)).zip(0..).find_map(|(id, place)| {
            let first = id << COUNT_BITS;
            next_before(seen(place).unwrap_or_default().max(first), (id + 1) << COUNT_BITS)
        })
    }

    /// Whether a number lies behind.
    pub(crate) fn has_passed(&self, has_partitions: bool, number: u64) -> bool {
        if !has_partitions {
            return number < self.plain;
        }
        let place = usize::try_from(number >> COUNT_BITS).unwrap_or(usize::MAX);
        self.partitions.as_ref().and_then(|own| own.get(place)).is_some_and(|from| number < *from)
    }

    /// Passes a number that was visited.
    pub(crate) fn pass(&mut self, has_partitions: bool, number: u64) {
        if !has_partitions {
            self.plain = number + 1;
            return;
        }
        let place = usize::try_from(number >> COUNT_BITS).unwrap_or(usize::MAX);
        if let Some(from) = self.partitions.get_or_insert_default().get_mut(place) {
            *from = number + 1;
        }
    }
}

#[cfg(test)]
mod tests;
