//! Texts of the reference page between its tables.

pub(super) const INTRODUCTION: &str = "\
# Rules: reference

<!-- Generated from the types and tables in crates/rule-engine and crates/rule-language: do not edit. `GCWATCH_UPDATE_GOLDEN=1 cargo test --test suite rules` writes it. -->

A rule defines on which collection, or in which state of a process, an alert fires. `gcwatch rules check FILE...`
reports all errors of rule files with file, line and column; `gcwatch rules list` lists the shipped rules.

";

/// Example of a rule file. A test loads the example.
pub(super) const EXAMPLE: &str = "\
# yaml-language-server: $schema=gcwatch-rules.schema.json
apiVersion: gcwatch/v1
groups:
  pauses: The program is paused for too long
macros:
  full_blocking: |
    gc.generation == 2 && gc.blocking
rules:
  - id: gc.pause.unusual
    title: A full collection took much longer than others of its kind
    on: gc
    severity: warning
    group: pauses
    let:
      usual: {fn: median, of: gc.pause_ms, last: 20, by: generation_and_type}
    when: |
      full_blocking && gc.pause_ms > 200.0 && gc.pause_ms > 10.0 * usual
    cooldown: 5m
    summary: \"gen{{ gc.generation }} paused {{ gc.pause_ms | ms }}, usually {{ usual | ms }}\"
    description: Much more survived than usual, or the process was CPU-throttled.
    remedy: Compare the promoted bytes; check for CPU throttling.
  - id: process.pauses.share
    title: A large part of the time is spent in pauses
    on: process
    severity: error
    group: pauses
    let:
      share: {fn: share, of: gc.pause_ns, over: 1m, min_watched: 30s}
    when: share > 0.15
    clear: share < 0.1
    for: 30s
    summary: \"{{ share | percent }} of the last minute in pauses\"
    description: The program is paused for garbage collections.
    remedy: Allocate less, or allow a larger generation 0.
";

pub(super) const FORM: &str = "\
Files are YAML 1.2 without anchors, aliases, tags, merge keys and duplicate keys; a key with an empty value is not set.
Durations have a unit: `500ms`, `30s`, `5m`, `1h`. Write conditions as blocks (below `|`): in an unquoted string, YAML
reads ` #` as the start of a comment and a leading `!` as a tag. Therefore an unquoted condition must be on one line,
without a comment after it.

Files are read in order. Macros belong to their file, groups and ids to all files. A later file can change rules of
earlier ones with `overrides`:

```yaml
apiVersion: gcwatch/v1
overrides:
  - id: gc.pause.*
    replace: {severity: info, cooldown: 1h}
    add:
      exceptions:
        - {name: nightly report, when: process.name == 'Report', until: 2027-03-01}
  - id: process.pauses.share
    replace: {enabled: false}
```

## Keys

";

pub(super) const EXPRESSIONS: &str = "\
## Expressions

Expressions are a subset of [CEL](https://cel.dev). They are checked when a file is read.

| | |
|---|---|
| `&&`, `\\|\\|`, `!` | and, or, not |
| `==`, `!=`, `<`, `<=`, `>`, `>=` | numbers with numbers, strings with strings |
| `+`, `-`, `*`, `/`, `%` | numbers of one type: `2 * gc.number`, `2.0 * gc.pause_ms` |
| `a ? b : c` | a choice |
| `gc.reason in ['Induced', 'LowMemory']`, `gc.generation in [0, 1]` | one of several |
| `a.contains('b')`, `a.startsWith('b')`, `a.endsWith('b')`, `a.matches('^b+$')` | strings; a pattern is a literal in quotes |
| `size(a)` | length of a string in characters, of a list in elements |
| `double(a)`, `int(a)` | conversion to the other number type, towards zero |
| `has(gc.trigger)` | whether a field, an attribute or a window is known |
| `process.attributes['k8s.namespace.name']` | a resource attribute of the process, as a string |
| `service.firing['time.stopped']` | in rules `on: service`: the number of processes of the service on which that rule fires |
| `// ...` | a comment |

**Unknown** is a third value. A value that was not observed is unknown, and so is a result computed from it, unless the
other operand decides: `false && unknown` is false, `true || unknown` is true. An unknown condition does not fire, and
does not clear an alert at once.

";

/// Fields and windows that each expression can use.
pub(super) const USES: &str = "\
| Expression | Fields | Windows |
|---|---|---|
| `when`, `exceptions[].when`, templates of a rule `on: gc` | all except `suspension.*` | yes |
| `when`, `clear`, `exceptions[].when`, templates of a rule `on: process` | all except `gc.*`, `suspension.*` | yes |
| `select` | `process.*`, `settings.*`, `container.*` | no |
| `of`, `where` of a window | all, but not both `gc.*` and `suspension.*` | no |

";

pub(super) const WINDOWS: &str = "\
## Functions of windows

The value of a window is the result of `fn` for its samples, a double. With fewer samples than `min_samples`, it is
unknown. *Minimum* is the lowest value of `min_samples`; its default is at most `last`. Samples are taken at each
collection if `of` or `where` uses a field of `gc.*` (or no field), at each suspension without a collection if they use
a field of `suspension.*`, and otherwise once per second.

";

pub(super) const TEMPLATES: &str = "\
## Templates

`summary`, `labels` and `annotations` are strings that contain values: `{{ expression }}` or
`{{ expression | filter }}`.

| Filter | |
|---|---|
| none | an integer as is, a double with three significant digits |
| `round(n)` | with n decimal places |
| `bytes` | `1.5 GiB` |
| `percent` | of a ratio: `12.5 %` |
| `ms` | of milliseconds: `350 ms`, `1.2 s`, `2 min 5 s` |
| `s` | of seconds: `2 min 5 s` |

";
