//! Requests of the administration clients, as they write them, and the answers that they read.
//!
//! Each file in `administration/` is a conversation with a fresh broker: exchanges that begin with `### what`, with a
//! request as it goes over the wire, and behind `--- status` the answer, in which `{time}`, `{number}` and `{any}` stand
//! for what differs each time and `{host}` for the broker's address.

use std::net::SocketAddr;

use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, Secret, sign_token};
use roxmltree::{Document, Node};

use crate::{
    broker::Broker,
    http::{connect, whole_answer},
};

/// How a client says who it is: the text that its token is for, and the order of the token's parts.
struct Client {
    audience: fn(host: &str, target: &str) -> String,
    order: [&'static str; 4],
    line_end: &'static str,
}

const SR_FIRST: [&str; 4] = ["sr", "sig", "se", "skn"];

/// The URL up to its path; bodies in lines that end as on Windows.
const DOTNET: Client = Client {
    audience: |host, target| format!("http://{host}{}", target.split('?').next().unwrap()),
    order: SR_FIRST,
    line_end: "\r\n",
};
/// The whole URL.
const GO: Client =
    Client { audience: |host, target| format!("https://{host}{target}"), order: SR_FIRST, line_end: "" };
/// The host alone.
const PYTHON: Client =
    Client { audience: |host, _| format!("https://{host}"), order: SR_FIRST, line_end: "" };
/// The whole URL in lower case.
const JAVASCRIPT: Client = Client {
    audience: |host, target| format!("https://{host}{target}").to_lowercase(),
    order: ["sig", "se", "skn", "sr"],
    line_end: "",
};
/// The host, as a resource of messaging.
const JAVA: Client = Client { audience: |host, _| format!("amqp://{host}/"), order: SR_FIRST, line_end: "" };

impl Client {
    fn token(&self, audience: &str, key: &str) -> String {
        let token = sign_token(audience, DEVELOPMENT_KEY_NAME, &Secret::new(key), u64::from(u32::MAX));
        let parts = token.strip_prefix("SharedAccessSignature ").unwrap();
        let part = |name: &&str| parts.split('&').find(|part| part.starts_with(&format!("{name}="))).unwrap();
        format!("SharedAccessSignature {}", self.order.iter().map(part).collect::<Vec<_>>().join("&"))
    }

    fn replay(&self, conversation: &str) {
        let broker = Broker::with(|config| (config.entities, config.auto_create) = (Vec::new(), false));
        let host = format!("localhost:{}", broker.http_address().port());
        let mut problems = Vec::new();
        let exchanges: Vec<Exchange> =
            conversation.split("### ").skip(1).map(|text| Exchange::read(text, &host)).collect();
        assert!(exchanges.len() > 3, "{}", exchanges.len());
        for exchange in &exchanges {
            let found = self.play(broker.http_address(), &host, exchange);
            problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", exchange.what)));
        }
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }

    /// What is wrong with the answer to one request.
    fn play(&self, address: SocketAddr, host: &str, exchange: &Exchange) -> Vec<String> {
        let (_, target) = exchange.line.split_once(' ').unwrap();
        let key = if exchange.with_wrong_key { "wrong" } else { DEVELOPMENT_KEY };
        let login = self.token(&(self.audience)(host, target), key);
        let mut headers = format!("Host: {host}\r\nAuthorization: {login}\r\nConnection: close\r\n");
        for (name, value) in &exchange.headers {
            let value = match value.strip_prefix("token for ") {
                Some(audience) => self.token(audience, DEVELOPMENT_KEY),
                None => value.clone(),
            };
            headers.extend([name, ": ", &value, "\r\n"]);
        }
        let body = match self.line_end {
            "" => exchange.body.lines().map(str::trim).collect::<String>(),
            line_end => exchange.body.replace('\n', line_end),
        };
        let length = body.len();
        let request =
            format!("{} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}", exchange.line);
        let mut stream = connect(address);
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let (status, head, body) = whole_answer(&mut stream);
        exchange.judge(status, &head, &body)
    }
}

/// A request and its answer, as a file says them.
struct Exchange {
    what: String,
    /// Method and target.
    line: String,
    headers: Vec<(String, String)>,
    with_wrong_key: bool,
    body: String,
    status: u16,
    /// Texts that the answer must hold as they are.
    holds: Vec<String>,
    answer: String,
}

impl Exchange {
    fn read(text: &str, host: &str) -> Self {
        let text = text.replace("{host}", host);
        let (request, answer) = text.split_once("\n--- ").unwrap_or_else(|| panic!("no answer: {text}"));
        let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
        let mut lines = head.lines();
        let (what, line) = (lines.next().unwrap(), lines.next().unwrap());
        let (with_wrong_key, lines): (Vec<_>, Vec<_>) = lines.partition(|line| *line == "with a wrong key");
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("no header: {line}"));
            (name.to_owned(), value.to_owned())
        };
        let (status, answer) = answer.split_once('\n').unwrap_or((answer, ""));
        let (holds, answer): (Vec<_>, Vec<_>) = answer.lines().partition(|line| line.starts_with("holds "));
        Self {
            what: what.to_owned(),
            line: line.to_owned(),
            headers: lines.into_iter().map(header).collect(),
            with_wrong_key: !with_wrong_key.is_empty(),
            body: body.trim_end().to_owned(),
            status: status.trim().parse().unwrap(),
            holds: holds.iter().map(|line| line["holds ".len()..].to_owned()).collect(),
            answer: answer.join("\n").trim().to_owned(),
        }
    }

    fn judge(&self, status: u16, head: &str, body: &str) -> Vec<String> {
        let mut problems = Vec::new();
        if status != self.status {
            return vec![format!("{status}, expected {}: {body}", self.status)];
        }
        for text in self.holds.iter().filter(|text| !body.contains(*text)) {
            problems.push(format!("does not hold `{text}`: {body}"));
        }
        if self.answer.is_empty() {
            if self.holds.is_empty() && !body.is_empty() {
                problems.push(format!("a body: {body}"));
            }
            return problems;
        }
        let (expected, ours) = (Document::parse(&self.answer).unwrap(), Document::parse(body));
        let Ok(ours) = ours else { return vec![format!("no XML: {body}")] };
        compare(expected.root_element(), ours.root_element(), "", &mut problems);
        let kind = match expected.root_element().tag_name().name() {
            "Error" => "application/xml; charset=utf-8".to_owned(),
            root => format!("application/atom+xml; type={root}; charset=utf-8"),
        };
        let head = head.to_ascii_lowercase();
        if !head.contains(&format!("content-type: {kind}\r\n").to_ascii_lowercase()) {
            problems.push(format!("the content type is not `{kind}`: {head}"));
        }
        problems
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

/// Whether `said` is what `pattern` describes: a text, or one with a placeholder somewhere in it.
fn matches(pattern: &str, said: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('{') else { return pattern == said };
    let (kind, after) = rest.split_once('}').unwrap();
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

#[test]
fn dotnet_administers_as_recorded() {
    DOTNET.replay(include_str!("administration/dotnet.http"));
}

#[test]
fn java_administers_as_recorded() {
    JAVA.replay(include_str!("administration/java.http"));
}

#[test]
fn go_administers_as_recorded() {
    GO.replay(include_str!("administration/go.http"));
}

#[test]
fn python_administers_as_recorded() {
    PYTHON.replay(include_str!("administration/python.http"));
}

#[test]
fn javascript_administers_as_recorded() {
    JAVASCRIPT.replay(include_str!("administration/javascript.http"));
}
