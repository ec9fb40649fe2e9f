//! A page of a list of entities, made slice by slice.
//!
//! Invariant: one question is about at most [`SLICE`] entities and one more; what exists while the page is made is in it
//! once, whatever comes or goes meanwhile.

use broker_core::{EntityKind, EntityReport, Look, Start};

use crate::{
    Answer, Query,
    description::{self, Shown},
    exchange::{Context, entry_of},
    feed,
};

/// Entities of one question to the core.
const SLICE: u64 = 10;

/// What is listed.
#[derive(Clone, Debug)]
pub(crate) enum List {
    /// All queues or all topics.
    Kind(EntityKind),
    /// The subscriptions of a topic.
    Subscriptions(Box<str>),
}

/// A page that is being made.
#[derive(Debug)]
pub(crate) struct Listing {
    list: List,
    shown: u64,
    /// The last one shown.
    last: Option<Box<str>>,
    /// The first is kept for what stands in front of all entries, which says whether more follow.
    pieces: Vec<String>,
}

/// How far a page is.
#[derive(Debug)]
pub(crate) enum Made {
    /// It is the answer.
    Whole(Answer),
    /// There are more slices to ask for.
    Part(Listing),
}

impl Listing {
    /// Nothing is shown yet.
    pub(crate) fn of(list: List) -> Self {
        Self { list, shown: 0, last: None, pieces: vec![String::new()] }
    }

    /// What to look at next. With the last slice comes one more than the page has: whether it exists says whether there
    /// is a next page.
    pub(crate) fn look(&self, query: &Query) -> Look {
        let top = self.wanted(query);
        let start = self.last.clone().map_or(Start::Skip(query.skip), Start::Behind);
        match &self.list {
            List::Kind(kind) => Look::Kind { kind: *kind, start, top },
            List::Subscriptions(topic) => Look::Subscriptions { topic: topic.clone(), start, top },
        }
    }

    fn wanted(&self, query: &Query) -> u64 {
        let missing = query.top.saturating_sub(self.shown);
        if missing <= SLICE { missing + 1 } else { SLICE }
    }

    /// Takes in a slice.
    pub(crate) fn step(mut self, context: &Context, entities: &[EntityReport]) -> Made {
        let is_last = (entities.len() as u64) < self.wanted(&context.query);
        let room = usize::try_from(context.query.top.saturating_sub(self.shown)).unwrap_or(usize::MAX);
        let shown = entities.get(..room).unwrap_or(entities);
        let has_more = entities.len() > shown.len();
        let mut piece = String::with_capacity(feed::ENTRY_BYTES * shown.len() + feed::END.len());
        for report in shown {
            let shown = Shown { report, query: &context.query, with_counts: true };
            feed::put_entry(&mut piece, &context.host, &context.query, entry_of(report), |out| {
                description::write(out, shown);
            });
        }
        self.shown += shown.len() as u64;
        self.last = shown.last().map(|report| report.name.clone()).or(self.last);
        self.pieces.push(piece);
        if is_last || has_more { Made::Whole(self.finish(context, has_more)) } else { Made::Part(self) }
    }

    fn finish(mut self, context: &Context, has_more: bool) -> Answer {
        let title = match self.list {
            List::Kind(EntityKind::Topic) => "Topics",
            List::Kind(EntityKind::Queue | EntityKind::Subscription) => "Queues",
            List::Subscriptions(_) => "Subscriptions",
        };
        let path = match &self.list {
            List::Kind(EntityKind::Topic) => "$Resources/topics",
            List::Kind(EntityKind::Queue | EntityKind::Subscription) => "$Resources/queues",
            List::Subscriptions(topic) => &format!("{topic}/Subscriptions"),
        };
        let page = feed::Page { title, path, shown: self.shown, has_more };
        if let Some(head) = self.pieces.first_mut() {
            feed::put_head(head, &context.host, &context.query, context.now, page);
        }
        if let Some(last) = self.pieces.last_mut() {
            last.push_str(feed::END);
        }
        Answer::feed(self.pieces)
    }
}

#[cfg(test)]
mod tests;
