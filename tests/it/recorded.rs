//! Recorded exchanges: requests as clients write them, and the answers that they read.
//!
//! A conversation is a text of exchanges. One begins with `### what`, then comes the request as it goes over the wire,
//! and behind `--- status` the answer, in which `{time}`, `{number}` and `{any}` stand for what differs each time and
//! `{host}` for the broker's address. `with …` or `without a log-in` says another log-in than the client's own. Of the
//! headers of an answer those are judged that every answer of its kind has, and those that a line `header` names; a line
//! `holds` names a text that is in the body as it is.

use roxmltree::{Document, Node};

/// What a request is sent with as its log-in.
pub(crate) enum LogIn {
    /// What the client sends.
    Own,
    WrongKey,
    None,
    Expired,
    /// A token for this place.
    For(String),
}

impl LogIn {
    /// A line that begins with `with`.
    fn read(line: &str) -> Self {
        match line {
            "with a wrong key" => Self::WrongKey,
            "without a log-in" => Self::None,
            "with an expired token" => Self::Expired,
            _ => match line.strip_prefix("with a token for ") {
                Some(audience) => Self::For(audience.to_owned()),
                None => panic!("no log-in: {line}"),
            },
        }
    }
}

/// A request and its answer, as a file says them.
pub(crate) struct Exchange {
    pub(crate) what: String,
    /// Method and target.
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) login: LogIn,
    pub(crate) body: String,
    status: u16,
    /// Texts that the answer must hold as they are.
    holds: Vec<String>,
    /// Names and values of headers that the answer must have.
    has: Vec<(String, String)>,
    answer: String,
}

impl Exchange {
    /// Reads one; `host` is where its broker is.
    pub(crate) fn read(text: &str, host: &str) -> Self {
        let text = text.replace("{host}", host);
        let (request, answer) = text.split_once("\n--- ").unwrap_or_else(|| panic!("no answer: {text}"));
        let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
        let mut lines = head.lines();
        let (what, line) = (lines.next().unwrap(), lines.next().unwrap());
        let (login, lines): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("with"));
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("no header: {line}"));
            (name.to_owned(), value.to_owned())
        };
        let (status, answer) = answer.split_once('\n').unwrap_or((answer, ""));
        let (holds, answer): (Vec<_>, Vec<_>) = answer.lines().partition(|line| line.starts_with("holds "));
        let (has, answer): (Vec<_>, Vec<_>) =
            answer.into_iter().partition(|line| line.starts_with("header "));
        Self {
            what: what.to_owned(),
            line: line.to_owned(),
            headers: lines.into_iter().map(header).collect(),
            login: login.first().map_or(LogIn::Own, |line| LogIn::read(line)),
            body: body.trim_end().to_owned(),
            status: status.trim().parse().unwrap(),
            holds: holds.iter().map(|line| line["holds ".len()..].to_owned()).collect(),
            has: has.iter().map(|line| header(&line["header ".len()..])).collect(),
            answer: answer.join("\n").trim().to_owned(),
        }
    }

    /// What is wrong with an answer.
    pub(crate) fn judge(&self, status: u16, head: &str, body: &str) -> Vec<String> {
        let mut problems = Vec::new();
        if status != self.status {
            return vec![format!("{status}, expected {}: {body}", self.status)];
        }
        for text in self.holds.iter().filter(|text| !body.contains(*text)) {
            problems.push(format!("does not hold `{text}`: {body}"));
        }
        self.judge_headers(head, body, &mut problems);
        if self.answer.is_empty() {
            if self.holds.is_empty() && !body.is_empty() {
                problems.push(format!("a body: {body}"));
            }
            return problems;
        }
        let (expected, ours) = (Document::parse(&self.answer).unwrap(), Document::parse(body));
        let Ok(ours) = ours else { return vec![format!("no XML: {body}")] };
        compare(expected.root_element(), ours.root_element(), "", &mut problems);
        if expected.root_element().has_tag_name("Error") {
            judge_trail(ours.root_element(), &mut problems);
        }
        problems
    }

    /// What every answer of its kind has above its body, and what this one has.
    fn judge_headers(&self, head: &str, body: &str, problems: &mut Vec<String>) {
        let value = |name: &str| {
            let named = |line: &&str| {
                line.split_once(':').is_some_and(|(other, _)| other.trim().eq_ignore_ascii_case(name))
            };
            head.lines().find(named).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
        };
        let root = Document::parse(body).map(|it| it.root_element().tag_name().name().to_owned());
        let (kind, tag) = match root.as_deref() {
            Ok("entry") => (Some("application/atom+xml; type=entry; charset=utf-8"), Some("{number}")),
            Ok("feed") => (Some("application/atom+xml; type=feed; charset=utf-8"), None),
            Ok("Error") => (Some("application/xml; charset=utf-8"), None),
            _ => (None, None),
        };
        let length = body.is_empty().then_some("0");
        let mut wanted = vec![("Content-Type", kind), ("ETag", tag)];
        wanted.extend(length.map(|length| ("Content-Length", Some(length))));
        wanted.extend(self.has.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))));
        for (name, wanted) in wanted {
            let found = value(name);
            let fits = match (wanted, found) {
                (Some(pattern), Some(said)) => matches(pattern, said),
                (wanted, found) => wanted.is_none() && found.is_none(),
            };
            if !fits {
                problems.push(format!("{name} is {found:?}, expected {wanted:?}"));
            }
        }
    }
}

