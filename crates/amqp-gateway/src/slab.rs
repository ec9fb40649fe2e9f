//! Slab with generational numbers: a number is valid as long as its entry lives.
//!
//! A number is an index and a generation, so that an answer which arrives after its thing has gone finds
//! nothing instead of the thing's successor.
//!
//! Invariant: a number finds what it was given out for or nothing, until its generation has come round.

/// Things numbered with `INDEX_BITS` of index under `GENERATION_BITS` of generation.
#[derive(Debug)]
pub(crate) struct Slab<T, const INDEX_BITS: u32, const GENERATION_BITS: u32> {
    places: Vec<Slot<T>>,
    /// Indices of empty places.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    thing: Option<T>,
}

impl<T, const INDEX_BITS: u32, const GENERATION_BITS: u32> Slab<T, INDEX_BITS, GENERATION_BITS> {
    /// Empty, without memory.
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Number of entries.
    pub(crate) const fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Gives a thing a number; `None` when all are in use.
    pub(crate) fn insert(&mut self, thing: T) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            let place = self.places.get_mut(index as usize)?;
            place.thing = Some(thing);
            return Some(place.generation << INDEX_BITS | index);
        }
        let index = u32::try_from(self.places.len()).ok()?;
        if index >> INDEX_BITS != 0 {
            return None;
        }
        self.places.push(Slot { generation: 0, thing: Some(thing) });
        Some(index)
    }

    /// The thing with this number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let place = self.places.get(Self::index(number))?;
        if place.generation == number >> INDEX_BITS { place.thing.as_ref() } else { None }
    }

    /// The thing with this number, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let place = self.places.get_mut(Self::index(number))?;
        if place.generation == number >> INDEX_BITS { place.thing.as_mut() } else { None }
    }

    /// Takes a thing out; its number finds nothing any more.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let index = Self::index(number);
        let place = self.places.get_mut(index)?;
        if place.generation != number >> INDEX_BITS {
            return None;
        }
        let thing = place.thing.take()?;
        place.generation = (place.generation + 1) & ((1 << GENERATION_BITS) - 1);
        self.free.push(u32::try_from(index).ok()?);
        Some(thing)
    }

    /// All things with their numbers, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0u32..).zip(&self.places).filter_map(|(index, place)| {
            place.thing.as_ref().map(|thing| (place.generation << INDEX_BITS | index, thing))
        })
    }

    /// All things, by index, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.thing.as_mut())
    }

    const fn index(number: u32) -> usize {
        (number & ((1 << INDEX_BITS) - 1)) as usize
    }
}

#[cfg(test)]
mod tests;
