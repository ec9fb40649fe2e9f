//! Namespaces that the files declare, and which of them an entry means.
//!
//! Invariant: the default namespace is always the first; no host name leads to two namespaces.

use std::{collections::BTreeMap, fmt::Display, net::IpAddr, path::Path};

use broker_core::{DEFAULT_NAMESPACE, NamespaceLimit, NamespaceSettings, namespace_key};
use broker_server::HostName;

use super::{
    Anonymous, NamespaceEntry, Settings,
    limit::{Amount, NAMESPACE_WEIGHT},
};
use crate::{emulator::Emulator, failure::Failure, suggest::suggest};

/// One namespace.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    /// As first written.
    pub(crate) name: String,
    key: Box<str>,
    /// A file names it. The default one is there unnamed, too.
    pub(crate) is_named: bool,
    pub(crate) settings: NamespaceSettings,
    /// Access of clients without credentials.
    pub(super) anonymous: Anonymous,
}

/// Place of a namespace among all; the default one has place 0.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct NamespaceIndex(pub(super) usize);

/// The namespaces of the files, in the order in which they are declared.
#[derive(Clone, Debug)]
pub(crate) struct Namespaces {
    all: Vec<Namespace>,
    by_key: BTreeMap<Box<str>, NamespaceIndex>,
    /// The namespaces of the emulator's file, in its order.
    of_emulator: Vec<NamespaceIndex>,
}

impl Namespace {
    fn new(name: &str, key: Box<str>) -> Self {
        let settings = NamespaceSettings::default();
        Self { name: name.to_owned(), key, is_named: true, settings, anonymous: Anonymous::Deny }
    }
}

impl Namespaces {
    /// Those of these settings, whose `emulator_config` is this.
    pub(crate) fn new(settings: &Settings, emulator: Option<&Emulator>) -> Result<Self, Failure> {
        let mut default = Namespace::new(DEFAULT_NAMESPACE, DEFAULT_NAMESPACE.into());
        default.is_named = false;
        default.anonymous = settings.anonymous.unwrap_or_default();
        let mut namespaces = Self { all: Vec::new(), by_key: BTreeMap::new(), of_emulator: Vec::new() };
        namespaces.push(default);
        let mut is_default_given = false;
        for entry in &settings.namespace {
            let mut namespace = checked(entry)?;
            let is_default = &*namespace.key == DEFAULT_NAMESPACE;
            if namespaces.find(&namespace.key).is_some() && (!is_default || is_default_given) {
                return Err(Failure::misuse(format_args!("namespace `{}` is configured twice", entry.name)));
            }
            if !is_default {
                namespaces.push(namespace);
                continue;
            }
            is_default_given = true;
            if let Some(default) = namespaces.all.first_mut() {
                if entry.anonymous.is_none() {
                    namespace.anonymous = default.anonymous;
                }
                *default = namespace;
            }
        }
        if let (Some(emulator), Some(path)) = (emulator, &settings.emulator_config) {
            namespaces.add_emulator(emulator, path)?;
        }
        namespaces.refuse_ambiguous_hostnames()?;
        Ok(namespaces)
    }

    /// The namespaces of an emulator's file. The first one is the default one, unless the configuration declares one of its name.
    fn add_emulator(&mut self, emulator: &Emulator, path: &Path) -> Result<(), Failure> {
        let bad = |reason: &dyn Display| {
            Failure::misuse(format_args!("bad emulator configuration in `{}`: {reason}", path.display()))
        };
        let has_several = emulator.namespaces.len() > 1;
        for (at, namespace) in emulator.namespaces.iter().enumerate() {
            let name = namespace.name.as_deref();
            let key = name.map(namespace_key).and_then(Result::ok);
            let declared = key.as_deref().and_then(|key| self.find(key));
            let index = match (at, name, declared) {
                (_, _, Some(index)) => index,
                (0, name, None) => {
                    self.lead_to_default(name.filter(|_| has_several));
                    NamespaceIndex::default()
                }
                (_, None, None) => {
                    return Err(bad(&format_args!("`Namespaces[{at}].Name` is missing or not a text")));
                }
                (_, Some(name), None) => {
                    let key = namespace_key(name)
                        .map_err(|error| bad(&format_args!("namespace `{name}`: {error}")))?;
                    self.push(Namespace::new(name, key))
                }
            };
            if self.of_emulator.contains(&index) {
                let name = name.unwrap_or_default();
                return Err(bad(&format_args!("namespace `{name}` is the same as one before")));
            }
            self.of_emulator.push(index);
        }
        Ok(())
    }

    /// Lets the name of the emulator's first namespace lead to the default one, where there are others beside it.
    fn lead_to_default(&mut self, name: Option<&str>) {
        let key = name.map(namespace_key).and_then(Result::ok);
        if let (Some(key), Some(default)) = (key, self.all.first_mut())
            && !default.settings.hostnames.contains(&key)
        {
            default.settings.hostnames.push(key);
            default.is_named = true;
        }
    }

