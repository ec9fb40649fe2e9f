//! The descriptions of the namespace, of entities and of rules as Atom entries and feeds.
//!
//! Invariant: each function writes what the core reported and decides nothing.

use broker_core::{EntityKind, EntityReport, StoredRule, Timestamp};

use crate::{
    Answer, Host, Namespace, Query,
    atom_feed::{self, Entry},
    condition,
    description::{self, Shown},
    rule, time,
};

/// Context of a request, on which its answer depends besides the content: host, parameters and time.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) host: Host,
    pub(crate) query: Query,
    pub(crate) now: Timestamp,
}

impl Context {
    /// The namespace as the answer.
    pub(crate) fn namespace(&self, namespace: Namespace) -> Answer {
        let (name, updated) = (self.host.namespace(), namespace.created_at);
        let entry = Entry { path: "$namespaceinfo", title: name, published: None, updated, has_author: true };
        let body = atom_feed::single_entry(&self.host, &self.query, entry, |out| namespace.put(out, name));
        Answer::entry(200, body, time::ticks(updated))
    }

    /// One entity as the answer.
    pub(crate) fn entity(&self, status: u16, report: &EntityReport, with_counts: bool) -> Answer {
        let body = atom_feed::single_entry(&self.host, &self.query, entry_of(report), |out| {
            description::write(out, Shown { report, query: &self.query, with_counts });
        });
        Answer::entry(status, body, condition::tag_of_entity(report))
    }

    /// One rule as the answer.
    pub(crate) fn rule(&self, status: u16, subscription: &str, stored: &StoredRule) -> Answer {
        let (path, description) = (rule_path(subscription, stored), described_rule(stored));
        let entry = rule_entry(&path, stored);
        let body = atom_feed::single_entry(&self.host, &self.query, entry, |out| out.push_str(&description));
        Answer::entry(status, body, condition::tag_of_text(&description))
    }

    /// Rules as the answer, one of which may only show that there are more than were asked for.
    pub(crate) fn rules(&self, path: &str, rules: &[StoredRule]) -> Answer {
        let subscription = path.rsplit_once('/').map_or("", |(subscription, _)| subscription);
        let top = usize::try_from(self.query.top).unwrap_or(usize::MAX);
        let shown = rules.get(..top).unwrap_or(rules);
        let has_more = rules.len() > shown.len();
        let page = atom_feed::Page { title: "Rules", path, shown: shown.len() as u64, has_more };
        let mut out = String::new();
        atom_feed::put_head(&mut out, &self.host, &self.query, self.now, page);
        for stored in shown {
            let path = rule_path(subscription, stored);
            let entry = rule_entry(&path, stored);
            atom_feed::put_entry(&mut out, &self.host, &self.query, entry, |out| {
                rule::write(out, rule::RULE, stored);
            });
        }
        out.push_str(atom_feed::END);
        Answer::feed(vec![out])
    }

    pub(crate) fn empty_feed(&self) -> Answer {
        Answer::feed(vec![atom_feed::empty_feed(self.now, self.now.as_millis())])
    }
}

/// Head of the entry of an entity.
pub(crate) fn entry_of(report: &EntityReport) -> Entry<'_> {
    let title = match report.kind {
        EntityKind::Subscription => report.name.rsplit('/').next().unwrap_or_default(),
        EntityKind::Queue | EntityKind::Topic => &report.name,
    };
    Entry {
        path: &report.name,
        title,
        published: Some(report.created_at),
        updated: report.updated_at,
        has_author: report.kind != EntityKind::Subscription,
    }
}

fn rule_path(subscription: &str, stored: &StoredRule) -> String {
    format!("{subscription}/Rules/{}", stored.rule.name)
}

fn rule_entry<'a>(path: &'a str, stored: &'a StoredRule) -> Entry<'a> {
    let title = &stored.rule.name;
    Entry { path, title, published: Some(stored.created_at), updated: stored.created_at, has_author: false }
}

pub(crate) fn described_rule(stored: &StoredRule) -> String {
    let mut description = String::with_capacity(1_024);
    rule::write(&mut description, rule::RULE, stored);
    description
}
