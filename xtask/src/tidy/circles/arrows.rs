//! The arrows of a crate: every path in its text, followed to the file that defines what it names.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprCall, Field, ImplItem, Item, ItemMod, ItemUse, Local, Macro, Meta, Path,
    TraitItem, Variant, Visibility,
};

use super::modules::{
    ModuleId, Modules, Target, attributes, attributes_of, for_tests_only, imports, word,
};

/// A path in one file that names an item of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    /// The files, as paths in the repository.
    pub(super) from: String,
    pub(super) to: String,
    pub(super) line: usize,
    /// The path as it is written.
    pub(super) path: String,
}

/// All arrows of a crate.
pub(super) fn of(mut modules: Modules) -> Vec<Arrow> {
    let files = core::mem::take(&mut modules.files);
    for (module, syntax) in &files {
        let mut inside = ImportsInside { modules: &mut modules, module: *module, depth: 0 };
        inside.visit_file(syntax);
    }
    let mut arrows = Vec::new();
    for (module, syntax) in &files {
        Paths { modules: &modules, module: *module, arrows: &mut arrows }.visit_file(syntax);
    }
    arrows
}

/// Finds the imports in the bodies of functions.
struct ImportsInside<'m> {
    modules: &'m mut Modules,
    module: ModuleId,
    depth: usize,
}

impl<'ast> Visit<'ast> for ImportsInside<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !for_tests_only(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let Some(inline) = self.modules.inline(self.module, item) else { return };
        let outer = core::mem::replace(&mut self.module, inline);
        visit::visit_item_mod(self, item);
        self.module = outer;
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.depth += 1;
        visit::visit_block(self, block);
        self.depth -= 1;
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if self.depth > 0 && item.leading_colon.is_none() {
            self.modules.import_inside(self.module, imports(&item.tree));
        }
    }
}

/// Visits what is compiled outside tests, and notes every path that leads to another file.
struct Paths<'m> {
    modules: &'m Modules,
    module: ModuleId,
    arrows: &'m mut Vec<Arrow>,
}

