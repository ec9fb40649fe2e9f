//! Dead letters that are forwarded, and what is kept back where it cannot be.
//!
//! Invariant: a message is in one place: where it was sent, or where its dead letters go, or where they are kept.

use std::collections::BTreeMap;

use super::{Id, Message, Model, Place, Shelf, deferral::Deferral};

impl Message {
    /// Whether it can be found there next.
    pub(super) fn may_move_to(&self, next: Shelf) -> bool {
        let may_die = self.shelf == Shelf::Own && matches!(next, Shelf::Grave(_) | Shelf::Transfer);
        may_die || self.sequence.is_none()
    }

    /// It is found there for the first time; what is forwarded arrives like new.
    pub(super) fn move_to(&mut self, next: Shelf) {
        if self.shelf == next {
            return;
        }
        self.shelf = next;
        self.deferral = Deferral::No;
        if next != Shelf::Transfer {
            (self.sequence, self.delivery_count) = (None, 0);
        }
        // It has left its order, and its session.
        (self.aside, self.session) = (true, None);
    }

    /// Where it is received.
    pub(super) fn spot(&self, place: Place) -> Place {
        if let Shelf::Grave(grave) = self.shelf { grave } else { place }
    }
}

impl Model {
    /// A model that knows where dead letters are forwarded to.
    pub(crate) fn with_graves(graves: BTreeMap<Place, Place>) -> Self {
        Self { graves, ..Self::default() }
    }

    /// To which place a message was sent that is received at this one, and where it stands then.
    pub(crate) fn home(&self, id: Id, at: Place) -> (Place, Shelf) {
        if self.messages.contains_key(&(id, at)) {
            return (at, Shelf::Own);
        }
        let sent = |place: &Place| self.messages.contains_key(&(id, *place));
        let homes = self.graves.iter().filter(|(_, grave)| **grave == at).map(|(place, _)| *place);
        homes.filter(sent).map(|place| (place, Shelf::Grave(at))).next().unwrap_or((at, Shelf::Own))
    }
}
