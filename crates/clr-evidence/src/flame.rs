//! Flame graphs as SVG, without scripts or external resources, for light and dark mode.
//!
//! The outermost frame is at the bottom. The width of a frame represents the weight of its stacks. Frames with the same
//! parent are sorted by name. Each frame has its full name and its weight as a title, which browsers display. Frames
//! narrower than [`MIN_WIDTH`] are omitted, and the picture states their weight. If a picture would exceed
//! [`MAX_BYTES`], this minimum width is doubled until the picture fits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Width of the picture, in pixels.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
/// Height of the lines above the graph, in pixels.
const HEAD: f64 = 56.0;
const MARGIN: f64 = 10.0;
/// Approximate width of a character, in pixels.
const CHARACTER: f64 = 6.7;
/// Minimum width of a frame, in pixels. Narrower frames are omitted.
pub const MIN_WIDTH: f64 = 0.5;
/// Maximum size of a picture's frames, in bytes. If the frames need more space, only wider frames are drawn.
pub const MAX_BYTES: usize = 1 << 20;
/// Size of a frame without its name, in bytes.
const FRAME_BYTES: usize = 256;
/// Maximum number of rows. Deeper frames are omitted.
pub const MAX_ROWS: usize = 128;

/// The unit of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Estimated bytes.
    Bytes,
    /// Time in nanoseconds.
    Nanoseconds,
}

impl Unit {
    fn text(self, weight: u64) -> String {
        let weight = weight as f64;
        let (one, steps): (_, [(f64, &str); 4]) = match self {
            Self::Bytes => (
                " B",
                [
                    ((1_u64 << 30) as f64, " GiB"),
                    ((1_u64 << 20) as f64, " MiB"),
                    (1024.0, " KiB"),
                    (1.0, " B"),
                ],
            ),
            Self::Nanoseconds => (" ns", [(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")]),
        };
        match steps.iter().find(|(step, _)| weight >= *step) {
            Some((step, unit)) => format!("{:.1}{unit}", weight / step),
            None => format!("0{one}"),
        }
    }
}

/// The stacks above a frame, sorted by their frames. The stacks of each frame in the next row are therefore a subslice.
type ChildStacks<'a> = [(&'a [&'a str], u64)];

/// Returns the frames of these stacks in a row, each with its name, its weight and its stacks.
fn children<'a>(stacks: &'a ChildStacks<'a>, row: usize) -> impl Iterator<Item = (&'a str, u64, &'a ChildStacks<'a>)> {
    let of_row = move |stack: &(&'a [&'a str], u64)| stack.0.get(row).copied().filter(|_| row < MAX_ROWS);
    let groups = stacks.chunk_by(move |one, other| of_row(one) == of_row(other));
    groups.filter_map(move |group| {
        let name = of_row(group.first()?)?;
        Some((name, sum(group), group))
    })
}

fn sum(stacks: &ChildStacks<'_>) -> u64 {
    stacks.iter().fold(0, |sum, (_, weight)| sum.saturating_add(*weight))
}

struct Drawing<'a> {
    framework: &'a BTreeSet<&'a str>,
    body: String,
    unit: Unit,
    all: u64,
    /// Minimum width of a frame, in pixels. Narrower frames are omitted.
    least_width: f64,
    /// Number of non-empty rows above the root.
    rows: usize,
    /// Weight of frames that are too narrow to be drawn.
    left_out: u64,
}

impl Drawing<'_> {
    fn width(&self, weight: u64) -> f64 {
        (WIDTH - 2.0 * MARGIN) * weight as f64 / self.all.max(1) as f64
    }

    /// Counts the rows and the omitted weight before drawing, because the root is at the bottom. Returns the maximum
    /// size of the frames, in bytes.
    fn measure(&mut self, stacks: &ChildStacks<'_>, row: usize) -> usize {
        let mut bytes = 0;
        for (name, weight, above) in children(stacks, row) {
            if self.width(weight) >= self.least_width {
                self.rows = self.rows.max(row + 1);
                // The frame contains the name twice, in escaped form.
                bytes += FRAME_BYTES + 2 * escape(name).len() + self.measure(above, row + 1);
            } else {
                self.left_out = self.left_out.saturating_add(weight);
            }
        }
        bytes
    }

    fn draw(&mut self, stacks: &ChildStacks<'_>, row: usize, left: f64) {
        let mut left = left;
        for (name, weight, above) in children(stacks, row) {
            let width = self.width(weight);
            if width >= self.least_width {
                // Row 0 of the picture is the root.
                self.frame(name, weight, row + 1, left, width);
                self.draw(above, row + 1, left);
            }
            left += width;
        }
    }

