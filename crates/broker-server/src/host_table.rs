//! Table of the namespaces by their names and host names.
//!
//! Invariant: a host name is listed for one namespace at most, and none that is listed is the name of another namespace.

use std::collections::BTreeMap;

use crate::namespace_names::{HostName, HostSign, NamespaceName};

/// The namespaces of a broker, found by the host name that a client has sent.
///
/// 1. `vhost:NAME` is exactly that namespace, and `vhost:/` the default one.
/// 2. A host name that a namespace lists leads to it,
/// 3. else its first label, where a namespace has that name.
/// 4. Any other leads to the default namespace, or nowhere where the table is strict. So does `vhost:NAME` while there is
///    one namespace only: nobody has to name it.
#[derive(Clone, Debug)]
pub struct HostTable<T> {
    default: (NamespaceName, Listed<T>),
    others: BTreeMap<NamespaceName, Listed<T>>,
    hosts: BTreeMap<HostName, NamespaceName>,
    strict: bool,
}

/// A namespace, and the host names that lead to it.
#[derive(Clone, Debug)]
struct Listed<T> {
    value: T,
    hosts: Vec<HostName>,
}

/// The result of a lookup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HostLookup<'a, T> {
    /// The client has named this namespace.
    Found(&'a T),
    /// The client has named none, and means the default one.
    Default(&'a T),
    /// The client has named one that there is not.
    Unknown(Box<str>),
}

/// Names that lead to two namespaces.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameConflict {
    /// There is a namespace of that name.
    #[error("there are two namespaces with the name `{0}`")]
    Namespace(NamespaceName),
    /// A host name leads to one namespace, and would lead to another.
    #[error("the host name `{host}` would lead both to the namespace `{first}` and to `{second}`")]
    Host {
        host: HostName,
        /// The namespace that has it.
        first: NamespaceName,
        /// The namespace that was to have it.
        second: NamespaceName,
    },
}

impl<T> HostTable<T> {
    /// A table with the default namespace. A `strict` one knows no namespace for a host name that is neither listed nor begins
    /// with the name of a namespace.
    pub fn new(
        name: NamespaceName,
        hosts: impl IntoIterator<Item = HostName>,
        value: T,
        strict: bool,
    ) -> Self {
        let listed: Vec<HostName> = hosts.into_iter().collect();
        let hosts = listed.iter().map(|host| (host.clone(), name.clone())).collect();
        Self { default: (name, Listed { value, hosts: listed }), others: BTreeMap::new(), hosts, strict }
    }

    /// Whether a namespace of this name may list these host names. It looks at these names alone.
    pub fn check(&self, name: &NamespaceName, hosts: &[HostName]) -> Result<(), NameConflict> {
        let conflict = |host: &HostName, first: &NamespaceName| {
            Err(NameConflict::Host { host: host.clone(), first: first.clone(), second: name.clone() })
        };
        let own = HostName::of_namespace(name);
        if let Some(first) = self.hosts.get(&own).filter(|first| *first != name) {
            return conflict(&own, first);
        }
        for host in hosts {
            // A host of one label would hide the namespace of that name from everybody. One of more labels hides it from
            // its own clients only, who were told to use it.
            let named = host.as_namespace().filter(|named| self.named(named).is_some());
            if let Some(first) = self.hosts.get(host).or(named.as_ref()).filter(|first| *first != name) {
                return conflict(host, first);
            }
        }
        Ok(())
    }

    /// Adds a namespace with the host names that it lists. On an error the table is as before.
    pub fn insert(
        &mut self,
        name: NamespaceName,
        hosts: impl IntoIterator<Item = HostName>,
        value: T,
    ) -> Result<(), NameConflict> {
        if self.named(&name).is_some() {
            return Err(NameConflict::Namespace(name));
        }
        let hosts: Vec<HostName> = hosts.into_iter().collect();
        self.check(&name, &hosts)?;
        self.hosts.extend(hosts.iter().map(|host| (host.clone(), name.clone())));
        self.others.insert(name, Listed { value, hosts });
        Ok(())
    }

    /// Gives a namespace these host names and this value in place of those that it has, or adds it. On an error it keeps its
    /// name, and lists no host.
    pub fn replace(
        &mut self,
        name: &NamespaceName,
        hosts: impl IntoIterator<Item = HostName>,
        value: T,
    ) -> Result<(), NameConflict> {
        let hosts: Vec<HostName> = hosts.into_iter().collect();
        self.unlist(name);
        if *name == self.default.0 {
            self.default.1.value = value;
            self.check(name, &hosts)?;
            self.hosts.extend(hosts.iter().map(|host| (host.clone(), name.clone())));
            self.default.1.hosts = hosts;
            return Ok(());
        }
        self.others.remove(name);
        self.insert(name.clone(), [], value)?;
        self.check(name, &hosts)?;
        self.hosts.extend(hosts.iter().map(|host| (host.clone(), name.clone())));
        if let Some(listed) = self.others.get_mut(name) {
            listed.hosts = hosts;
        }
        Ok(())
    }

    /// Removes a namespace and its host names. The default one stays.
    pub fn remove(&mut self, name: &NamespaceName) {
        self.unlist(name);
        self.others.remove(name);
    }

    /// Takes away the host names of a namespace.
    fn unlist(&mut self, name: &NamespaceName) {
        let listed =
            if *name == self.default.0 { Some(&mut self.default.1) } else { self.others.get_mut(name) };
        for host in listed.map(|listed| std::mem::take(&mut listed.hosts)).unwrap_or_default() {
            self.hosts.remove(&host);
        }
    }

    /// The only namespace, if there is no other.
    pub fn only(&self) -> Option<&T> {
        self.others.is_empty().then_some(&self.default.1.value)
    }

    /// The namespace with exactly this name.
    pub fn named(&self, name: &NamespaceName) -> Option<&T> {
        let (default, listed) = &self.default;
        let listed = if name == default { Some(listed) } else { self.others.get(name) };
        listed.map(|listed| &listed.value)
    }

    /// The namespace that a client means by the host name that it has sent.
    pub fn lookup(&self, hostname: Option<&str>) -> HostLookup<'_, T> {
        let hostname = hostname.unwrap_or_default();
        let (found, is_needed) = match HostSign::parse(hostname) {
            HostSign::Absent => (None, false),
            HostSign::DefaultNamespace => (Some(&self.default.1.value), false),
            HostSign::Namespace(name) => (self.named(&name), self.strict || self.only().is_none()),
            HostSign::UnknownNamespace => (None, self.strict || self.only().is_none()),
            HostSign::Host(host) => (self.of_host(&host), self.strict),
            HostSign::Malformed => (None, self.strict),
        };
        match found {
            Some(found) => HostLookup::Found(found),
            None if is_needed => HostLookup::Unknown(hostname.into()),
            None => HostLookup::Default(&self.default.1.value),
        }
    }

    fn of_host(&self, host: &HostName) -> Option<&T> {
        let listed = self.hosts.get(host).and_then(|name| self.named(name));
        listed.or_else(|| self.named(&host.first_label()?))
    }
}

#[cfg(test)]
mod tests;
