//! Files of one crate that use each other.
//!
//! Invariant: a path that a re-export leads on counts for the file that declares the name, and the crate's root counts
//! for nothing, since it names every module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::source::Source;
use super::types::Type;

/// Segments of a module's path; none is the crate's root.
type Module = Vec<String>;

/// A chain of re-exports is followed this far.
const REEXPORTS: usize = 8;

/// Groups of two or more files each of which reaches all the others.
pub(super) fn find(sources: &[Source], types: &BTreeMap<String, Type>) -> Vec<Vec<PathBuf>> {
    let graph = Graph::new(sources, types);
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        graph.edges.keys().map(|file| (file.as_path(), graph.reached_from(file))).collect();
    let mut circles = Vec::new();
    let mut placed: BTreeSet<&Path> = BTreeSet::new();
    for (file, others) in &reached {
        if !others.contains(file) || placed.contains(file) {
            continue;
        }
        let mutual =
            others.iter().filter(|other| reached.get(*other).is_some_and(|back| back.contains(file)));
        let circle: Vec<PathBuf> = mutual.map(|other| other.to_path_buf()).collect();
        placed.extend(others.iter().filter(|other| circle.iter().any(|member| member == *other)));
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles
}

/// Whether the files of a circle lie in more than one folder. A module's own file counts as part of its folder and as
/// part of the one in which it lies.
pub(super) fn crosses_a_folder(circle: &[PathBuf]) -> bool {
    let lies_in =
        |file: &Path, folder: &Path| file.parent() == Some(folder) || file.with_extension("") == folder;
    let folders = circle.iter().filter_map(|file| file.parent());
    !folders.into_iter().any(|folder| circle.iter().all(|file| lies_in(file, folder)))
}

struct Graph {
    edges: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
}

impl Graph {
    fn new(sources: &[Source], types: &BTreeMap<String, Type>) -> Self {
        let modules: BTreeMap<Module, &Path> =
            sources.iter().map(|source| (module(&source.path), source.path.as_path())).collect();
        let names = Names::read(sources, &modules);
        let methods = spread_methods(types);
        let mut edges = BTreeMap::new();
        for source in sources {
            let own = module(&source.path);
            let code = code(&source.text);
            let paths = paths(&code).filter_map(|path| names.file_of(&own, &path, REEXPORTS));
            let calls = code.split('(').filter_map(|before| {
                let name = before.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
                let sign = before.strip_suffix(name)?;
                if sign.ends_with(['.', ':']) { methods.get(name).copied() } else { None }
            });
            let used = paths.chain(calls).filter(|file| *file != source.path).map(Path::to_owned).collect();
            edges.insert(source.path.clone(), used);
        }
        Self { edges }
    }

    fn reached_from(&self, file: &Path) -> BTreeSet<&Path> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&Path> = vec![file];
        while let Some(file) = next.pop() {
            for other in self.edges.get(file).into_iter().flatten() {
                if reached.insert(other.as_path()) {
                    next.push(other);
                }
            }
        }
        reached
    }
}

/// Methods of types that are spread over files, by name. Only a name that the crate gives once and that no library
/// gives by chance (it has two words) tells whose method is called.
fn spread_methods(types: &BTreeMap<String, Type>) -> BTreeMap<&str, &Path> {
    let mut given: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in types.values().flat_map(|size| &size.methods) {
        *given.entry(name).or_default() += 1;
    }
    let spread = types.values().filter(|size| size.files.len() > 1).flat_map(|size| &size.methods);
    spread
        .filter(|(name, _)| name.contains('_') && given.get(name.as_str()) == Some(&1))
        .map(|(name, file)| (name.as_str(), file.as_path()))
        .collect()
}

/// Modules of the crate and the names that each re-exports.
struct Names<'a> {
    modules: &'a BTreeMap<Module, &'a Path>,
    reexports: BTreeMap<(Module, String), Module>,
}

