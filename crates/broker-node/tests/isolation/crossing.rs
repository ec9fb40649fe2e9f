//! A lock token of one namespace proves nothing in another.

use broker_core::{Batch, Command, Effect};
use broker_node::Released;

use crate::{
    broker::Broker,
    plan::Crossing,
    tenant::{client, path},
    world::World,
};

impl World {
    /// A client of one namespace settles and renews with a token from another. Its own node is not asked: nothing may
    /// come of it.
    pub(crate) fn cross(&mut self, Crossing { from, to, nth, how }: Crossing) {
        let tenant = &self.tenants[from];
        let held = |number: usize| {
            let held = tenant.held[number].values().map(|held| (held.place, held.token));
            let fetched = tenant.fetched[number].iter().copied();
            held.chain(fetched).map(move |(place, token)| (number, place, token))
        };
        let held: Vec<_> = (0..2).flat_map(held).collect();
        let (Some(nth), Some(id)) = (nth.checked_rem(held.len()), self.tenants[to].id) else { return };
        let (number, place, token) = held[nth];
        let (settle, renew) = (self.next_ticket(), self.next_ticket());
        let commands = vec![
            Command::SettleByToken {
                path: path(place),
                session: None,
                tokens: vec![token],
                outcome: how.outcome(),
                ticket: settle,
            },
            Command::RenewLocks { path: path(place), tokens: vec![token], ticket: renew },
        ];
        self.broker.ask(self.now, id, Batch { client: client(number), commands });
        let mut shown = Vec::new();
        self.broker.run(self.now, &mut shown).expect("nothing kills it");
        let effects = Broker::shown_to(&shown, id, client(number));
        let is_refused = |effect: &Effect| match effect {
            Effect::SettleRefused { ticket, .. } | Effect::RequestRefused { ticket, .. } => {
                *ticket == settle || *ticket == renew
            }
            _ => false,
        };
        assert!(effects.len() == 2 && effects.iter().all(is_refused), "{effects:?}");
        let is_asker = |released: &Released| (released.namespace, released.client) == (id, client(number));
        assert!(shown.iter().all(is_asker), "nobody else hears of it: {shown:?}");
    }
}
