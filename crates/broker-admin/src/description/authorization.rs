//! XML of authorization rules (`AuthorizationRules` of the management API), both ways.
//!
//! Invariant: what a client says of a rule is shown again, and nothing else.

use broker_core::{AccessRight, AuthorizationRule, KeyText, Timestamp};
use roxmltree::Node;

use crate::{time, xml};

/// The property of a description.
pub(super) const ELEMENT: &str = "AuthorizationRules";
const RULE: &str = "AuthorizationRule";
const CREATED: &str = "CreatedTime";
const MODIFIED: &str = "ModifiedTime";
const KIND: &str = "SharedAccessAuthorizationRule";

/// Rights and their words.
const RIGHTS: [(&str, AccessRight); 3] =
    [("Manage", AccessRight::Manage), ("Send", AccessRight::Send), ("Listen", AccessRight::Listen)];

/// The rules in a description.
pub(super) fn read(description: Node<'_, '_>) -> Result<Vec<AuthorizationRule>, String> {
    let rules = xml::child(description, ELEMENT).into_iter().flat_map(|rules| rules.children());
    rules.filter(|node| node.has_tag_name((xml::SERVICE_BUS, RULE))).map(read_rule).collect()
}

fn read_rule(rule: Node<'_, '_>) -> Result<AuthorizationRule, String> {
    let kind = rule.attribute((xml::INSTANCE, "type")).map_or(KIND, local);
    if kind != KIND {
        return Err(format!("an `{RULE}` is of type '{kind}', expected {KIND}"));
    }
    let name = xml::text_of(rule, "KeyName").unwrap_or_default();
    let primary = xml::text_of(rule, "PrimaryKey").unwrap_or_default();
    let secondary = xml::text_of(rule, "SecondaryKey").filter(|key| !key.is_empty());
    let rights = xml::child(rule, "Rights").into_iter().flat_map(|rights| rights.children());
    let rights = rights.filter(Node::is_element).map(|right| read_right(right.text().unwrap_or_default()));
    let time = |name| xml::text_of(rule, name).map_or(Ok(Timestamp::default()), |text| read_time(name, text));
    Ok(AuthorizationRule {
        name: name.into(),
        rights: rights.collect::<Result<_, _>>()?,
        primary: KeyText::new(primary),
        secondary: secondary.map(KeyText::new),
        created_at: time(CREATED)?,
        modified_at: time(MODIFIED)?,
    })
}

fn read_time(name: &str, text: &str) -> Result<Timestamp, String> {
    let millis =
        time::parse(text).ok_or_else(|| format!("`{name}` is '{text}', expected a date and time"))?;
    // One before 1970 is what clients write for none.
    Ok(Timestamp::from_millis(u64::try_from(millis).unwrap_or(0)))
}

/// The name behind the prefix of a namespace.
fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local).trim()
}

fn read_right(text: &str) -> Result<AccessRight, String> {
    let text = text.trim();
    let known = RIGHTS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    known
        .map(|(_, right)| *right)
        .ok_or_else(|| format!("`AccessRights` is '{text}', expected Manage, Send or Listen"))
}

/// Appends the rules of an entity.
pub(super) fn write(out: &mut String, rules: &[AuthorizationRule]) {
    xml::put(out, format_args!("<{ELEMENT}>"));
    for rule in rules {
        xml::put(out, format_args!("<{RULE} i:type=\"{KIND}\">"));
        xml::element(out, "ClaimType", "SharedAccessKey");
        xml::element(out, "ClaimValue", "None");
        out.push_str("<Rights>");
        for right in &rule.rights {
            let word = RIGHTS.iter().find(|(_, known)| known == right).map_or("", |(word, _)| word);
            xml::element(out, "AccessRights", word);
        }
        out.push_str("</Rights>");
        // The service shows them only where they were given: a test of the Go SDK compares what it sent with what it reads.
        for (name, at) in [(CREATED, rule.created_at), (MODIFIED, rule.modified_at)] {
            if at != Timestamp::default() {
                xml::element(out, name, &time::format(at));
            }
        }
        xml::element(out, "KeyName", &rule.name);
        xml::element(out, "PrimaryKey", rule.primary.reveal());
        if let Some(key) = &rule.secondary {
            xml::element(out, "SecondaryKey", key.reveal());
        }
        xml::put(out, format_args!("</{RULE}>"));
    }
    xml::put(out, format_args!("</{ELEMENT}>"));
}
