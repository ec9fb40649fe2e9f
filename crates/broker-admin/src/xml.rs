//! XML: reading descriptions with elements in any order and with any prefixes, and writing text safely.
//!
//! Invariant: documents have no type declaration, so no entity of their own expands, and a bounded number of nodes, of
//! attributes and of namespaces that an element inherits.

use std::fmt::{self, Write as _};

use roxmltree::{Document, Node, ParsingOptions};

/// Namespace of the descriptions.
pub(crate) const SERVICE_BUS: &str = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
/// Namespace of entries and feeds.
pub(crate) const ATOM: &str = "http://www.w3.org/2005/Atom";
/// Namespace of the attribute that says what kind of filter a `Filter` is.
pub(crate) const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// Most elements, attributes and texts in one document.
const NODES_MAX: u32 = 20_000;
/// Most elements inside each other.
const DEPTH_MAX: usize = 32;
/// Most attributes of one element, and of all: each is compared with those beside it.
const ATTRIBUTES_MAX: usize = 32;
const ALL_ATTRIBUTES_MAX: usize = 10_000;
/// Most declarations of namespaces by an element and those around it: an element that declares one is given a copy of
/// those that it inherits, for which all are compared with all. Clients send about six.
const NAMESPACES_MAX: usize = 32;
/// Longest declaration of a namespace, name and value: bytes of both are compared.
const NAMESPACE_BYTES_MAX: usize = 256;

/// Reason why a body cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum XmlError {
    /// Not UTF-8.
    #[error("the body is not UTF-8")]
    NotText,
    /// Not well-formed, with a document type, or too large.
    #[error("the body cannot be read as XML: {0}")]
    Malformed(String),
    /// Elements are nested too deeply.
    #[error("the body nests elements more than {DEPTH_MAX} deep")]
    TooDeep,
    /// One element has too many attributes, or all together have.
    #[error(
        "the body has more than {ATTRIBUTES_MAX} attributes in one element, or {ALL_ATTRIBUTES_MAX} in all"
    )]
    TooManyAttributes,
    /// An element declares and inherits too many namespaces, or one that is too long.
    #[error(
        "the body has more than {NAMESPACES_MAX} namespaces declared around one element, or one of more than \
         {NAMESPACE_BYTES_MAX} bytes"
    )]
    TooManyNamespaces,
}

/// Does `then` with the document of a body.
pub(crate) fn with_document<T>(body: &[u8], then: impl FnOnce(&Document<'_>) -> T) -> Result<T, XmlError> {
    let text = std::str::from_utf8(body).map_err(|_| XmlError::NotText)?;
    let text = text.trim_start_matches('\u{feff}');
    check_tags(text)?;
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options);
    Ok(then(&document.map_err(|error| XmlError::Malformed(error.to_string()))?))
}

/// Markup that is no tag, whatever stands in it: behind `<`, its beginning and its end.
const NO_TAGS: [(&str, &str); 3] = [("!--", "-->"), ("![CDATA[", "]]>"), ("?", "?>")];

/// Counts how deep elements are nested, their attributes and their namespaces, before anything sees the text that may compare
/// all with all. It follows the markup as the parser does; past a place where the parser gives up, nothing matters.
fn check_tags(text: &str) -> Result<(), XmlError> {
    // The number of namespaces that each open element declares.
    let mut open = Vec::new();
    let (mut all, mut namespaces) = (0, 0);
    let mut rest = text;
    while let Some((_, markup)) = rest.split_once('<') {
        let no_tag = NO_TAGS.into_iter().find_map(|(begin, end)| Some((markup.strip_prefix(begin)?, end)));
        if let Some((inside, end)) = no_tag {
            rest = inside.split_once(end).map_or("", |(_, after)| after);
            continue;
        }
        if markup.starts_with('!') {
            // A document type, or nonsense: the parser gives up here.
            return Ok(());
        }
        if markup.starts_with('/') {
            namespaces -= open.pop().unwrap_or_default();
            rest = markup;
            continue;
        }
        let tag = Tag::read(markup);
        all += tag.attributes;
        if tag.attributes > ATTRIBUTES_MAX || all > ALL_ATTRIBUTES_MAX {
            return Err(XmlError::TooManyAttributes);
        }
        if namespaces + tag.namespaces > NAMESPACES_MAX || tag.namespace_bytes > NAMESPACE_BYTES_MAX {
            return Err(XmlError::TooManyNamespaces);
        }
        if !tag.is_empty {
            namespaces += tag.namespaces;
            open.push(tag.namespaces);
        }
        if open.len() > DEPTH_MAX {
            return Err(XmlError::TooDeep);
        }
        rest = tag.rest;
    }
    Ok(())
}

