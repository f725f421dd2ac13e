//! Import cycles: files of one crate that import each other in a circle.
//!
//! A file imports another if its code, tests aside, names an item that the other defines: in a `use`, or by a path that starts with
//! `crate`, `super`, `self`, a child module or an imported one. A name that is re-exported counts for the file that defines it.
//! `mod` declarations import nothing, nor does a `pub use` whose name the file's own code does not mention. So a parent may declare and
//! re-export children that use its items; if its code also uses theirs, that is a cycle.
//!
//! The source is split into tokens, not parsed: names that macros build are not seen.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{is_name, tokens, without_tests};

/// Cycles that are still to be broken, one per line. A listed cycle may shrink; when it is gone, its line must go too.
const KNOWN: &str = include_str!("cycles.txt");

/// Where a file of a crate stands: the folder of the crate's root file, and the module path below it.
type Module = (String, Vec<String>);

/// Returns a line for each cycle that is not listed, and for each listed one that is gone.
pub(super) fn find(files: &[(&str, &str)]) -> Vec<String> {
    complaints(files, KNOWN)
}

fn complaints(files: &[(&str, &str)], known: &str) -> Vec<String> {
    let known: Vec<Vec<&str>> = known.lines().map(|line| line.split_whitespace().collect()).collect();
    let cycles = cycles(&imports(files));
    let within =
        |cycle: &BTreeSet<String>, entry: &[&str]| cycle.iter().all(|file| entry.contains(&file.as_str()));
    let new = cycles.iter().filter(|cycle| !known.iter().any(|entry| within(cycle, entry)));
    let new = new.map(|cycle| {
        let files: Vec<&str> = cycle.iter().map(String::as_str).collect();
        format!(
            "{} import each other in a circle: move what they share to where it belongs",
            files.join(", ")
        )
    });
    let gone = known.iter().filter(|entry| !cycles.iter().any(|cycle| within(cycle, entry)));
    let gone =
        gone.map(|entry| format!("the cycle of {} is gone: remove it from the list", entry.join(", ")));
    new.chain(gone).collect()
}

/// A file as far as imports go.
#[derive(Default)]
struct Source {
    module: Vec<String>,
    /// Everything but `use` items and tests.
    code: Vec<String>,
    uses: Vec<Use>,
    /// How many inline modules each token of `code` is in.
    depths: Vec<usize>,
}

struct Use {
    path: Vec<String>,
    /// The name it brings into scope; `*` for all.
    name: String,
    is_public: bool,
    depth: usize,
}

/// Returns, for each file, the files it imports.
fn imports(files: &[(&str, &str)]) -> BTreeMap<String, BTreeSet<String>> {
    let mut crates: BTreeMap<String, BTreeMap<&str, Source>> = BTreeMap::new();
    let roots = roots(files);
    for (path, text) in files {
        if let Some((root, module)) = module_of(path, &roots) {
            crates.entry(root).or_default().insert(path, Source::read(module, text));
        }
    }
    let mut imports = BTreeMap::new();
    for sources in crates.values() {
        let house = Crate::new(sources);
        for (path, source) in sources {
            imports.insert((*path).to_owned(), house.imports_of(path, source));
        }
    }
    imports
}

/// Returns the folders that hold the root file of a crate.
fn roots<'a>(files: &[(&'a str, &str)]) -> BTreeSet<&'a str> {
    let folder = |path: &'a str| path.strip_suffix("/lib.rs").or_else(|| path.strip_suffix("/main.rs"));
    files.iter().filter_map(|(path, _)| folder(path)).collect()
}

/// Returns the module of a source file; `None` for other files and for tests.
fn module_of(path: &str, roots: &BTreeSet<&str>) -> Option<Module> {
    let (folder, file) = path.rsplit_once('/')?;
    let name = file.strip_suffix(".rs")?;
    let mut root = folder;
    while !roots.contains(root) {
        root = root.rsplit_once('/')?.0;
    }
    if !root.split('/').any(|part| part == "src") {
        return None;
    }
    let below = folder[root.len()..].split('/').filter(|part| !part.is_empty()).map(str::to_owned);
    let own = Some(name.to_owned()).filter(|_| !matches!(name, "mod" | "lib" | "main"));
    Some((root.to_owned(), below.chain(own).collect()))
}

