//! The client's half: descriptions out of answers, and the bodies of requests that create and change entities.
//!
//! Invariant: an unknown element is sent back as it came, so that an update changes only the named properties; those
//! that only the broker sets are not sent.

use broker_core::{EntityKind, Rule, StoredRule, Timestamp};
use roxmltree::{Document, Node};

use crate::{
    description::{described, element_name, elements},
    rule,
    xml::{self, XmlError},
};

/// Description of an entity: XML elements by their names in the API.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Described {
    pub kind: EntityKind,
    /// Its own name: that of a subscription is without its topic.
    pub name: String,
    elements: Vec<Element>,
}

/// One property.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Element {
    name: String,
    content: Content,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Content {
    Text(String),
    /// An element with elements of its own, as it stands in the document.
    Raw(String),
}

/// Reason why a response cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AnswerError {
    /// It cannot be read at all.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// It is about something else.
    #[error("the answer describes no entity")]
    Nothing,
    /// A rule in it cannot be understood.
    #[error("{0}")]
    Rule(String),
}

/// Contents of an error response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// The number behind `SubCode=`.
    pub sub_code: Option<u32>,
    pub text: String,
}

/// Elements that only the broker sets.
const READ_ONLY: [&str; 10] = [
    "AccessedAt",
    "CorrelationFilterCount",
    "CountDetails",
    "CreatedAt",
    "EntityAvailabilityStatus",
    "MessageCount",
    "SizeInBytes",
    "SqlFilterCount",
    "SubscriptionCount",
    "UpdatedAt",
];

impl Described {
    /// One of which nothing is said yet: everything has its default.
    pub fn new(kind: EntityKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), elements: Vec::new() }
    }

    /// The text of an element; `None` where it is missing.
    pub fn text(&self, element: &str) -> Option<&str> {
        let found = self.elements.iter().find(|it| it.name == element)?;
        match &found.content {
            Content::Text(text) => Some(text),
            Content::Raw(_) => None,
        }
    }

    /// A number in `CountDetails`, such as `ActiveMessageCount`.
    pub fn count(&self, name: &str) -> Option<u64> {
        let details = self.elements.iter().find(|it| it.name == "CountDetails")?;
        let Content::Raw(raw) = &details.content else { return None };
        // A name has a prefix that is declared on the element itself.
        let (_, rest) = raw.split_once(&format!(":{name}>"))?;
        rest.split_once('<')?.0.trim().parse().ok()
    }

    /// Sets the text of an element, or takes the element away.
    pub fn set(&mut self, element: &str, text: Option<&str>) {
        self.elements.retain(|it| it.name != element);
        if let Some(text) = text {
            self.elements.push(Element { name: element.to_owned(), content: Content::Text(text.to_owned()) });
        }
    }

    /// A subscription that is created gets this rule instead of the one that lets everything in.
    pub fn set_first_rule(&mut self, rule: Rule) {
        let mut raw = String::new();
        let stored = StoredRule { rule, created_at: Timestamp::from_millis(0) };
        rule::write(&mut raw, rule::DEFAULT_RULE, &stored);
        self.elements.push(Element { name: rule::DEFAULT_RULE.to_owned(), content: Content::Raw(raw) });
    }

    /// The body of a request.
    pub fn body(&self) -> String {
        // The service requires this order (`DataContract` members are a sequence).
        let order = elements(self.kind);
        let place = |element: &&Element| order.iter().position(|known| known.name() == Some(&element.name));
        let mut elements: Vec<&Element> =
            self.elements.iter().filter(|it| !READ_ONLY.contains(&&*it.name)).collect();
        elements.sort_by_key(|element| place(element).unwrap_or(usize::MAX));
        let name = element_name(self.kind);
        let mut out = entry_head(name);
        for element in elements {
            match &element.content {
                Content::Text(text) => xml::element(&mut out, &element.name, text),
                Content::Raw(raw) => out.push_str(raw),
            }
        }
        xml::put(&mut out, format_args!("</{name}></content></entry>"));
        out
    }

    fn read(node: Node<'_, '_>, name: String) -> Option<Self> {
        let kinds = [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription];
        let kind = kinds.into_iter().find(|kind| node.tag_name().name() == element_name(*kind))?;
        let elements = node.children().filter(Node::is_element).map(|child| {
            let content = if child.children().any(|inner| inner.is_element()) {
                Content::Raw(child.document().input_text().get(child.range()).unwrap_or_default().to_owned())
            } else {
                Content::Text(child.text().unwrap_or_default().trim().to_owned())
            };
            Element { name: child.tag_name().name().to_owned(), content }
        });
        Some(Self { kind, name, elements: elements.collect() })
    }
}

