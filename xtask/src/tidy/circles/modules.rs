//! The modules of a crate and the names in them, as far as paths must be followed.
//!
//! Read from the source with `syn`, from the root file along `mod x;`. What is compiled for tests only
//! is left out. Names have no namespaces here: one name may be a module, an item and an import at once,
//! and a path is followed to all that it may mean.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context, Result, bail};
use syn::{Attribute, Expr, ExprLit, Item, ItemMod, Lit, Meta, Token, UseTree, Visibility};

use crate::tidy::tree::Tree;

/// The modules of one crate; the first is its root.
#[derive(Default)]
pub(super) struct Modules {
    all: Vec<Module>,
    /// Each file's module and its syntax.
    pub(super) files: Vec<(ModuleId, syn::File)>,
}

/// A place in [`Modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ModuleId(usize);

/// A module, of a file of its own or inline.
#[derive(Debug)]
struct Module {
    parent: Option<ModuleId>,
    /// The path of its file in the repository.
    file: String,
    names: BTreeMap<String, Vec<Name>>,
    /// Imports in the bodies of its functions, as if they were the module's.
    inner: BTreeMap<String, Vec<Name>>,
    globs: Vec<Vec<String>>,
    /// Inline modules, by the line and column of their name.
    inline: BTreeMap<(usize, usize), ModuleId>,
}

#[derive(Clone, Debug)]
enum Name {
    Module(ModuleId),
    Item,
    Macro,
    Import { path: Vec<String>, again: bool },
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Module(ModuleId),
    /// An item, and the module that defines it.
    Item(ModuleId),
    /// Something of another crate, of the language, or local to a function.
    Outside,
}

/// One import of a `use` declaration, with its braces dissolved.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The name that it gets, `None` for a glob.
    name: Option<String>,
    /// The line of its last word.
    pub(super) line: usize,
}

impl Modules {
    /// Reads a crate from its root file, such as `crates/wire/src/lib.rs`.
    pub(super) fn read(tree: &Tree, root: &str) -> Result<Self> {
        let mut modules = Self::default();
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        modules.read_file(tree, root, folder, None)?;
        Ok(modules)
    }

    /// The file that a module is written in.
    pub(super) fn file(&self, module: ModuleId) -> &str {
        &self.all[module.0].file
    }

    /// Whether a module is a child of `above`, or a child's child.
    pub(super) fn is_below(&self, module: ModuleId, above: ModuleId) -> bool {
        let mut at = self.all[module.0].parent;
        while let Some(parent) = at {
            if parent == above {
                return true;
            }
            at = self.all[parent.0].parent;
        }
        false
    }

    /// The inline module `item` of `module`.
    pub(super) fn inline(&self, module: ModuleId, item: &ItemMod) -> Option<ModuleId> {
        let start = item.ident.span().start();
        self.all[module.0].inline.get(&(start.line, start.column)).copied()
    }

    /// Everything that `path` may lead to when it is written in `from`.
    pub(super) fn resolve(&self, from: ModuleId, path: &[String]) -> Vec<Target> {
        self.follow(from, path, &mut HashSet::new())
    }

    /// Whether `name` has a meaning in `module` by a re-export or a glob, and not by a `use` of the name
    /// itself, which has been noted already.
    pub(super) fn comes_unsaid(&self, module: ModuleId, name: &str) -> bool {
        let module = &self.all[module.0];
        match module.names.get(name).or_else(|| module.inner.get(name)) {
            Some(names) => {
                names.iter().any(|name| matches!(name, Name::Import { again: true, .. }))
            }
            None => !module.globs.is_empty(),
        }
    }

    /// Where the `macro_rules!` macro stands that `name!` means by its place in the text.
    pub(super) fn macro_above(&self, module: ModuleId, name: &str) -> Option<ModuleId> {
        let mut at = Some(module);
        while let Some(id) = at {
            let names = self.all[id.0].names.get(name);
            if names.is_some_and(|names| names.iter().any(|name| matches!(name, Name::Macro))) {
                return Some(id);
            }
            at = self.all[id.0].parent;
        }
        None
    }