/// The files of a crate, by module.
struct Crate<'a> {
    modules: BTreeMap<&'a [String], (&'a str, &'a Source)>,
}

impl<'a> Crate<'a> {
    fn new(sources: &'a BTreeMap<&'a str, Source>) -> Crate<'a> {
        let mut modules = BTreeMap::new();
        for (path, source) in sources {
            // `lib.rs` comes before `main.rs`, and is the root if both are there.
            modules.entry(&source.module[..]).or_insert((*path, source));
        }
        Crate { modules }
    }

    fn imports_of(&self, path: &str, source: &Source) -> BTreeSet<String> {
        let mut found: BTreeSet<&str> = BTreeSet::new();
        for import in &source.uses {
            let is_used = || !import.is_public || source.mentions(&import.name);
            if import.name == "*" || is_used() {
                found.extend(self.target(&source.module, &import.path, import.depth, 0));
            }
        }
        for (path, depth) in source.paths() {
            let imported = source.uses.iter().find(|import| import.name == path[0]);
            let path = match imported {
                Some(import) => import.path.iter().chain(&path[1..]).cloned().collect(),
                None => path,
            };
            found.extend(self.target(&source.module, &path, depth, 0));
        }
        found.into_iter().filter(|file| *file != path).map(str::to_owned).collect()
    }

    /// Returns the file that defines the item at a path, as seen from a module; `None` for a module itself and for other crates.
    fn target(&self, from: &[String], path: &[String], depth: usize, follows: usize) -> Option<&'a str> {
        let mut module = from.to_vec();
        let mut rest = path;
        let mut up = 0;
        match rest.first()?.as_str() {
            "crate" => (module, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    (rest, up) = (&rest[1..], up + 1);
                }
                // Within an inline module, `super` is still this file.
                for _ in 0..up - up.min(depth) {
                    module.pop()?;
                }
            }
            child => {
                module.push(child.to_owned());
                if !self.modules.contains_key(&module[..]) {
                    return None;
                }
                module.pop();
            }
        }
        while let Some(part) = rest.first() {
            module.push(part.clone());
            if !self.modules.contains_key(&module[..]) {
                module.pop();
                break;
            }
            rest = &rest[1..];
        }
        let (file, source) = *self.modules.get(&module[..])?;
        let name = rest.first()?;
        // A module by `#[path]` is a file elsewhere.
        if source.declares(name) {
            return None;
        }
        if name == "*" || source.defines(name) || follows > 8 {
            return Some(file);
        }
        let named = source.uses.iter().filter(|import| import.name == *name);
        let all = source.uses.iter().filter(|import| import.name == "*" && import.is_public);
        let through = named.map(|import| import.path.clone()).chain(all.map(|import| {
            let mut path = import.path.clone();
            path.pop();
            path.push(name.clone());
            path
        }));
        through.filter_map(|path| self.target(&module, &path, 0, follows + 1)).next().or(Some(file))
    }
}

impl Source {
    fn read(module: Vec<String>, text: &str) -> Source {
        let tokens = without_tests(&tokens(text));
        let mut source = Source { module, ..Source::default() };
        let (mut at, mut braces) = (0, 0_usize);
        let mut inline: Vec<usize> = Vec::new();
        while at < tokens.len() {
            let is_item = at == 0 || matches!(tokens[at - 1].as_str(), ";" | "{" | "}" | "]" | "pub" | ")");
            match tokens[at].as_str() {
                "use" if is_item => {
                    let is_public = at > 0 && matches!(tokens[at - 1].as_str(), "pub" | ")");
                    let end = at + tokens[at..].iter().position(|token| token == ";").unwrap_or(0);
                    let mut leaves = Vec::new();
                    tree(&tokens[at + 1..end], &mut Vec::new(), &mut leaves);
                    let depth = inline.len();
                    source.uses.extend(leaves.into_iter().map(|(path, name)| Use {
                        path,
                        name,
                        is_public,
                        depth,
                    }));
                    at = end.max(at) + 1;
                    continue;
                }
                "mod" if tokens.get(at + 2).is_some_and(|token| token == "{") => inline.push(braces),
                "{" => braces += 1,
                "}" => {
                    braces = braces.saturating_sub(1);
                    inline.pop_if(|from| *from == braces);
                }
                _ => {}
            }
            source.code.push(tokens[at].clone());
            source.depths.push(inline.len());
            at += 1;
        }
        source
    }

