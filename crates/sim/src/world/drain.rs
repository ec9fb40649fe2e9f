//! The end of a run: the broker is left in peace, and gives back all that it has.
//!
//! Invariant: nothing fails any more, so whatever is missing now is lost.

use std::sync::atomic::Ordering;

use super::World;
use crate::{
    client::{Purpose, Scene},
    model::Shelf,
    plan::Target,
};

impl World<'_> {
    /// No more mischief: everything must come out.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        self.check_links()?;
        self.crash();
        self.boot()?;
        self.process.mischief.calm.store(true, Ordering::Relaxed);
        self.lines.clear();
        // A full disk may take no new entity before it is drained.
        for _ in 0..4 {
            self.finish_deletions();
            self.work();
        }
        // All schedules are due.
        self.now += 20_000;
        for place in 0..self.plan.places.count() {
            self.connect(Purpose::Drain(place, false));
            if self.plan.places.grave(place).is_some() {
                self.connect(Purpose::Collect(Shelf::Transfer, place));
            } else {
                self.connect(Purpose::Drain(place, true));
            }
        }
        for (way, place) in self.plan.places.keepers() {
            self.connect(Purpose::Collect(Shelf::Kept(way), place));
        }
        let mut idle_rounds = 0;
        while idle_rounds < 4 {
            let before = self.report.wire;
            self.finish_deletions();
            self.round()?;
            idle_rounds = if self.report.wire == before { idle_rounds + 1 } else { 0 };
            // Locks of the time before run out.
            self.now += 10;
        }
        self.look()?;
        self.model.check_drained(self.now).map_err(|broken| broken.to_string())
    }

    /// What was forwarded is where it belongs, and nowhere else.
    fn look(&mut self) -> Result<(), String> {
        self.lines.clear();
        for way in 0..self.plan.places.ways.len() {
            self.connect(Purpose::Look(Target::Way(way)));
        }
        for place in self.plan.places.graves().into_keys() {
            self.connect(Purpose::LookDead(place));
        }
        (0..4).try_for_each(|_| self.round())
    }

    /// Once everything has arrived no link is left whose entity is gone.
    fn check_links(&mut self) -> Result<(), String> {
        if self.plan.places.fleeting().is_empty() {
            return Ok(());
        }
        self.process.mischief.calm.store(true, Ordering::Relaxed);
        let mut before = None;
        while before != Some(self.report.wire) {
            before = Some(self.report.wire);
            for line in 0..self.lines.len() {
                self.bytes_to_broker(line, true);
            }
            self.deliver()?;
        }
        let Self { lines, rng, model, plan, now, .. } = self;
        let (places, body_max, mortal, now) = (&plan.places, plan.body_max, plan.mortal, *now);
        let scene = Scene { rng, model, places, body_max, mortal, now };
        lines.iter().try_for_each(|line| line.client.check_links(&scene))
    }

    /// The broker works until it has nothing more to do.
    fn work(&mut self) {
        while self.process.is_busy() {
            self.node_step();
            self.disk_step();
        }
        self.node_step();
    }

    /// Everybody does what there is to do.
    fn round(&mut self) -> Result<(), String> {
        for line in 0..self.lines.len() {
            self.client_acts(line)?;
            self.bytes_to_broker(line, true);
        }
        self.deliver()
    }

    fn deliver(&mut self) -> Result<(), String> {
        self.work();
        for line in 0..self.lines.len() {
            self.effects_arrive(line);
            self.bytes_to_client(line, true)?;
        }
        Ok(())
    }
}
