//! A partially built rule.

use std::collections::{BTreeMap, BTreeSet};

use rule_engine::expression::Expression;
use rule_engine::field::Root;
use rule_engine::rule::Window;

use super::draft::Draft;
use super::file::FileDefinitions;
use super::report::Place;
use crate::compile::{CompiledExpression, Names, Unit};

/// A rule that is being built: the names that it defines, and the names that its expressions use.
pub(super) struct PartialRule<'d> {
    pub(super) draft: &'d Draft<'d>,
    /// Windows by name. Until the rule is complete, the numbers are indexes in `windows`.
    pub(super) places: BTreeMap<String, usize>,
    pub(super) windows: Vec<LocalWindow<'d>>,
    /// Units of the windows.
    pub(super) units: Vec<Unit>,
    pub(super) params: BTreeMap<String, Expression>,
    pub(super) params_at: BTreeMap<String, Place>,
    /// Macros and parameters that the expressions of the rule use.
    pub(super) named: BTreeSet<String>,
}

impl<'d> PartialRule<'d> {
    pub(super) fn new(draft: &'d Draft<'d>) -> Self {
        Self {
            draft,
            places: BTreeMap::new(),
            windows: Vec::new(),
            units: Vec::new(),
            params: BTreeMap::new(),
            params_at: BTreeMap::new(),
            named: BTreeSet::new(),
        }
    }

    /// Returns the names that an expression can use. `words` are the definitions of the file of the expression.
    pub(super) fn names<'n>(&'n self, words: &'n FileDefinitions, roots: &'n [Root]) -> Names<'n> {
        Names {
            macros: &words.macros,
            lists: &words.lists,
            windows: &self.places,
            units: &self.units,
            params: &self.params,
            roots,
        }
    }

    /// Marks the names in a compiled expression as used.
    pub(super) fn uses(&mut self, compiled: &CompiledExpression, words: &mut FileDefinitions) {
        for place in &compiled.windows {
            if let Some(local) = self.windows.get_mut(*place) {
                local.used = true;
            }
        }
        self.named.extend(compiled.used.iter().cloned());
        words.used.extend(compiled.used.iter().cloned());
    }
}

/// A window of the rule that is being built.
pub(super) struct LocalWindow<'d> {
    pub(super) name: &'d str,
    pub(super) place: Place,
    /// The window; `None` if it is invalid.
    pub(super) window: Option<Window>,
    pub(super) used: bool,
}