fn entry_head(name: &str) -> String {
    format!(
        "<entry xmlns=\"{}\"><content type=\"application/xml\"><{name} xmlns=\"{}\" xmlns:i=\"{}\">",
        xml::ATOM,
        xml::SERVICE_BUS,
        xml::INSTANCE
    )
}

/// The body of a request that creates or replaces a rule.
pub fn rule_body(rule: Rule) -> String {
    let mut out = format!("<entry xmlns=\"{}\"><content type=\"application/xml\">", xml::ATOM);
    rule::write(&mut out, rule::RULE, &StoredRule { rule, created_at: Timestamp::from_millis(0) });
    out.push_str("</content></entry>");
    out
}

/// The one entity of an answer; `None` for the empty list that stands for "there is none".
pub fn read_entity(answer: &[u8]) -> Result<Option<Described>, AnswerError> {
    xml::with_document(answer, |document| {
        let root = document.root_element();
        if root.has_tag_name((xml::ATOM, "feed")) {
            return Ok(None);
        }
        let node = described(document).ok_or(AnswerError::Nothing)?;
        Described::read(node, title(root)).map(Some).ok_or(AnswerError::Nothing)
    })?
}

/// The entities of a list.
pub fn read_entities(answer: &[u8]) -> Result<Vec<Described>, AnswerError> {
    xml::with_document(answer, |document| {
        let read = entries(document).map(|entry| {
            content(entry).and_then(|node| Described::read(node, title(entry))).ok_or(AnswerError::Nothing)
        });
        read.collect()
    })?
}

/// The one rule of an answer; `None` for the empty list that stands for "there is none".
pub fn read_rule(answer: &[u8]) -> Result<Option<Rule>, AnswerError> {
    xml::with_document(answer, |document| {
        if document.root_element().has_tag_name((xml::ATOM, "feed")) {
            return Ok(None);
        }
        let node = described(document).ok_or(AnswerError::Nothing)?;
        rule::read(node, None).map(Some).map_err(AnswerError::Rule)
    })?
}

/// The rules of a list.
pub fn read_rules(answer: &[u8]) -> Result<Vec<Rule>, AnswerError> {
    xml::with_document(answer, |document| {
        let read = entries(document).map(|entry| {
            rule::read(content(entry).ok_or(AnswerError::Nothing)?, None).map_err(AnswerError::Rule)
        });
        read.collect()
    })?
}

/// Contents of an error response; `None` if the body has another form.
pub fn read_refusal(answer: &[u8]) -> Option<Refused> {
    let read = xml::with_document(answer, |document| {
        let root = document.root_element();
        let detail =
            root.children().find(|node| node.tag_name().name() == "Detail")?.text()?.trim().to_owned();
        let detail = detail.rsplit_once(" TrackingId:").map_or(&*detail, |(text, _)| text);
        let Some((sub_code, text)) = detail.strip_prefix("SubCode=").and_then(|rest| rest.split_once('.'))
        else {
            return Some(Refused { sub_code: None, text: detail.to_owned() });
        };
        Some(Refused { sub_code: sub_code.parse().ok(), text: text.trim().to_owned() })
    });
    read.ok().flatten()
}

fn entries<'a>(document: &'a Document<'_>) -> impl Iterator<Item = Node<'a, 'a>> {
    document.root_element().children().filter(|node| node.has_tag_name((xml::ATOM, "entry")))
}

fn content<'a>(entry: Node<'a, 'a>) -> Option<Node<'a, 'a>> {
    let content = entry.children().find(|node| node.has_tag_name((xml::ATOM, "content")))?;
    content.children().find(Node::is_element)
}

fn title(entry: Node<'_, '_>) -> String {
    let title = entry.children().find(|node| node.has_tag_name((xml::ATOM, "title")));
    // A name may begin and end with spaces, and has no line breaks.
    title.and_then(|title| title.text()).unwrap_or_default().trim_matches(char::is_control).to_owned()
}

#[cfg(test)]
mod tests;