impl Paths<'_> {
    fn note(&mut self, path: &[String], line: usize) {
        for target in self.modules.resolve(self.module, path) {
            if let Target::Item(module) = target {
                self.point_at(module, path, line);
            }
        }
    }

    fn point_at(&mut self, module: ModuleId, path: &[String], line: usize) {
        let (from, to) = (self.modules.file(self.module), self.modules.file(module));
        if from != to && !self.modules.is_below(module, self.module) {
            let (from, to) = (from.to_owned(), to.to_owned());
            self.arrows.push(Arrow { from, to, line, path: path.join("::") });
        }
    }

    /// A path of one word leads elsewhere by an import alone, and a plain `use` has been noted as such.
    fn note_written(&mut self, path: &[String], line: usize) {
        match path {
            [] => {}
            [name] if !self.modules.comes_unsaid(self.module, name) => {}
            path => self.note(path, line),
        }
    }

    /// Paths in the text of a macro: words joined by `::`, groups of `use` declarations among them.
    fn tokens(&mut self, tokens: TokenStream, before: &[String], strings: bool) {
        let mut tokens = tokens.into_iter().peekable();
        let mut path: Vec<String> = before.to_vec();
        let mut line = 0;
        // Whether the next word goes on with `path`, and whether the word is a field or method.
        let (mut joined, mut of_a_value) = (true, false);
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(ident) => {
                    if !joined {
                        self.finish(&mut path, before, line, false);
                    }
                    if !of_a_value {
                        path.push(word(&ident));
                        line = ident.span().start().line;
                    }
                    (joined, of_a_value) = (false, false);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    let double = matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == ':');
                    if double {
                        tokens.next();
                        // What follows `>::` belongs to a type, and `::x` to another crate.
                        of_a_value = path.len() == before.len();
                        joined = !of_a_value;
                    } else {
                        self.finish(&mut path, before, line, false);
                        (joined, of_a_value) = (true, false);
                    }
                }
                TokenTree::Punct(punct) => {
                    self.finish(&mut path, before, line, false);
                    (joined, of_a_value) = (true, punct.as_char() == '.');
                }
                TokenTree::Group(group) => {
                    if joined && path.len() > before.len() && group.delimiter() == Delimiter::Brace
                    {
                        let prefix = core::mem::take(&mut path);
                        self.tokens(group.stream(), &prefix, strings);
                        path = before.to_vec();
                    } else {
                        let called = group.delimiter() == Delimiter::Parenthesis;
                        self.finish(&mut path, before, line, called);
                        self.tokens(group.stream(), &[], strings);
                    }
                    (joined, of_a_value) = (true, false);
                }
                TokenTree::Literal(literal) => {
                    self.finish(&mut path, before, line, false);
                    (joined, of_a_value) = (true, false);
                    if strings {
                        self.string(&literal.to_string(), literal.span().start().line);
                    }
                }
            }
        }
        self.finish(&mut path, before, line, false);
    }

    fn finish(&mut self, path: &mut Vec<String>, before: &[String], line: usize, called: bool) {
        if path.len() > before.len() && (called || !may_be_a_variable(path)) {
            self.note_written(path, line);
        }
        path.clear();
        path.extend_from_slice(before);
    }

    /// A path in the string of an attribute, such as serde's `with = "crate::bytes"`.
    fn string(&mut self, literal: &str, line: usize) {
        let text = literal.trim_matches('"');
        if text.contains("::")
            && let Ok(path) = syn::parse_str::<Path>(text)
        {
            self.note(&words(&path), line);
        }
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !for_tests_only(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let Some(inline) = self.modules.inline(self.module, item) else { return };
        let outer = core::mem::replace(&mut self.module, inline);
        visit::visit_item_mod(self, item);
        self.module = outer;
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let again = !matches!(item.vis, Visibility::Inherited);
        if again || item.leading_colon.is_some() {
            return;
        }
        for import in imports(&item.tree) {
            // A glob of a module says nothing yet; one of an enum names the enum.
            self.note(&import.path, import.line);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !for_tests_only(attributes!(item, ImplItem: Const Fn Type Macro)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        if !for_tests_only(attributes!(item, TraitItem: Const Fn Type Macro)) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if !for_tests_only(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast Variant) {
        if !for_tests_only(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if !for_tests_only(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_block(&mut self, block: &'ast syn::ExprBlock) {
        if !for_tests_only(&block.attrs) {
            visit::visit_expr_block(self, block);
        }
    }

    fn visit_field_value(&mut self, value: &'ast syn::FieldValue) {
        if !for_tests_only(&value.attrs) {
            visit::visit_field_value(self, value);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !for_tests_only(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(function) = &*call.func
            && function.path.segments.len() == 1
        {
            self.note_written(&words(&function.path), line_of(&function.path));
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let written = words(path);
        if path.leading_colon.is_none() && !may_be_a_variable(&written) {
            self.note_written(&written, line_of(path));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let written = words(&call.path);
        let line = line_of(&call.path);
        match written.as_slice() {
            [name] => match self.modules.macro_above(self.module, name) {
                Some(module) => self.point_at(module, &written, line),
                None => self.note_written(&written, line),
            },
            path => self.note(path, line),
        }
        self.tokens(call.tokens.clone(), &[], false);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let says_when = attribute.path().is_ident("cfg") || attribute.path().is_ident("doc");
        if let Meta::List(list) = &attribute.meta
            && !says_when
        {
            self.visit_path(&list.path);
            self.tokens(list.tokens.clone(), &[], true);
        }
    }
}

/// One word in small letters; where it is called, it is a function.
fn may_be_a_variable(path: &[String]) -> bool {
    path.len() == 1 && path[0].starts_with(char::is_lowercase)
}

fn line_of(path: &Path) -> usize {
    path.segments.first().map_or(0, |segment| segment.ident.span().start().line)
}

fn words(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| word(&segment.ident)).collect()
}
