//! A rule that is being built.

use std::collections::{BTreeMap, BTreeSet};

use gc_rules::expression::Expression;
use gc_rules::rule::{On, Window};
use strict_yaml::yaml::Position;

use crate::compile::{Compiled, Measure};

/// The state of the rule that is being built.
pub(super) struct PartialRule<'d> {
    pub(super) id: &'d str,
    /// When it is evaluated; `None` if that is invalid.
    pub(super) on: Option<On>,
    /// Its windows: for now, places are those in `windows`.
    pub(super) places: BTreeMap<String, usize>,
    pub(super) windows: Vec<LocalWindow<'d>>,
    /// What they measure.
    pub(super) measures: Vec<Measure>,
    /// Parameters.
    pub(super) params: BTreeMap<String, Expression>,
    /// Their places.
    pub(super) params_at: BTreeMap<String, (usize, Position)>,
    /// Macros, lists and parameters that its expressions name.
    pub(super) named: BTreeSet<String>,
}

impl PartialRule<'_> {
    /// What a compiled expression uses of its windows is used.
    pub(super) fn use_windows(&mut self, compiled: &Compiled) {
        for place in &compiled.windows {
            if let Some(local) = self.windows.get_mut(*place) {
                local.used = true;
            }
        }
    }
}

/// A window of the rule that is being built.
pub(super) struct LocalWindow<'d> {
    pub(super) name: &'d str,
    pub(super) file: usize,
    pub(super) at: Position,
    /// `None` if it is invalid.
    pub(super) window: Option<Window>,
    pub(super) used: bool,
}
