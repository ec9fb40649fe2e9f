//! Entities that are deleted, and made again under the same name.
//!
//! Invariant: nothing that was in an entity when its deletion was asked for comes out of one that was found after the
//! broker had confirmed it.

use super::{Broken, Fate, Id, Message, Model, ParcelId, Place, Seen, Shelf, broken};

/// Counts the deletions of a place: the entity that stands there now is younger than so many.
pub(crate) type Age = u32;

/// What is known of the deletions of one place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ground {
    /// Asked for: at most so many have happened.
    asked: Age,
    /// Confirmed: so many have happened.
    done: Age,
    /// Nobody knows whether anything stands there.
    missing: bool,
}

/// Which of the entities something belongs to that have stood at one place, one after the other: nobody knows when a
/// deletion happens that was asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Span {
    /// The first that it can be.
    pub(crate) first: Age,
    /// The last that it can be; `None`: that is open.
    pub(crate) last: Option<Age>,
}

impl Span {
    /// What both have in common; `None` for nothing.
    fn meet(self, other: Self) -> Option<Self> {
        let first = self.first.max(other.first);
        let last = self.last.into_iter().chain(other.last).min();
        last.is_none_or(|last| first <= last).then_some(Self { first, last })
    }

    /// The one that it is, where that is sure.
    fn only(self) -> Option<Age> {
        self.last.filter(|last| *last == self.first)
    }
}

/// How what is sent gets to its places.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Course {
    /// Which entity it can reach, where it is sent on a link.
    pub(crate) link: Option<Span>,
    /// It arrives later than the broker says yes.
    pub(crate) late: bool,
    /// What is not there gets no copy.
    pub(crate) copies: bool,
}

impl Message {
    /// The ground is that of its place; `onward` that of the place to which its dead letters are forwarded.
    pub(super) fn sent_on(mut self, course: Course, ground: Ground, onward: Ground) -> Self {
        self.span = Span { first: ground.done, last: course.link.and_then(|link| link.last) };
        self.onward = Span { first: onward.done, last: None };
        self.late = course.late;
        // In a transaction what is sent on a link that was of a deleted entity is overlooked, and the rest may be committed.
        let may_be_late = course.link.is_some_and(|link| link.first < ground.done);
        self.sure = !(may_be_late || course.copies && ground.missing);
        self
    }

    /// In which entity of its place it is, where that is sure.
    pub(super) fn age(&self) -> Option<Age> {
        match self.shelf {
            Shelf::Own | Shelf::Transfer => self.span.only(),
            Shelf::Grave(_) => self.onward.only(),
            Shelf::Kept(_) => Some(0),
        }
    }
}

impl Model {
    pub(super) fn ground(&self, place: Place) -> Ground {
        self.grounds.get(&place).copied().unwrap_or_default()
    }

    /// The deletion of what stands at a place is asked for, once more if the first answer was lost.
    pub(crate) fn deleting(&mut self, place: Place) {
        let ground = self.grounds.entry(place).or_default();
        (ground.asked, ground.missing) = (ground.done + 1, true);
    }

    /// The broker confirmed it.
    pub(crate) fn deleted(&mut self, place: Place) {
        self.count("entities deleted");
        let ground = self.grounds.entry(place).or_default();
        ground.done = ground.asked;
    }

    /// The broker has made it anew, or says that it is there.
    pub(crate) fn made(&mut self, place: Place) {
        let ground = self.grounds.entry(place).or_default();
        ground.missing &= ground.asked != ground.done;
    }

    /// Whether a deletion is under way.
    pub(crate) fn is_deleting(&self, place: Place) -> bool {
        let ground = self.ground(place);
        ground.asked != ground.done
    }

    /// Whether it is to be made anew.
    pub(crate) fn is_missing(&self, place: Place) -> bool {
        self.ground(place).missing
    }

    /// Whether an open transaction is to complete something of a place.
    pub(crate) fn is_enlisted(&self, place: Place) -> bool {
        self.messages.iter().any(|((_, other), message)| {
            message.spot(*other) == place
                && message.lock.is_some()
                && matches!(message.fate, Fate::Completing(Some(_)))
        })
    }