    /// All of them, the default one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NamespaceIndex, &Namespace)> {
        self.all.iter().enumerate().map(|(at, namespace)| (NamespaceIndex(at), namespace))
    }

    /// The namespaces of the emulator's file, in its order.
    pub(super) fn of_emulator(&self) -> &[NamespaceIndex] {
        &self.of_emulator
    }

    fn find(&self, key: &str) -> Option<NamespaceIndex> {
        self.by_key.get(key).copied()
    }

    fn push(&mut self, namespace: Namespace) -> NamespaceIndex {
        let index = NamespaceIndex(self.all.len());
        self.by_key.insert(namespace.key.clone(), index);
        self.all.push(namespace);
        index
    }

    /// The namespace that `owner` names; the default one where it names none.
    pub(crate) fn of(&self, owner: &dyn Display, name: Option<&str>) -> Result<NamespaceIndex, Failure> {
        let Some(name) = name else { return Ok(NamespaceIndex::default()) };
        if let Some(index) = namespace_key(name).ok().and_then(|key| self.find(&key)) {
            return Ok(index);
        }
        let failure = Failure::misuse(format_args!("{owner}: there is no namespace `{name}`"));
        Err(match suggest(name, self.all.iter().map(|namespace| namespace.name.as_str())) {
            Some(near) => failure.hint(format_args!("did you mean `{near}`?")),
            None => failure.hint(format_args!("add a `[[namespace]]` with `name = \"{name}\"`")),
        })
    }

    /// The namespaces of an entry that may be in several.
    pub(super) fn of_several(
        &self,
        owner: &dyn Display,
        name: Option<&str>,
        names: Option<&[String]>,
    ) -> Result<Vec<NamespaceIndex>, Failure> {
        let mut found = match (name, names) {
            (Some(_), Some(_)) => {
                return Err(Failure::misuse(format_args!(
                    "{owner} has both `namespace` and `namespaces`, expected one"
                )));
            }
            (name, None) => vec![self.of(owner, name)?],
            (None, Some([])) => {
                return Err(Failure::misuse(format_args!("{owner}: `namespaces` names none"))
                    .hint("without the key it belongs to the default namespace"));
            }
            (None, Some(names)) => {
                names.iter().map(|name| self.of(owner, Some(name))).collect::<Result<_, _>>()?
            }
        };
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// A host name that could mean two namespaces is a fault of the file, not a matter of order.
    fn refuse_ambiguous_hostnames(&self) -> Result<(), Failure> {
        let mut owners: BTreeMap<&str, &Namespace> = BTreeMap::new();
        for namespace in &self.all {
            for hostname in &namespace.settings.hostnames {
                if let Some(other) = owners.insert(hostname, namespace) {
                    return Err(Failure::misuse(format_args!(
                        "the hostname `{hostname}` is given to the namespaces `{}` and `{}`",
                        other.name, namespace.name
                    )));
                }
                let label = hostname.split('.').next().unwrap_or_default();
                let named = self.find(label).and_then(|index| self.all.get(index.0));
                let named = named.filter(|other| other.key != namespace.key);
                if let Some(named) = named.filter(|_| hostname.parse::<IpAddr>().is_err()) {
                    return Err(Failure::misuse(format_args!(
                        "namespace `{}`: the hostname `{hostname}` begins with the name of the namespace `{}`",
                        namespace.name, named.name
                    ))
                    .hint("a client of that host could mean either; choose another hostname or name"));
                }
            }
        }
        Ok(())
    }
}

/// One `[[namespace]]`.
fn checked(entry: &NamespaceEntry) -> Result<Namespace, Failure> {
    if entry.name.is_empty() {
        return Err(Failure::misuse("a `[[namespace]]` needs a `name`"));
    }
    let owner = format!("namespace `{}`", entry.name);
    let key =
        namespace_key(&entry.name).map_err(|error| Failure::misuse(format_args!("{owner}: {error}")))?;
    let mut namespace = Namespace::new(&entry.name, key);
    namespace.anonymous = entry.anonymous.unwrap_or_default();
    for text in &entry.hostnames {
        let hostname = hostname(text).ok_or_else(|| {
            Failure::misuse(format_args!("{owner}: `hostnames` has `{text}`, expected the name of a host"))
                .hint("a name has no scheme, port or path, such as `team-a.example.org`")
        })?;
        if !namespace.settings.hostnames.contains(&hostname) {
            namespace.settings.hostnames.push(hostname);
        }
    }
    if let Some(weight) = entry.weight {
        let weight = NAMESPACE_WEIGHT.check_of(&owner, Amount::Number(weight))?;
        namespace.settings.weight = u16::try_from(weight).unwrap_or(u16::MAX);
    }
    for (limit, amount) in &entry.limits {
        let number = limit.check_of(&owner, *amount)?;
        if let Some(limit) = NamespaceLimit::of_key(limit.path().1) {
            namespace.settings.limits.set(limit, Some(number));
        }
    }
    Ok(namespace)
}

/// The host name in the form in which connections are compared with it; `None` for one with a scheme, port or path.
pub(crate) fn hostname(text: &str) -> Option<Box<str>> {
    let has_port = text.parse::<IpAddr>().is_err() && text.rsplit(']').next()?.contains(':');
    let host = HostName::parse(text).ok().filter(|_| !has_port && !text.contains('/'))?;
    Some(host.as_str().into())
}

#[cfg(test)]
mod tests;
