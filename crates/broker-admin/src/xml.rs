//! XML: reading descriptions with elements in any order and with any prefixes, and writing text safely.
//!
//! Invariant: documents have no type declaration, so no entity of their own expands, and a bounded number of nodes.

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
/// Most attributes of one element, and of all: each is compared with those beside it, and namespaces are inherited.
const ATTRIBUTES_MAX: usize = 32;
const ALL_ATTRIBUTES_MAX: usize = 10_000;

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

/// Counts how deep tags can be nested at most, and their attributes, before anything sees the text that may recurse or
/// compare all with all.
fn check_tags(text: &str) -> Result<(), XmlError> {
    let (mut depth, mut all): (usize, usize) = (0, 0);
    // A tag ends before the next one begins: what is in quotes has no `<` either.
    for part in text.split('<').skip(1) {
        let attributes = if part.starts_with(['!', '?', '/']) { 0 } else { attributes(part) };
        all += attributes;
        if attributes > ATTRIBUTES_MAX || all > ALL_ATTRIBUTES_MAX {
            return Err(XmlError::TooManyAttributes);
        }
        if part.starts_with('/') {
            depth = depth.saturating_sub(1);
        } else if !part.starts_with(['!', '?'])
            && !part.split('>').next().is_some_and(|tag| tag.ends_with('/'))
        {
            depth += 1;
        }
        if depth > DEPTH_MAX {
            return Err(XmlError::TooDeep);
        }
    }
    Ok(())
}

/// Number of attributes of the tag with which a text begins.
fn attributes(text: &str) -> usize {
    let (mut quote, mut count) = (None, 0);
    for byte in text.bytes() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'>') => break,
            (None, b'=') => count += 1,
            (Some(_) | None, _) => {}
        }
    }
    count
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