impl<'a> Names<'a> {
    fn read(sources: &[Source], modules: &'a BTreeMap<Module, &'a Path>) -> Self {
        let mut reexports = BTreeMap::new();
        for source in sources {
            let own = module(&source.path);
            let code = code(&source.text);
            for statement in code.split(';').filter_map(|text| text.trim_start().strip_prefix("pub")) {
                let Some((_, tree)) = statement.split_once("use ") else { continue };
                for path in expanded(tree) {
                    if let (Some(name), Some(path)) = (path.last().cloned(), absolute(&own, &path, modules)) {
                        reexports.insert((own.clone(), name), path);
                    }
                }
            }
        }
        Self { modules, reexports }
    }

    /// The file that declares what `path` names in the module `own`; `None` for other crates and for the root.
    fn file_of(&self, own: &[String], path: &[String], hops: usize) -> Option<&'a Path> {
        let path = absolute(own, path, self.modules)?;
        let depth = (0..=path.len())
            .rev()
            .find(|depth| path.get(..*depth).is_some_and(|module| self.modules.contains_key(module)))?;
        let (module, rest) = path.split_at_checked(depth)?;
        let target = rest.first().and_then(|name| self.reexports.get(&(module.to_vec(), name.clone())));
        match target {
            Some(target) if hops > 0 && *target != path => {
                let whole: Module =
                    std::iter::once("crate".to_owned()).chain(target.iter().cloned()).collect();
                self.file_of(&[], &whole, hops - 1)
            }
            _ if module.is_empty() => None,
            _ => self.modules.get(module).copied(),
        }
    }
}

/// The path from the crate's root; `None` where it begins in another crate.
fn absolute(own: &[String], path: &[String], modules: &BTreeMap<Module, &Path>) -> Option<Module> {
    let mut base = own.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = rest.get(1..)?;
        }
        "self" => rest = rest.get(1..)?,
        "super" => {
            while rest.first().is_some_and(|segment| segment == "super") {
                base.pop()?;
                rest = rest.get(1..)?;
            }
        }
        child => {
            let inner: Module = own.iter().cloned().chain([child.to_owned()]).collect();
            if !modules.contains_key(&inner) {
                return None;
            }
        }
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

fn module(file: &Path) -> Module {
    let whole = file.with_extension("");
    let segments: Module = whole.iter().filter_map(|part| part.to_str()).map(str::to_owned).collect();
    match segments.as_slice() {
        [root] if root == "lib" || root == "main" => Module::new(),
        _ => segments,
    }
}

fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.fold(String::new(), |code, line| code + line + "\n")
}

/// Every path of two or more segments, those of `use` statements with their braces taken apart.
fn paths(code: &str) -> impl Iterator<Item = Module> {
    let uses = code.split(';').filter_map(|statement| {
        let statement = statement.trim_start();
        let (before, tree) = statement.split_once("use ")?;
        (before.is_empty() || before.starts_with("pub")).then(|| expanded(tree))
    });
    let inline = code
        .split(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter))
        .filter(|path| path.contains("::"))
        .map(|path| path.split("::").filter(|segment| !segment.is_empty()).map(str::to_owned).collect());
    uses.flatten().chain(inline).filter(|path: &Module| path.len() > 1)
}

/// The paths of a `use` tree: `a::{b, c::{d, e}}` is `a::b`, `a::c::d` and `a::c::e`.
fn expanded(tree: &str) -> Vec<Module> {
    let mut paths = Vec::new();
    let mut prefixes: Vec<Module> = vec![Module::new()];
    let mut current = Module::new();
    let mut name = String::new();
    for letter in tree.chars().chain([',']) {
        match letter {
            ':' if name.is_empty() => {}
            ':' => current.push(std::mem::take(&mut name)),
            '{' => {
                let outer = prefixes.last().cloned().unwrap_or_default();
                prefixes.push(outer.into_iter().chain(std::mem::take(&mut current)).collect());
            }
            ',' | '}' => {
                if !name.is_empty() {
                    let renamed = std::mem::take(&mut name);
                    let plain = renamed.split_whitespace().next().unwrap_or_default().to_owned();
                    let outer = prefixes.last().cloned().unwrap_or_default();
                    paths
                        .push(outer.into_iter().chain(std::mem::take(&mut current)).chain([plain]).collect());
                }
                current.clear();
                if letter == '}' {
                    prefixes.pop();
                }
            }
            _ if letter.is_whitespace() && name.is_empty() => {}
            _ => name.push(letter),
        }
    }
    paths
}
