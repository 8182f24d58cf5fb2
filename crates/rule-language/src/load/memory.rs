//! Limits the memory that the windows of all rules can take in one process.

use rule_engine::engine::Engine;
use rule_engine::rule_set::RuleSet;

use super::report::{Place, Report};

/// Maximum memory of the windows of all rules in one process if all of them are full, in bytes. A process costs the
/// daemon at most 16 MB; the shipped rules take a fiftieth of this limit.
pub const MAX_WINDOW_BYTES: usize = 4_000_000;

/// The first rule that has a window, and the position of the window.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) rule: Box<str>,
    pub(super) name: Box<str>,
    pub(super) place: Place,
}

/// Reports the first window that exceeds the limit, in the order of the files. `origins` are the origins of the windows
/// of the set.
pub(super) fn check(rules: &RuleSet, origins: &[Origin], report: &mut Report<'_>) {
    let total: usize = Engine::most_window_memory(rules).map(|(_, bytes)| bytes).sum();
    if total <= MAX_WINDOW_BYTES {
        return;
    }
    let mut windows: Vec<(usize, usize)> = Engine::most_window_memory(rules).collect();
    windows.sort_unstable();
    let mut sum = 0;
    let over = windows.iter().find(|(_, bytes)| {
        sum += bytes;
        sum > MAX_WINDOW_BYTES
    });
    let Some((place, bytes)) = over else { return };
    let Some(origin) = origins.get(*place) else { return };
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    let message = format!(
        "{}: let.{}: the windows of all rules together would take up to {:.1} MB for each process, and at most {:.1} MB are \
         allowed; this window takes {:.1} KB and exceeds the limit: use fewer windows, or a smaller `last`",
        origin.rule,
        origin.name,
        megabytes(total),
        megabytes(MAX_WINDOW_BYTES),
        *bytes as f64 / 1e3,
    );
    report.error(origin.place, message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Level, SourceFile, load, shipped};

    /// Returns rules with windows over 4,096 samples, each with its own meaning.
    fn rules(count: usize, windows: usize, enabled: bool) -> SourceFile {
        let mut text = "apiVersion: gcwatch/v1\nrules:\n".to_owned();
        for rule in 0..count {
            text += &format!(
                "  - id: many.r{rule}\n    title: T\n    on: gc\n    severity: info\n    summary: x\n    enabled: {enabled}\n    let:\n"
            );
            let mut when = Vec::new();
            for window in 0..windows {
                let where_ = format!("gc.pause_ms > {rule}.0 && gc.number > {window}");
                text += &format!("      w{window}: {{ fn: count, where: {where_}, last: 4096 }}\n");
                when.push(format!("w{window} > 3.0"));
            }
            text += &format!("    when: {}\n", when.join(" && "));
        }
        SourceFile::new("many.yaml", text)
    }

    /// Scenario: 400 rules have 16 windows of 4,096 samples each; then the same rules are disabled; then the windows
    /// fit.
    /// Guarantee: the rules are refused at the first window that exceeds the limit, with the sum and the limit; windows
    /// that are never fed do not count.
    #[test]
    fn sum_of_all_windows_is_limited() {
        let mut problems = load(&[rules(400, 16, true)]).unwrap_err();
        problems.retain(|problem| problem.severity == Level::Error);
        assert_eq!(problems.len(), 1);
        let message = problems[0].to_string();
        assert!(message.starts_with("many.yaml:94:7: "), "{message}");
        assert!(
            message.contains("many.r3: let.w12: the windows of all rules together would take up to 42"),
            "{message}"
        );
        assert!(message.contains("at most 4.0 MB are allowed"), "{message}");
        assert!(load(&[rules(400, 16, false)]).is_ok());
        assert!(load(&[rules(3, 16, true)]).is_ok());
    }

    /// Scenario: a rule has a window of one sample, for each of several functions.
    /// Guarantee: 2^16 such windows exceed the memory limit, so the 16-bit numbers of an engine suffice for all loaded
    /// rules.
    #[test]
    fn each_series_has_16_bit_number() {
        for function in ["newest", "sum", "min", "median"] {
            let text = format!(
                "apiVersion: gcwatch/v1\nrules:\n  - id: one.window\n    title: T\n    on: gc\n    severity: info\n    \
                 summary: x\n    let:\n      w: {{ fn: {function}, of: gc.pause_ms, last: 1 }}\n    when: w > 0.0\n"
            );
            let rules = load(&[SourceFile::new("one.yaml", text)]).unwrap().rules;
            let (_, bytes) = Engine::most_window_memory(&rules).next().unwrap();

            assert!(bytes << 16 >= MAX_WINDOW_BYTES, "{function}: {bytes}");
        }
    }

    /// Scenario: the shipped rules are loaded.
    /// Guarantee: at least three quarters of the memory are left for other rules.
    #[test]
    fn shipped_rules_leave_room() {
        let rules = load(&shipped()).unwrap().rules;
        let total: usize = Engine::most_window_memory(&rules).map(|(_, bytes)| bytes).sum();

        assert!(total * 4 < MAX_WINDOW_BYTES, "{total}");
    }
}