    /// Returns the paths in the code that have at least two parts, with the inline modules they are in.
    fn paths(&self) -> Vec<(Vec<String>, usize)> {
        let mut paths = Vec::new();
        let mut at = 0;
        while at < self.code.len() {
            let mut path = Vec::new();
            let begin = at;
            while is_name(&self.code[at]) {
                path.push(self.code[at].clone());
                if self.code.get(at + 1).is_none_or(|token| token != "::") || at + 2 >= self.code.len() {
                    break;
                }
                at += 2;
            }
            if path.len() > 1 && (begin == 0 || self.code[begin - 1] != "::") {
                paths.push((path, self.depths[begin]));
            }
            at += 1;
        }
        paths
    }

    fn mentions(&self, name: &str) -> bool {
        let mut tokens = self.code.iter().enumerate();
        tokens.any(|(at, token)| token == name && (at == 0 || self.code[at - 1] != "."))
    }

    /// Reports whether it declares a module of this name in a file of its own.
    fn declares(&self, name: &str) -> bool {
        self.code.windows(3).any(|three| three[0] == "mod" && three[1] == name && three[2] == ";")
    }

    fn defines(&self, name: &str) -> bool {
        const ITEMS: [&str; 9] =
            ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules"];
        self.code.windows(3).any(|three| {
            let is_item = |at: usize| ITEMS.contains(&three[at].as_str());
            (is_item(0) && (three[1] == name || (three[1] == "!" && three[2] == name)))
                || (is_item(1) && three[2] == name)
        })
    }
}

/// Collects the leaves of a use tree: whole paths, with the name that each brings into scope.
fn tree(tokens: &[String], prefix: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, String)>) {
    let before = prefix.len();
    let mut alias = None;
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].as_str() {
            "{" => {
                let mut depth = 0;
                let mut from = at + 1;
                for (index, token) in tokens.iter().enumerate().skip(at) {
                    match token.as_str() {
                        "{" => depth += 1,
                        "}" => depth -= 1,
                        _ => {}
                    }
                    if (depth == 1 && token == ",") || depth == 0 {
                        if index > from {
                            tree(&tokens[from..index], prefix, leaves);
                        }
                        from = index + 1;
                    }
                    if depth == 0 {
                        break;
                    }
                }
                prefix.truncate(before);
                return;
            }
            "as" => {
                alias = tokens.get(at + 1).cloned();
                break;
            }
            "::" => {}
            part => prefix.push(part.to_owned()),
        }
        at += 1;
    }
    // `use a::{self}` imports `a`.
    if prefix.len() > 1 && prefix.last().is_some_and(|part| part == "self") {
        prefix.pop();
    }
    if let Some(name) = alias.or_else(|| prefix.last().cloned()) {
        leaves.push((prefix.clone(), name));
    }
    prefix.truncate(before);
}