    /// Makes an import in a function's body known to the module around it.
    pub(super) fn import_inside(&mut self, module: ModuleId, imports: Vec<Import>) {
        for import in imports {
            let module = &mut self.all[module.0];
            match import.name {
                None => module.globs.push(import.path),
                Some(name) => {
                    let path = import.path;
                    module.inner.entry(name).or_default().push(Name::Import { path, again: false });
                }
            }
        }
    }

    fn read_file(
        &mut self,
        tree: &Tree,
        path: &str,
        folder: &str,
        parent: Option<ModuleId>,
    ) -> Result<ModuleId> {
        let syntax = syn::parse_file(&without_tests(tree.text(path)?));
        let syntax = match syntax {
            Ok(syntax) => syntax,
            Err(error) => bail!("{path}:{}: {error}", error.span().start().line),
        };
        let module = self.push(path, parent);
        self.read_items(tree, module, folder, &syntax.items)?;
        self.files.push((module, syntax));
        Ok(module)
    }

    fn push(&mut self, file: &str, parent: Option<ModuleId>) -> ModuleId {
        let id = ModuleId(self.all.len());
        self.all.push(Module {
            parent,
            file: file.to_owned(),
            names: BTreeMap::new(),
            inner: BTreeMap::new(),
            globs: Vec::new(),
            inline: BTreeMap::new(),
        });
        id
    }

    /// Notes the names of a module; `folder` is where the files of its children are.
    fn read_items(
        &mut self,
        tree: &Tree,
        module: ModuleId,
        folder: &str,
        items: &[Item],
    ) -> Result<()> {
        for item in items.iter().filter(|item| !for_tests_only(attributes_of(item))) {
            match item {
                Item::Mod(item) => self.read_module(tree, module, folder, item)?,
                Item::Use(item) if item.leading_colon.is_none() => {
                    let again = !matches!(item.vis, Visibility::Inherited);
                    for import in imports(&item.tree) {
                        let into = &mut self.all[module.0];
                        match import.name {
                            None => into.globs.push(import.path),
                            Some(name) => {
                                let import = Name::Import { path: import.path, again };
                                into.names.entry(name).or_default().push(import);
                            }
                        }
                    }
                }
                Item::Macro(item) => {
                    if let Some(name) = &item.ident {
                        self.name(module, &word(name), Name::Macro);
                        let exported = |it: &Attribute| it.path().is_ident("macro_export");
                        if item.attrs.iter().any(exported) && module != ModuleId(0) {
                            let path = self.path_of(module, &word(name));
                            self.name(ModuleId(0), &word(name), Name::Import { path, again: true });
                        }
                    }
                }
                _ => {
                    if let Some(name) = defined(item) {
                        self.name(module, &word(name), Name::Item);
                    }
                }
            }
        }
        Ok(())
    }

    fn read_module(
        &mut self,
        tree: &Tree,
        module: ModuleId,
        folder: &str,
        item: &ItemMod,
    ) -> Result<()> {
        let name = word(&item.ident);
        let child = match &item.content {
            Some((_, items)) => {
                let file = self.all[module.0].file.clone();
                let child = self.push(&file, Some(module));
                let start = item.ident.span().start();
                self.all[module.0].inline.insert((start.line, start.column), child);
                self.read_items(tree, child, &format!("{folder}/{name}"), items)?;
                child
            }
            None => {
                let (path, folder) =
                    self.file_of(tree, module, folder, item).with_context(|| {
                        format!("{}: cannot find `mod {name};`", self.all[module.0].file)
                    })?;
                self.read_file(tree, &path, &folder, Some(module))?
            }
        };
        self.name(module, &name, Name::Module(child));
        Ok(())
    }

    /// The file of `mod x;`, and the folder where that file's own children are.
    fn file_of(
        &self,
        tree: &Tree,
        module: ModuleId,
        folder: &str,
        item: &ItemMod,
    ) -> Option<(String, String)> {
        let name = word(&item.ident);
        if let Some(said) = item.attrs.iter().find_map(path_attribute) {
            let (beside, _) = self.all[module.0].file.rsplit_once('/')?;
            let path = format!("{beside}/{said}");
            let folder = path.rsplit_once('/')?.0.to_owned();
            return Some((path, folder));
        }
        let own = format!("{folder}/{name}");
        [format!("{own}.rs"), format!("{own}/mod.rs")]
            .into_iter()
            .find(|path| tree.text(path).is_ok())
            .map(|path| (path, own))
    }