    /// Whether what a transaction would complete may have been deleted.
    pub(crate) fn is_spoilt(&self, parcel: ParcelId) -> bool {
        let completes =
            self.parcels.get(&parcel).map(|parcel| parcel.completes.as_slice()).unwrap_or_default();
        completes
            .iter()
            .any(|copy| self.messages.get(copy).is_some_and(|message| self.may_be_buried(copy.1, message)))
    }

    /// The first entity that is found at a place from now on.
    pub(crate) fn first_at(&self, place: Place) -> Age {
        self.ground(place).done
    }

    /// What somebody has found who began to look when `first` was the first, and has the answer now.
    pub(crate) fn found_at(&self, place: Place, first: Age) -> Span {
        Span { first, last: Some(self.ground(place).asked) }
    }

    /// The broker detaches a link because its entity is gone.
    pub(crate) fn check_left(&mut self, place: Place, span: Span) -> Result<(), Broken> {
        self.count("links detached by deletions");
        if self.ground(place).asked <= span.first {
            return broken(place as u64, "a link lasts as long as its entity", &(span, self.ground(place)));
        }
        Ok(())
    }

    /// The same of a link that receives: what it held in transactions is gone with it.
    pub(crate) fn left_ground(&mut self, place: Place, span: Span, holder: u64) -> Result<(), Broken> {
        self.check_left(place, span)?;
        let mut spoilt = Vec::new();
        for ((_, other), message) in &mut self.messages {
            if message.spot(*other) == place
                && message.lock.take_if(|lock| lock.holder == holder).is_some()
                && let Fate::Completing(Some(parcel)) = message.fate
            {
                spoilt.push(parcel);
            }
        }
        for parcel in spoilt {
            self.count("transactions that lost an entity");
            self.undone(parcel)?;
        }
        Ok(())
    }

    /// Whether a link is still there whose entity was deleted.
    pub(crate) fn check_link(&self, place: Place, span: Span) -> Result<(), Broken> {
        let ground = self.ground(place);
        if span.last.is_some_and(|last| last < ground.done) {
            return broken(place as u64, "a link goes with its entity", &(span, ground));
        }
        Ok(())
    }

    /// The message exists, and so it has arrived, if it arrives at once: no later than now.
    pub(super) fn arrived(&mut self, (id, place): (Id, Place)) {
        let asked = self.ground(place).asked;
        if let Some(message) = self.messages.get_mut(&(id, place)).filter(|message| !message.late) {
            let last = message.span.last.map_or(asked, |last| last.min(asked));
            message.span.last = Some(last);
        }
    }

    /// Whether a message is in the entity in which it is seen.
    pub(super) fn check_ground(&mut self, seen: &Seen) -> Result<(), Broken> {
        let Some(message) = self.messages.get_mut(&(seen.id, seen.place)) else { return Ok(()) };
        let span = match seen.shelf {
            Shelf::Own | Shelf::Transfer => &mut message.span,
            Shelf::Grave(_) => &mut message.onward,
            Shelf::Kept(_) => return Ok(()),
        };
        let Some(common) = span.meet(seen.span) else {
            return broken(seen.id, "nothing of a deleted entity comes again", &(seen, message));
        };
        *span = common;
        Ok(())
    }

    /// Whether it may be gone with its entity, or come when there was none.
    pub(super) fn may_be_buried(&self, place: Place, message: &Message) -> bool {
        let goes = |place, span: Span| {
            let asked = self.ground(place).asked;
            span.first < asked || span.meet(Span { first: asked, last: None }).is_none()
        };
        let grave_goes = |grave: &Place| goes(*grave, message.onward);
        match message.shelf {
            Shelf::Own => {
                let unseen = self.graves.get(&place).is_some_and(grave_goes);
                unseen || !message.sure || goes(place, message.span)
            }
            Shelf::Transfer => goes(place, message.span),
            Shelf::Grave(grave) => grave_goes(&grave),
            Shelf::Kept(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