    fn frame(&mut self, name: &str, weight: u64, row: usize, left: f64, width: f64) {
        let top = HEAD + (self.rows - row) as f64 * ROW;
        let share = 100.0 * weight as f64 / self.all.max(1) as f64;
        let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
        let full = escape(name);
        let _written = write!(
            self.body,
            "<g><title>{full}: {} ({share:.1} %)</title><rect class=\"c{}\" x=\"{left:.1}\" y=\"{top:.1}\" \
             width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>",
            self.unit.text(weight),
            colour(name, self.framework),
            (width - 0.5).max(0.3),
            ROW - 1.0,
        );
        if room >= 3 {
            let shown = escape(&fit(name, room));
            let _written = write!(
                self.body,
                "<text x=\"{:.1}\" y=\"{:.1}\">{shown}</text>",
                left + 3.0,
                top + 12.5
            );
        }
        self.body.push_str("</g>\n");
    }
}

/// Returns the flame graph as SVG, whose frames take at most [`MAX_BYTES`]. Each key of `stacks` lists the outermost
/// frame first, and its value is the weight in `unit`. `framework` contains the names of frames that belong to the
/// framework, which have a separate colour. If no stack has a weight, the picture states that there is no data.
///
/// [`Burst::weighted_stacks`](crate::burst::Burst::weighted_stacks) and
/// [`Burst::framework`](crate::burst::Burst::framework) return the arguments for a burst.
pub fn svg(title: &str, stacks: &BTreeMap<Vec<&str>, u64>, unit: Unit, framework: &BTreeSet<&str>) -> String {
    let stacks: Vec<(&[&str], u64)> = stacks
        .iter()
        .map(|(frames, weight)| (frames.as_slice(), *weight))
        .collect();
    let all = sum(&stacks);
    let mut drawing = Drawing {
        framework,
        body: String::new(),
        unit,
        all,
        least_width: MIN_WIDTH,
        rows: 0,
        left_out: 0,
    };
    // The size is known before drawing. If the size exceeds the limit, only wider frames are drawn.
    while drawing.measure(&stacks, 0) > MAX_BYTES {
        (drawing.rows, drawing.left_out) = (0, 0);
        drawing.least_width *= 2.0;
    }
    if all > 0 {
        drawing.frame("all", all, 0, MARGIN, WIDTH - 2.0 * MARGIN);
        drawing.draw(&stacks, 0, MARGIN);
    }
    let height = HEAD + (drawing.rows + 1) as f64 * ROW + MARGIN;
    let mut note = format!("{} in total; hover over a frame for its name and share", unit.text(all));
    if drawing.left_out > 0 {
        let _written = write!(
            note,
            "; frames of {} in total are too narrow to show",
            unit.text(drawing.left_out)
        );
    }
    if all == 0 {
        note = "no data".to_owned();
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} \
         {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{label}\">\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n<text class=\"title\" x=\"{MARGIN}\" y=\"24\">{label}\
         </text>\n<text class=\"note\" x=\"{MARGIN}\" y=\"44\">{note}</text>\n{body}</svg>\n",
        label = escape(title),
        note = escape(&note),
        body = drawing.body,
    )
}

const STYLE: &str = "\
text{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1b1b1b}\
.title{font:600 16px system-ui,'DejaVu Sans',sans-serif}.note{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#555}\
.page{fill:#fff}.c0{fill:#f4b183}.c1{fill:#f7c873}.c2{fill:#f2a07b}.c3{fill:#f0d58c}.c4{fill:#eebb8f}.c5{fill:#c9d8ea}\
g:hover rect{stroke:#1b1b1b;stroke-width:1}\
@media (prefers-color-scheme:dark){.page{fill:#15181c}text{fill:#f2f2f2}.note{fill:#aaa}.c0{fill:#8a4b22}\
.c1{fill:#85601a}.c2{fill:#8b3f2a}.c3{fill:#6f5d1c}.c4{fill:#7c5230}.c5{fill:#37516e}g:hover rect{stroke:#fff}}";

/// Returns the colour class of a frame. The framework is blue; own code and libraries have warm colours. A name has the
/// same colour in every picture.
fn colour(name: &str, framework: &BTreeSet<&str>) -> u32 {
    if name == "all" || framework.contains(name) {
        return 5;
    }
    name.bytes()
        .fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
        % 5
}