    fn name(&mut self, module: ModuleId, name: &str, meaning: Name) {
        self.all[module.0].names.entry(name.to_owned()).or_default().push(meaning);
    }

    /// The path from the root to `name` in `module`.
    fn path_of(&self, module: ModuleId, name: &str) -> Vec<String> {
        let mut path = vec![name.to_owned()];
        let mut at = module;
        while let Some(parent) = self.all[at.0].parent {
            let is_it = |name: &Name| matches!(name, Name::Module(id) if *id == at);
            let names = &self.all[parent.0].names;
            let own = names.iter().find(|(_, names)| names.iter().any(is_it));
            path.extend(own.map(|(name, _)| name.clone()));
            at = parent;
        }
        path.push("crate".to_owned());
        path.reverse();
        path
    }

    /// [`Modules::resolve`]; `seen` are the names that are being looked up, for imports may go round.
    fn follow(&self, from: ModuleId, path: &[String], seen: &mut Seen) -> Vec<Target> {
        let Some((first, mut rest)) = path.split_first() else { return Vec::new() };
        let mut at = match first.as_str() {
            "crate" => vec![Target::Module(ModuleId(0))],
            "self" => vec![Target::Module(from)],
            "super" => {
                let mut module = self.all[from.0].parent.unwrap_or(from);
                while let Some((_, further)) =
                    rest.split_first().filter(|(word, _)| *word == "super")
                {
                    module = self.all[module.0].parent.unwrap_or(module);
                    rest = further;
                }
                vec![Target::Module(module)]
            }
            name => {
                let found = self.look_up(from, name, true, seen);
                if found.is_empty() { vec![Target::Outside] } else { found }
            }
        };
        for word in rest {
            at = self.step(&at, word, seen);
        }
        at
    }

    /// One word further. What follows an item is its own: a variant, an associated function.
    fn step(&self, at: &[Target], word: &str, seen: &mut Seen) -> Vec<Target> {
        let mut through = Vec::new();
        for target in at {
            if let Target::Module(module) = target {
                through.extend(self.look_up(*module, word, false, seen));
            }
        }
        if !through.is_empty() {
            return through;
        }
        at.iter()
            .map(|target| match target {
                // A name that a macro makes there, unless another crate's glob brings it.
                Target::Module(module) if !self.takes_all_of_a_crate(*module) => {
                    Target::Item(*module)
                }
                Target::Item(module) => Target::Item(*module),
                Target::Module(_) | Target::Outside => Target::Outside,
            })
            .collect()
    }

    fn takes_all_of_a_crate(&self, module: ModuleId) -> bool {
        let globs = &self.all[module.0].globs;
        globs.iter().any(|path| self.resolve(module, path).contains(&Target::Outside))
    }

    /// What `name` means in `module`; `within` if the question comes from the module's own text.
    fn look_up(&self, module: ModuleId, name: &str, within: bool, seen: &mut Seen) -> Vec<Target> {
        let key = (module, name.to_owned());
        if !seen.insert(key.clone()) {
            return Vec::new();
        }
        let here = &self.all[module.0];
        let inner = here.inner.get(name).filter(|_| within);
        let names = here.names.get(name).or(inner);
        let mut found = Vec::new();
        match names {
            Some(names) => {
                for meaning in names {
                    match meaning {
                        Name::Module(child) => found.push(Target::Module(*child)),
                        Name::Item | Name::Macro => found.push(Target::Item(module)),
                        Name::Import { path, .. } => found.extend(self.follow(module, path, seen)),
                    }
                }
            }
            None => {
                for glob in &here.globs {
                    for target in self.follow(module, glob, seen) {
                        if let Target::Module(of) = target {
                            found.extend(self.look_up(of, name, false, seen));
                        }
                    }
                }
            }
        }
        seen.remove(&key);
        found
    }
}