/// Returns every set of files that can reach each other.
fn cycles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    let reach = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&String> = vec![from];
        while let Some(file) = open.pop() {
            open.extend(imports.get(file).into_iter().flatten().filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        imports.keys().map(|file| (file, reach(file))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (file, seen) in &reached {
        let is_back = |other: &&String| reached.get(other).is_some_and(|back| back.contains(*file));
        if seen.contains(*file) && !found.iter().any(|cycle| cycle.contains(*file)) {
            found.push(seen.iter().filter(is_back).cloned().collect());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the cycles of a crate with these files, each as its files without folder.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(name, text)| (format!("crates/x/src/{name}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let short = |file: &String| file.trim_start_matches("crates/x/src/").to_owned();
        let cycles = cycles(&imports(&files));
        cycles.iter().map(|cycle| cycle.iter().map(short).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_cycle() {
        let a = ("a.rs", "use crate::b::B; pub struct A(B);");
        let b = ("b.rs", "use crate::a::A; pub struct B(Box<A>);");
        assert_eq!(found(&[("lib.rs", "mod a; mod b;"), a, b]), ["a.rs b.rs"]);
        let plain = ("b.rs", "pub struct B; // crate::a::A\nconst TEXT: &str = \"crate::a::A\";");
        assert_eq!(found(&[("lib.rs", "mod a; mod b;"), a, plain]), [""; 0]);
        let path = ("b.rs", "pub struct B(Box<crate::a::A>);");
        assert_eq!(found(&[("lib.rs", "mod a; mod b;"), a, path]), ["a.rs b.rs"]);
    }

    #[test]
    fn a_parent_may_declare_and_re_export_but_not_use_its_children() {
        let child = ("a/b.rs", "use super::A; pub struct B(A);");
        let declares = ("a.rs", "mod b; pub use b::B; pub struct A;");
        assert_eq!(found(&[("lib.rs", "mod a;"), declares, child]), [""; 0]);
        let uses = ("a.rs", "mod b; pub use b::B; pub struct A(Box<B>);");
        assert_eq!(found(&[("lib.rs", "mod a;"), uses, child]), ["a.rs a/b.rs"]);
        let calls = ("a.rs", "mod b; pub struct A; fn f() { b::f() }");
        assert_eq!(found(&[("lib.rs", "mod a;"), calls, child]), ["a.rs a/b.rs"]);
    }

    #[test]
    fn a_re_exported_name_counts_for_the_file_that_defines_it() {
        let root = ("lib.rs", "mod a; mod b; pub use a::A; pub fn f(b: b::B) {}");
        let b = ("b.rs", "use crate::A; pub struct B(A);");
        assert_eq!(found(&[root, ("a.rs", "pub struct A;"), b]), [""; 0]);
        let all = ("lib.rs", "mod a; mod b; pub use a::*; pub fn f(b: b::B) {}");
        assert_eq!(found(&[all, ("a.rs", "pub struct A;"), b]), [""; 0]);
        let of_root = ("b.rs", "use crate::f; pub struct B;");
        assert_eq!(found(&[root, ("a.rs", "pub struct A;"), of_root]), ["b.rs lib.rs"]);
    }

    #[test]
    fn a_module_by_path_is_not_of_its_parent() {
        let root = ("main.rs", "mod a; #[path = \"../r.rs\"] mod r; fn main() { a::f() }");
        assert_eq!(found(&[root, ("a.rs", "use crate::r::R; pub fn f() {}")]), [""; 0]);
        assert_eq!(found(&[root, ("a.rs", "use crate::main; pub fn f() {}")]), ["a.rs main.rs"]);
    }

    #[test]
    fn tests_import_what_they_like() {
        let a = ("a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }");
        let b = ("b.rs", "use crate::a::A; pub struct B(A);");
        assert_eq!(found(&[("lib.rs", "mod a; mod b;"), a, b]), [""; 0]);
    }

    #[test]
    fn an_imported_module_counts_by_what_is_used_of_it() {
        let a = ("a.rs", "use crate::b::{self}; pub fn f() { b::g() }");
        let b = ("b.rs", "use crate::a as other; pub fn g() { other::f() }");
        assert_eq!(found(&[("lib.rs", "mod a; mod b;"), a, b]), ["a.rs b.rs"]);
    }

    #[test]
    fn a_listed_cycle_may_shrink_and_must_leave_the_list_when_it_is_gone() {
        let files = [
            ("x/src/lib.rs", "mod a; mod b;"),
            ("x/src/a.rs", "use crate::b::B; pub struct A;"),
            ("x/src/b.rs", "use crate::a::A; pub struct B;"),
        ];
        assert_eq!(complaints(&files, "").len(), 1);
        assert_eq!(complaints(&files, "x/src/a.rs x/src/b.rs x/src/c.rs\n"), [""; 0]);
        assert_eq!(complaints(&files[..2], "x/src/a.rs x/src/b.rs\n").len(), 1);
    }
}