/// Shortens a name to the available width. The end of a name is the most informative part.
fn fit(name: &str, room: usize) -> String {
    let length = name.chars().count();
    if length <= room {
        return name.to_owned();
    }
    // Remove parts of the namespace from the front until the rest fits.
    let mut rest = name;
    while let Some((_, shorter)) = rest
        .split_once('.')
        .filter(|(head, tail)| !head.contains(['<', '(']) && !tail.is_empty())
    {
        rest = shorter;
        if rest.chars().count() <= room {
            return rest.to_owned();
        }
    }
    let kept: String = rest.chars().take(room.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML does not allow these characters.
            control if control.is_control() || control == '\u{fffe}' || control == '\u{ffff}' => {
                escaped.push('\u{fffd}')
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(of: &[(&[&'static str], u64)]) -> BTreeMap<Vec<&'static str>, u64> {
        of.iter().map(|(frames, weight)| (frames.to_vec(), *weight)).collect()
    }

    /// Scenario: 1,500 stacks have 100 unique frames each, with names of 256 characters of markup.
    /// Guarantee: the picture is within its limit, contains the widest frames, and states the omitted weight.
    #[test]
    fn picture_size_is_bounded() {
        let names: Vec<String> = (0..150_000).map(|at| format!("{at:>06}{}", "<".repeat(250))).collect();
        let each = names.chunks(100).enumerate();
        let stacks: BTreeMap<Vec<&str>, u64> = each
            .map(|(at, frames)| {
                let frames = ["Main"].into_iter().chain(frames.iter().map(String::as_str));
                (frames.collect(), if at == 0 { 1_000_000 } else { 1_000 })
            })
            .collect();
        let svg = svg("t", &stacks, Unit::Bytes, &BTreeSet::new());
        assert!(svg.len() < MAX_BYTES + 4096, "{}", svg.len());
        assert!(svg.contains("<title>Main:") && svg.contains("too narrow to show"));
        assert!(svg.contains("<title>000099&lt;"));
    }

    /// Scenario: names in frames and in the title contain markup and control characters.
    /// Guarantee: no part of a name becomes markup.
    #[test]
    fn name_is_escaped() {
        let svg = svg(
            "<b>&\"",
            &stacks(&[(&["<script>alert('x')</script>", "A\u{1}B"], 10)]),
            Unit::Bytes,
            &BTreeSet::new(),
        );
        assert!(
            !svg.contains("<script") && !svg.contains("<b>") && !svg.contains('\u{1}'),
            "{svg}"
        );
        assert!(svg.contains("&lt;script&gt;"));
    }

    /// Scenario: one frame has two branches with weights of 3 to 1.
    /// Guarantee: the widths of the branches have the same ratio, and the branches are next to each other above the
    /// frame.
    #[test]
    fn width_is_proportional_to_weight() {
        let svg = svg(
            "t",
            &stacks(&[(&["Main", "A"], 300), (&["Main", "B"], 100)]),
            Unit::Bytes,
            &BTreeSet::new(),
        );
        let attribute = |name: &str, key: &str| -> f64 {
            let at = svg.find(&format!("<title>{name}:")).unwrap();
            let rest = &svg[at..];
            let from = rest.find(&format!(" {key}=\"")).unwrap() + key.len() + 3;
            rest[from..].split('"').next().unwrap().parse().unwrap()
        };
        assert_eq!(attribute("A", "x"), attribute("Main", "x"));
        assert!((attribute("A", "x") + 0.75 * 1180.0 - attribute("B", "x")).abs() < 0.2);
        assert!(attribute("A", "y") < attribute("Main", "y"));
        assert!(svg.contains("Main: 400.0 B (100.0 %)"));
    }

    /// Scenario: a frame has 1/10,000 of the weight, and another picture has no stacks.
    /// Guarantee: the picture states the omitted weight, or that there is no data.
    #[test]
    fn omitted_weight_is_stated() {
        let one = svg(
            "t",
            &stacks(&[(&["A"], 1_000_000), (&["B"], 100)]),
            Unit::Bytes,
            &BTreeSet::new(),
        );
        assert!(!one.contains("<title>B:") && one.contains("frames of 100.0 B in total are too narrow"));
        assert!(svg("t", &stacks(&[]), Unit::Bytes, &BTreeSet::new()).contains("no data"));
    }

    /// Scenario: long names are in narrow frames.
    /// Guarantee: the namespace is removed first.
    #[test]
    fn name_is_shortened_from_the_front() {
        assert_eq!(fit("Shop.Memory.Orders.Parse", 12), "Orders.Parse");
        assert_eq!(fit("Shop.Memory.Orders.Parse", 4), "Par…");
        assert_eq!(fit("Shop.List<A.B>.Add", 14), "List<A.B>.Add");
    }
}
