//! Finds which file of a crate uses an item that another file of the crate defines. The sources are parsed, names are
//! resolved through `use` and re-exports. Methods are not: a call does not name the type.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

/// Path of a module from the crate's root, for example `["pipeline", "lookup"]`.
type ModulePath = Vec<String>;

/// What a name means inside a module.
enum Binding {
    /// An item defined in this file.
    Item(PathBuf),
    Module(ModulePath),
    /// An import: its path as written.
    Import(Vec<String>),
}

#[derive(Default)]
struct Scope {
    /// A module and a function may share a name.
    bindings: BTreeMap<String, Vec<Binding>>,
    /// Paths of `use path::*`.
    globs: Vec<Vec<String>>,
}

/// Uses of items among the files of one crate, without code under `#[cfg(test)]`.
#[derive(Default)]
pub(crate) struct Graph {
    scopes: BTreeMap<ModulePath, Scope>,
    /// Paths in the code of a file, with the module in which they occur.
    mentions: Vec<(PathBuf, ModulePath, Vec<String>)>,
    /// Arguments of `include_str!` and `include_bytes!`.
    pub included: Vec<(PathBuf, String)>,
    /// For each file, the files whose items it uses, with one such item.
    uses: BTreeMap<PathBuf, BTreeMap<PathBuf, String>>,
}

impl Graph {
    /// Reads the crate whose sources are in `src`.
    pub(crate) fn read(src: &Path) -> Self {
        let mut graph = Self::default();
        for root in ["lib.rs", "main.rs"] {
            if src.join(root).exists() {
                graph.read_file(&src.join(root), src, Vec::new());
            }
        }
        for (file, module, path) in &graph.mentions {
            if let Some(target) = graph.resolve(module, path, 0)
                && target != *file
            {
                graph.uses.entry(file.clone()).or_default().insert(target, path.join("::"));
            }
        }
        graph
    }

    /// The files that use the extern crate `name`.
    pub(crate) fn users_of_crate(&self, name: &str) -> BTreeSet<&Path> {
        (self.mentions.iter().filter(|(_, _, path)| path.first().is_some_and(|first| first == name)))
            .map(|(file, ..)| file.as_path())
            .collect()
    }

    /// The number of files that were read.
    pub(crate) fn file_count(&self) -> usize {
        self.mentions.iter().map(|(file, ..)| file).collect::<BTreeSet<_>>().len()
    }

    /// Reads a file that is the module `module`, and the files of its children, which lie in `children`.
    fn read_file(&mut self, file: &Path, children: &Path, module: ModulePath) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.read_items(&parsed.items, file, children, module);
    }

    fn read_items(&mut self, items: &[syn::Item], file: &Path, children: &Path, module: ModulePath) {
        self.scopes.entry(module.clone()).or_default();
        for item in items {
            if attributes(item).iter().any(is_for_tests) {
                continue;
            }
            match item {
                syn::Item::Mod(child) => {
                    let name = child.ident.to_string();
                    let path = [module.clone(), vec![name.clone()]].concat();
                    self.bind(&module, &name, Binding::Module(path.clone()));
                    let below = children.join(&name);
                    if let Some((_, items)) = &child.content {
                        self.read_items(items, file, &below, path);
                    } else if let Some(written) = path_attribute(&child.attrs) {
                        let target = file.parent().expect("a file has a folder").join(written);
                        self.read_file(&target, &below, path);
                    } else if below.join("mod.rs").exists() {
                        self.read_file(&below.join("mod.rs"), &below, path);
                    } else {
                        self.read_file(&children.join(format!("{name}.rs")), &below, path);
                    }
                }
                syn::Item::Use(import) => self.read_use(&import.tree, Vec::new(), file, &module),
                item => {
                    if let Some(name) = defined_name(item) {
                        self.bind(&module, &name, Binding::Item(file.to_owned()));
                    }
                    let mut collector = Collector { graph: self, file, module: &module };
                    collector.visit_item(item);
                }
            }
        }
    }

    fn bind(&mut self, module: &ModulePath, name: &str, binding: Binding) {
        let scope = self.scopes.entry(module.clone()).or_default();
        scope.bindings.entry(name.to_owned()).or_default().push(binding);
    }

    fn read_use(&mut self, tree: &syn::UseTree, mut path: Vec<String>, file: &Path, module: &ModulePath) {
        let import = |name: String, path: Vec<String>, graph: &mut Self| {
            graph.mentions.push((file.to_owned(), module.clone(), path.clone()));
            graph.bind(module, &name, Binding::Import(path));
        };
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.read_use(&step.tree, path, file, module);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.read_use(tree, path.clone(), file, module);
                }
            }
            syn::UseTree::Glob(_) => self.scopes.entry(module.clone()).or_default().globs.push(path),
            syn::UseTree::Name(name) if name.ident == "self" => {
                import(path.last().cloned().unwrap_or_default(), path, self);
            }
            syn::UseTree::Name(name) => {
                path.push(name.ident.to_string());
                import(name.ident.to_string(), path, self);
            }
            syn::UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    path.push(rename.ident.to_string());
                }
                import(rename.rename.to_string(), path, self);
            }
        }
    }

    /// The file that defines the first item along `path`, as seen from `module`. `None` for what another crate defines
    /// and for modules.
    fn resolve(&self, module: &ModulePath, path: &[String], depth: usize) -> Option<PathBuf> {
        let mut current = module.clone();
        for (index, step) in path.iter().enumerate() {
            match step.as_str() {
                "crate" => current.clear(),
                "self" => {}
                "super" => {
                    current.pop()?;
                }
                name => return self.resolve_name(&current, name, &path[index + 1..], depth),
            }
        }
        None
    }

    fn resolve_name(
        &self,
        module: &ModulePath,
        name: &str,
        rest: &[String],
        depth: usize,
    ) -> Option<PathBuf> {
        // Imports of each other by glob would go on for ever.
        if depth > 16 {
            return None;
        }
        let scope = self.scopes.get(module)?;
        let Some(bindings) = scope.bindings.get(name) else {
            return scope.globs.iter().find_map(|glob| {
                let path = [glob.as_slice(), &[name.to_owned()], rest].concat();
                (glob.first().map(String::as_str) != Some(name))
                    .then(|| self.resolve(module, &path, depth + 1))?
            });
        };
        // `build::build` goes on in the module, `build` alone is the function.
        let (modules, others): (Vec<_>, Vec<_>) =
            bindings.iter().partition(|binding| matches!(binding, Binding::Module(_)));
        let resolve = |binding: &&Binding| match binding {
            Binding::Item(file) => Some(file.clone()),
            Binding::Module(path) => self.resolve(path, rest, depth + 1),
            // `use tokio::time` inside a module called time names the crate's dependency, not itself.
            Binding::Import(path) if path.len() == 1 && path[0] == name => None,
            Binding::Import(path) => self.resolve(module, &[path.as_slice(), rest].concat(), depth + 1),
        };
        if rest.is_empty() {
            others.iter().find_map(resolve)
        } else {
            modules.iter().chain(&others).find_map(resolve)
        }
    }

    /// Groups of files that use each other, directly or through others.
    pub(crate) fn cycles(&self) -> Vec<BTreeSet<PathBuf>> {
        let reach: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
            self.uses.keys().map(|file| (file, self.reachable(file))).collect();
        let mut groups = BTreeSet::new();
        for (file, reached) in &reach {
            let group: BTreeSet<PathBuf> = reached
                .iter()
                .filter(|other| reach.get(*other).is_some_and(|back| back.contains(file)))
                .map(|other| (*other).clone())
                .collect();
            if group.len() > 1 {
                groups.insert(group);
            }
        }
        groups.into_iter().collect()
    }

    fn reachable(&self, file: &PathBuf) -> BTreeSet<&PathBuf> {
        let mut reached = BTreeSet::new();
        let mut pending: Vec<&PathBuf> = self.uses[file].keys().collect();
        while let Some(next) = pending.pop() {
            if reached.insert(next) {
                pending.extend(self.uses.get(next).into_iter().flat_map(BTreeMap::keys));
            }
        }
        reached
    }

    /// The uses inside a group of files: user, definer, item.
    pub(crate) fn edges_within<'g>(&'g self, group: &BTreeSet<PathBuf>) -> Vec<(String, String, &'g str)> {
        let name = |path: &Path| path.display().to_string();
        (self.uses.iter().filter(|(file, _)| group.contains(*file)))
            .flat_map(|(file, uses)| {
                (uses.iter().filter(|(target, _)| group.contains(*target)))
                    .map(move |(target, item)| (name(file), name(target), item.as_str()))
            })
            .collect()
    }
}

