//! Entries and feeds (`service-bus-admin` 5.1 to 5.3).
//!
//! Invariant: an entry's id has the path from which clients read names: `/Subscriptions/` and `/Rules/` with capitals,
//! and no slash twice.

use broker_core::Timestamp;

use crate::{Query, exchange::Host, time, xml};

/// One thing to show: its path, its own name, its times and its description in XML.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) path: String,
    pub(crate) title: String,
    /// The namespace does not say when.
    pub(crate) published: Option<Timestamp>,
    pub(crate) updated: Timestamp,
    /// Queues, topics and the namespace say whose they are.
    pub(crate) has_author: bool,
    pub(crate) description: String,
}

/// A list and its place in a longer one.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) title: &'static str,
    /// The path of the list.
    pub(crate) path: String,
    pub(crate) items: Vec<Item>,
    /// More follow.
    pub(crate) has_more: bool,
}

/// An entry on its own.
pub(crate) fn entry(host: &Host, query: &Query, item: &Item) -> String {
    let mut out = String::with_capacity(1_024 + item.description.len());
    put_entry(&mut out, host, query, item, true);
    out
}

/// A feed.
pub(crate) fn feed(host: &Host, query: &Query, now: Timestamp, page: &Page) -> String {
    let mut out = String::with_capacity(2_048 * (page.items.len() + 1));
    xml::put(
        &mut out,
        format_args!("<feed xmlns=\"{}\"><title type=\"text\">{}</title>", xml::ATOM, page.title),
    );
    let here = link(host, query, &page.path, Some((query.skip, query.top)));
    xml::element(&mut out, "id", &here);
    xml::element(&mut out, "updated", &time::format(now));
    put_link(&mut out, "self", &here);
    if page.has_more {
        let next = query.skip.saturating_add(page.items.len() as u64);
        put_link(&mut out, "next", &link(host, query, &page.path, Some((next, query.top))));
    }
    for item in &page.items {
        put_entry(&mut out, host, query, item, false);
    }
    out.push_str("</feed>");
    out
}

/// What the service answers to a `GET` of something that does not exist.
pub(crate) fn nothing(now: Timestamp, id: u64) -> String {
    let mut out =
        format!("<feed xmlns=\"{}\"><title type=\"text\">Publicly Listed Services</title>", xml::ATOM);
    out.push_str("<subtitle type=\"text\">This is the list of publicly-listed services currently available.</subtitle>");
    xml::element(
        &mut out,
        "id",
        &format!("uuid:00000000-0000-4000-8000-{:012x};id={id}", id & 0xffff_ffff_ffff),
    );
    xml::element(&mut out, "updated", &time::format(now));
    xml::element(&mut out, "generator", "Service Bus 1.1");
    out.push_str("</feed>");
    out
}

fn put_entry(out: &mut String, host: &Host, query: &Query, item: &Item, is_root: bool) {
    if is_root {
        xml::put(out, format_args!("<entry xmlns=\"{}\">", xml::ATOM));
    } else {
        out.push_str("<entry>");
    }
    let here = link(host, query, &item.path, None);
    xml::element(out, "id", &here);
    out.push_str("<title type=\"text\">");
    xml::escape(out, &item.title);
    out.push_str("</title>");
    if let Some(published) = item.published {
        xml::element(out, "published", &time::format(published));
    }
    xml::element(out, "updated", &time::format(item.updated));
    if item.has_author {
        out.push_str("<author>");
        xml::element(out, "name", host.namespace());
        out.push_str("</author>");
    }
    put_link(out, "self", &here);
    out.push_str("<content type=\"application/xml\">");
    out.push_str(&item.description);
    out.push_str("</content></entry>");
}

fn put_link(out: &mut String, relation: &str, target: &str) {
    xml::put(out, format_args!("<link rel=\"{relation}\" href=\""));
    xml::escape(out, target);
    out.push_str("\"/>");
}

fn link(host: &Host, query: &Query, path: &str, page: Option<(u64, u64)>) -> String {
    let mut url = format!("{}/{path}?api-version={}", host.base(), query.version);
    if let Some((skip, top)) = page {
        xml::put(&mut url, format_args!("&$skip={skip}&$top={top}"));
    }
    url
}
