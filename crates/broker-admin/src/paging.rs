//! A page of a list of entities, made slice by slice.
//!
//! Invariant: one question is about at most [`SLICE`] entities and one more; what exists while the page is made is in
//! it once, even if others are created or deleted meanwhile.

use broker_core::{EntityKind, EntityQuery, EntityReport, PageStart};

use crate::{
    Answer, Query, atom_feed,
    description::{self, Shown},
    entries::{Context, entry_of},
};

/// Entities of one question to the core.
const SLICE: u64 = 10;

/// Collection that a request lists.
#[derive(Clone, Debug)]
pub(crate) enum Collection {
    /// All queues or all topics.
    Kind(EntityKind),
    /// The subscriptions of a topic.
    Subscriptions(Box<str>),
}

/// A page that is being made.
#[derive(Debug)]
pub(crate) struct PageBuilder {
    collection: Collection,
    shown: u64,
    last: Option<Box<str>>,
    /// The first is kept for what stands in front of all entries, which says whether more follow.
    pieces: Vec<String>,
}

/// Progress of a page.
#[derive(Debug)]
pub(crate) enum PageProgress {
    Complete(Answer),
    /// There are more slices to ask for.
    Incomplete(PageBuilder),
}

impl PageBuilder {
    /// Nothing is shown yet.
    pub(crate) fn of(collection: Collection) -> Self {
        Self { collection, shown: 0, last: None, pieces: vec![String::new()] }
    }

    /// Next query of the core. The last slice asks for one entity more than the page has, to learn whether there is a
    /// next page.
    pub(crate) fn entity_query(&self, query: &Query) -> EntityQuery {
        let top = self.wanted(query);
        let start = self.last.clone().map_or(PageStart::Skip(query.skip), PageStart::Behind);
        match &self.collection {
            Collection::Kind(kind) => EntityQuery::Kind { kind: *kind, names: query.names, start, top },
            Collection::Subscriptions(topic) => {
                EntityQuery::Subscriptions { topic: topic.clone(), start, top }
            }
        }
    }

    fn wanted(&self, query: &Query) -> u64 {
        let missing = query.top.saturating_sub(self.shown);
        if missing <= SLICE { missing + 1 } else { SLICE }
    }

    /// Takes in a slice.
    pub(crate) fn step(mut self, context: &Context, entities: &[EntityReport]) -> PageProgress {
        let is_last = (entities.len() as u64) < self.wanted(&context.query);
        let room = usize::try_from(context.query.top.saturating_sub(self.shown)).unwrap_or(usize::MAX);
        let shown = entities.get(..room).unwrap_or(entities);
        let has_more = entities.len() > shown.len();
        let mut piece = String::with_capacity(atom_feed::ENTRY_BYTES * shown.len() + atom_feed::END.len());
        for report in shown {
            let shown = Shown { report, query: &context.query, with_counts: true };
            atom_feed::put_entry(&mut piece, &context.host, &context.query, entry_of(report), |out| {
                description::write(out, shown);
            });
        }
        self.shown += shown.len() as u64;
        self.last = shown.last().map(|report| report.name.clone()).or(self.last);
        self.pieces.push(piece);
        if is_last || has_more {
            PageProgress::Complete(self.finish(context, has_more))
        } else {
            PageProgress::Incomplete(self)
        }
    }

    /// The page of a list without entries.
    pub(crate) fn empty(mut self, context: &Context) -> Answer {
        self.pieces.push(String::new());
        self.finish(context, false)
    }

    fn finish(mut self, context: &Context, has_more: bool) -> Answer {
        let title = match self.collection {
            Collection::Kind(EntityKind::Topic) => "Topics",
            Collection::Kind(EntityKind::Queue | EntityKind::Subscription) => "Queues",
            Collection::Subscriptions(_) => "Subscriptions",
        };
        let path = match &self.collection {
            Collection::Kind(EntityKind::Topic) => "$Resources/topics",
            Collection::Kind(EntityKind::Queue | EntityKind::Subscription) => "$Resources/queues",
            Collection::Subscriptions(topic) => &format!("{topic}/Subscriptions"),
        };
        let page = atom_feed::Page { title, path, shown: self.shown, has_more };
        if let Some(head) = self.pieces.first_mut() {
            atom_feed::put_head(head, &context.host, &context.query, context.now, page);
        }
        if let Some(last) = self.pieces.last_mut() {
            last.push_str(atom_feed::END);
        }
        Answer::feed(self.pieces)
    }
}

#[cfg(test)]
mod tests;