/// Collects the paths in an item.
struct Collector<'a> {
    graph: &'a mut Graph,
    file: &'a Path,
    module: &'a ModulePath,
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.graph.mentions.push((self.file.to_owned(), self.module.clone(), names));
        syn::visit::visit_path(self, path);
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !attributes(item).iter().any(is_for_tests) {
            if let syn::Item::Use(import) = item {
                self.graph.read_use(&import.tree, Vec::new(), self.file, self.module);
            }
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Fn(item) => &item.attrs[..],
            syn::ImplItem::Const(item) => &item.attrs,
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            syn::visit::visit_impl_item(self, item);
        }
    }

    /// Arguments of macros such as `vec!` and `format!` are expressions. Other tokens cannot be parsed without knowing
    /// the macro: only paths that begin with a keyword are found in them.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        if call.path.is_ident("include_str") || call.path.is_ident("include_bytes") {
            let literal: syn::Result<syn::LitStr> = call.parse_body();
            self.graph.included.extend(literal.ok().map(|literal| (self.file.to_owned(), literal.value())));
        }
        let arguments = syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        if let Ok(arguments) = call.parse_body_with(arguments) {
            for argument in &arguments {
                // The tree lives only as long as this call.
                Collector { graph: self.graph, file: self.file, module: self.module }.visit_expr(argument);
            }
        } else {
            self.visit_tokens(&call.tokens);
        }
    }
}

impl Collector<'_> {
    /// Finds `crate::a::B`, `super::B` and `self::a::B` among tokens.
    fn visit_tokens(&mut self, tokens: &TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens.clone() {
            match token {
                TokenTree::Ident(name) if colons == 2 && !path.is_empty() => path.push(name.to_string()),
                TokenTree::Ident(name) => {
                    self.mention(&mut path);
                    if name == "crate" || name == "super" || name == "self" {
                        path.push(name.to_string());
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.mention(&mut path);
                    self.visit_tokens(&group.stream());
                }
                _ => self.mention(&mut path),
            }
            colons = 0;
        }
        self.mention(&mut path);
    }

    fn mention(&mut self, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.graph.mentions.push((self.file.to_owned(), self.module.clone(), path.clone()));
        }
        path.clear();
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("test")
        || attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find(|attribute| attribute.path().is_ident("path")).and_then(|attribute| {
        match &attribute.meta.require_name_value().ok()?.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        }
    })
}

fn defined_name(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