/// Facts about a tag with which an element begins.
#[derive(Default)]
struct Tag<'a> {
    attributes: usize,
    /// Those of the attributes that declare namespaces.
    namespaces: usize,
    /// Of the longest of these, name and value.
    namespace_bytes: usize,
    /// It ends the element too.
    is_empty: bool,
    /// The text behind it.
    rest: &'a str,
}

impl<'a> Tag<'a> {
    /// Reads the tag that begins before this text. It ends with the first `>` that is not in quotes.
    fn read(text: &'a str) -> Self {
        let mut tag = Self::default();
        let (mut quote, mut before) = (None, b'<');
        // Begin of the name or value that is read, and the length of its name if that value is a namespace.
        let (mut begin, mut declared) = (0, None);
        for (at, byte) in text.bytes().enumerate() {
            match (quote, byte) {
                (Some(open), _) if byte == open => {
                    quote = None;
                    let bytes = declared.take().map_or(0, |name: usize| name + (at - begin));
                    tag.namespace_bytes = tag.namespace_bytes.max(bytes);
                    begin = at + 1;
                }
                (None, b'"' | b'\'') => {
                    quote = Some(byte);
                    begin = at + 1;
                }
                (None, b'>') => {
                    tag.is_empty = before == b'/';
                    tag.rest = text.get(at + 1..).unwrap_or_default();
                    break;
                }
                (None, b'=') => {
                    tag.attributes += 1;
                    declared = text.get(begin..at).and_then(namespace).map(str::len);
                    tag.namespaces += usize::from(declared.is_some());
                    begin = at + 1;
                }
                (Some(_) | None, _) => {}
            }
            before = byte;
        }
        tag
    }
}

/// The name of the attribute with which a text ends, if it declares a namespace. For the parser it does behind any prefix, too.
fn namespace(text: &str) -> Option<&str> {
    let name = text.split_ascii_whitespace().next_back()?;
    name.split(':').any(|part| part == "xmlns").then_some(name)
}

/// The child element of this name in the namespace of descriptions.
pub(crate) fn child<'a, 'input>(parent: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    parent.children().find(|node| node.has_tag_name((SERVICE_BUS, name)))
}

/// The text of a child, without white space around it; `None` where the child is missing or empty.
pub(crate) fn text_of<'a>(parent: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let text = child(parent, name)?.text()?.trim();
    (!text.is_empty()).then_some(text)
}

/// The text of a child without trimming, for texts that were written by hand; `None` where the child is missing or has
/// only white space.
pub(crate) fn whole_text_of<'a>(parent: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let text = child(parent, name)?.text()?;
    (!text.trim().is_empty()).then_some(text)
}

/// Appends what `format_args!` made, all of it safe or escaped already.
pub(crate) fn put(out: &mut String, text: fmt::Arguments<'_>) {
    // A string takes everything.
    let _never = out.write_fmt(text);
}

/// Appends `<name>text</name>`.
pub(crate) fn element(out: &mut String, name: &str, text: &str) {
    element_with(out, name, |out| escape(out, text));
}

/// Appends `<name>`, what `inside` appends, and `</name>`.
pub(crate) fn element_with(out: &mut String, name: &str, inside: impl FnOnce(&mut String)) {
    out.push('<');
    out.push_str(name);
    out.push('>');
    inside(out);
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

/// Appends a number, without the detour that formatting takes: a page of a list has some thousands.
pub(crate) fn number(out: &mut String, number: u64) {
    digits(out, number, 1);
}

/// The same with zeros in front, to so many digits at least; at most 20.
pub(crate) fn digits(out: &mut String, mut number: u64, least: usize) {
    let mut text = [b'0'; 20];
    let mut used = 0;
    for place in text.iter_mut().rev() {
        if number == 0 && used >= least {
            break;
        }
        *place += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        used += 1;
    }
    let used = text.get(text.len() - used..).unwrap_or_default();
    out.push_str(std::str::from_utf8(used).unwrap_or_default());
}

/// Appends a text so that it stays one, in an element or an attribute. What XML cannot say is left out.
pub(crate) fn escape(out: &mut String, text: &str) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'&' | b'<' | b'>' | b'"');
    if text.bytes().all(is_plain) {
        return out.push_str(text);
    }
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                out.push_str(match c {
                    '\t' => "&#9;",
                    '\n' => "&#10;",
                    _ => "&#13;",
                });
            }
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {}
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests;