/// Each refusal ends with what its reader quotes to the operator.
fn judge_trail(error: Node<'_, '_>, problems: &mut Vec<String>) {
    let detail = error.children().find(|node| node.has_tag_name("Detail"));
    let text = detail.and_then(|node| node.text()).unwrap_or_default();
    let trail = text.rsplit_once(" TrackingId:").and_then(|(_, trail)| {
        let (id, rest) = trail.split_once(", SystemTracker:")?;
        let (place, time) = rest.rsplit_once(", Timestamp:")?;
        Some((id, place, time))
    });
    let fits = trail.is_some_and(|(id, place, time)| {
        let (guid, number) = id.split_once("_G").unwrap_or_default();
        guid.split('-').map(str::len).eq([8, 4, 4, 4, 12])
            && number.parse::<u64>().is_ok()
            && place.contains(':')
            && is_time(&format!("{time}Z"))
    });
    if !fits {
        problems.push(format!("no tracking id, place and time behind `{text}`"));
    }
}

/// Compares names, namespaces, attributes and texts, in order.
fn compare(expected: Node<'_, '_>, ours: Node<'_, '_>, path: &str, problems: &mut Vec<String>) {
    let path = format!("{path}/{}", expected.tag_name().name());
    if expected.tag_name() != ours.tag_name() {
        problems.push(format!("{path}: there is {:?}", ours.tag_name()));
        return;
    }
    let attributes = |node: Node<'_, '_>| {
        let mut all: Vec<_> = node
            .attributes()
            .map(|each| {
                (each.namespace().map(str::to_owned), each.name().to_owned(), each.value().to_owned())
            })
            .collect();
        all.sort();
        all
    };
    let (wanted, found) = (attributes(expected), attributes(ours));
    let fits = |(wanted, found): (&(_, _, String), &(_, _, String))| {
        let ((one, two, value), (other, another, text)): (&(Option<String>, String, String), _) =
            (wanted, found);
        (one, two) == (other, another) && matches(value, text)
    };
    if wanted.len() != found.len() || !wanted.iter().zip(&found).all(fits) {
        problems.push(format!("{path}: attributes {found:?}, expected {wanted:?}"));
    }
    let (wanted, found) = (children(expected), children(ours));
    let names = |nodes: &[Node<'_, '_>]| {
        nodes.iter().map(|node| node.tag_name().name().to_owned()).collect::<Vec<_>>().join(" ")
    };
    if names(&wanted) != names(&found) {
        problems.push(format!("{path}: has [{}], expected [{}]", names(&found), names(&wanted)));
        return;
    }
    if wanted.is_empty() {
        let (text, said) = (expected.text().unwrap_or_default().trim(), ours.text().unwrap_or_default());
        if !matches(text, said) {
            problems.push(format!("{path}: `{said}`, expected `{text}`"));
        }
    }
    for (wanted, found) in wanted.into_iter().zip(found) {
        compare(wanted, found, &path, problems);
    }
}

fn children<'a, 'd>(node: Node<'a, 'd>) -> Vec<Node<'a, 'd>> {
    node.children().filter(Node::is_element).collect()
}

/// Whether `said` is what `pattern` describes: a text, or one with a placeholder somewhere in it; `{any}` may end it too.
fn matches(pattern: &str, said: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('{') else { return pattern == said };
    let (kind, after) = rest.split_once('}').unwrap();
    if let Some(between) = after.strip_suffix("{any}") {
        let parts = said.strip_prefix(before).and_then(|said| said.split_once(between));
        return parts.is_some_and(|(first, last)| !first.is_empty() && !last.is_empty());
    }
    let middle = said.strip_prefix(before).and_then(|said| said.strip_suffix(after));
    middle.is_some_and(|middle| match kind {
        "any" => !middle.is_empty(),
        "number" => middle.parse::<u64>().is_ok(),
        "time" => is_time(middle),
        other => panic!("no placeholder {other}"),
    })
}

/// RFC 3339 in UTC, with up to 7 digits behind the second.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let fraction = shape.strip_prefix("0000-00-00T00:00:00").and_then(|rest| rest.strip_suffix('Z'));
    fraction.is_some_and(|rest| {
        rest.is_empty() || (rest.len() <= 8 && rest.starts_with('.') && rest.ends_with('0'))
    })
}
