//! ATOM entries and feeds, as the management API of Service Bus writes them (RFC 4287).
//!
//! Invariant: an entry's id has the path from which clients read names: `/Subscriptions/` and `/Rules/` with capitals,
//! and no slash twice.

use broker_core::Timestamp;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::{Host, Query, time, xml};

/// Characters to escape in the path of a URL: what RFC 3986 has no place for there. No name that Service Bus can spell has one.
const NOT_IN_PATHS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Head of an entry, in front of its description: path, title and times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) path: &'a str,
    pub(crate) title: &'a str,
    /// The namespace does not say when.
    pub(crate) published: Option<Timestamp>,
    pub(crate) updated: Timestamp,
    /// Queues, topics and the namespace say whose they are.
    pub(crate) has_author: bool,
}

/// A place in a list that may be longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    pub(crate) title: &'static str,
    /// The path of the list.
    pub(crate) path: &'a str,
    /// Number of entries on the page.
    pub(crate) shown: u64,
    /// More follow.
    pub(crate) has_more: bool,
}

/// End of a feed, behind the last entry.
pub(crate) const END: &str = "</feed>";

/// Appends what stands in front of the first entry of a feed.
pub(crate) fn put_head(out: &mut String, host: &Host, query: &Query, now: Timestamp, page: Page<'_>) {
    xml::put(out, format_args!("<feed xmlns=\"{}\"><title type=\"text\">{}</title>", xml::ATOM, page.title));
    let put_page_url = |out: &mut String, skip: u64| {
        put_url(out, host, query, page.path);
        xml::put(out, format_args!("&amp;$skip={skip}&amp;$top={}", query.top));
    };
    xml::element_with(out, "id", |out| put_page_url(out, query.skip));
    xml::element_with(out, "updated", |out| time::put(out, now));
    put_link(out, "self", |out| put_page_url(out, query.skip));
    if page.has_more {
        put_link(out, "next", |out| put_page_url(out, query.skip.saturating_add(page.shown)));
    }
}

/// Feed with which the service answers a `GET` of an entity that does not exist.
pub(crate) fn empty_feed(now: Timestamp, id: u64) -> String {
    let mut out =
        format!("<feed xmlns=\"{}\"><title type=\"text\">Publicly Listed Services</title>", xml::ATOM);
    out.push_str("<subtitle type=\"text\">This is the list of publicly-listed services currently available.</subtitle>");
    xml::element(
        &mut out,
        "id",
        &format!("uuid:00000000-0000-4000-8000-{:012x};id={id}", id & 0xffff_ffff_ffff),
    );
    xml::element_with(&mut out, "updated", |out| time::put(out, now));
    xml::element(&mut out, "generator", "Service Bus 1.1");
    out.push_str(END);
    out
}

/// An entry on its own.
pub(crate) fn single_entry(
    host: &Host,
    query: &Query,
    entry: Entry<'_>,
    describe: impl FnOnce(&mut String),
) -> String {
    let mut out = String::with_capacity(ENTRY_BYTES);
    xml::put(&mut out, format_args!("<entry xmlns=\"{}\">", xml::ATOM));
    put_inside(&mut out, host, query, entry, describe);
    out
}

/// Appends an entry of a feed; `describe` appends its description.
pub(crate) fn put_entry(
    out: &mut String,
    host: &Host,
    query: &Query,
    entry: Entry<'_>,
    describe: impl FnOnce(&mut String),
) {
    out.push_str("<entry>");
    put_inside(out, host, query, entry, describe);
}

/// About what an entry takes, in bytes.
pub(crate) const ENTRY_BYTES: usize = 2_560;

fn put_inside(
    out: &mut String,
    host: &Host,
    query: &Query,
    entry: Entry<'_>,
    describe: impl FnOnce(&mut String),
) {
    xml::element_with(out, "id", |out| put_url(out, host, query, entry.path));
    out.push_str("<title type=\"text\">");
    xml::escape(out, entry.title);
    out.push_str("</title>");
    if let Some(published) = entry.published {
        xml::element_with(out, "published", |out| time::put(out, published));
    }
    xml::element_with(out, "updated", |out| time::put(out, entry.updated));
    if entry.has_author {
        out.push_str("<author>");
        xml::element(out, "name", host.namespace());
        out.push_str("</author>");
    }
    put_link(out, "self", |out| put_url(out, host, query, entry.path));
    out.push_str("<content type=\"application/xml\">");
    describe(out);
    out.push_str("</content></entry>");
}

fn put_link(out: &mut String, relation: &str, put_target: impl FnOnce(&mut String)) {
    out.push_str("<link rel=\"");
    out.push_str(relation);
    out.push_str("\" href=\"");
    put_target(out);
    out.push_str("\"/>");
}

fn put_url(out: &mut String, host: &Host, query: &Query, path: &str) {
    xml::escape(out, host.base());
    out.push('/');
    xml::escape(out, &utf8_percent_encode(path, NOT_IN_PATHS).to_string());
    out.push_str("?api-version=");
    xml::escape(out, &query.version);
}