type Seen = HashSet<(ModuleId, String)>;

/// Whether an item with these attributes is compiled for tests only: no feature and no platform makes
/// its `cfg` hold where `test` does not.
pub(super) fn for_tests_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<Meta>().is_ok_and(|it| holds(&it) == Some(false))
    })
}

/// Whether a predicate of `cfg` holds outside tests; `None` if that depends on something else.
fn holds(predicate: &Meta) -> Option<bool> {
    let Meta::List(list) = predicate else {
        return predicate.path().is_ident("test").then_some(false);
    };
    let several = syn::punctuated::Punctuated::<Meta, Token![,]>::parse_terminated;
    let of: Vec<Option<bool>> = list.parse_args_with(several).ok()?.iter().map(holds).collect();
    let (decisive, otherwise) = match () {
        () if list.path.is_ident("not") => return of.first()?.map(|it| !it),
        () if list.path.is_ident("all") => (false, true),
        () => (true, false),
    };
    if of.contains(&Some(decisive)) {
        return Some(decisive);
    }
    of.iter().all(Option::is_some).then_some(otherwise)
}

/// The text without the parts that cost the parser most and make no arrows: the module of tests at its
/// end, and the doc comments. Lines keep their numbers.
fn without_tests(text: &str) -> String {
    const TESTS: &str = "\n#[cfg(test)]\nmod tests {\n";
    let ends_with_tests = |at: &usize| {
        let mut at_the_margin = text[*at + TESTS.len()..]
            .lines()
            .filter(|line| line.starts_with(|first: char| !first.is_whitespace()));
        at_the_margin.next() == Some("}") && at_the_margin.next().is_none()
    };
    let kept = text.find(TESTS).filter(ends_with_tests).map_or(text, |at| &text[..at]);
    let mut plain = String::with_capacity(kept.len());
    for line in kept.lines() {
        let code = line.trim_start();
        if !code.starts_with("///") && !code.starts_with("//!") {
            plain.push_str(line);
        }
        plain.push('\n');
    }
    plain
}

/// The imports of a `use` declaration.
pub(super) fn imports(tree: &UseTree) -> Vec<Import> {
    fn gather(tree: &UseTree, before: &[String], into: &mut Vec<Import>) {
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            path.push(word(name));
            path
        };
        // `self` in braces means what stands before them.
        let import = |ident: &syn::Ident, name: &syn::Ident| {
            let itself = ident == "self" && !before.is_empty();
            let path = if itself { before.to_vec() } else { with(ident) };
            let name = if name == "self" { path.last().cloned() } else { Some(word(name)) };
            Import { path, name, line: ident.span().start().line }
        };
        match tree {
            UseTree::Path(path) => gather(&path.tree, &with(&path.ident), into),
            UseTree::Name(name) => into.push(import(&name.ident, &name.ident)),
            UseTree::Rename(rename) => into.push(import(&rename.ident, &rename.rename)),
            UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                into.push(Import { path: before.to_vec(), name: None, line });
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| gather(tree, before, into)),
        }
    }
    let mut all = Vec::new();
    gather(tree, &[], &mut all);
    all
}

/// An identifier without the `r#` of a raw one.
pub(super) fn word(ident: &syn::Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").map(str::to_owned).unwrap_or(text)
}

fn path_attribute(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if pair.path.is_ident("path") => {
            Some(text.value())
        }
        _ => None,
    }
}

/// The attributes of a node that is one of these variants; of any other it has none.
macro_rules! attributes {
    ($node:expr, $of:ident: $($variant:ident)*) => {
        match $node {
            $($of::$variant(node) => &node.attrs,)*
            _ => &[][..],
        }
    };
}
pub(super) use attributes;

/// The attributes of an item.
pub(super) fn attributes_of(item: &Item) -> &[Attribute] {
    attributes! {
        item, Item: Const Enum ExternCrate Fn ForeignMod Impl Macro Mod Static Struct Trait TraitAlias
            Type Union Use
    }
}

/// The name that an item defines, if it defines one.
fn defined(item: &Item) -> Option<&syn::Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::TraitAlias(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}
