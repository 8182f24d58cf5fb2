//! Trees as text: how messages quote them.

use std::fmt;

use gc_rules::expression::Arithmetic;

use super::syntax::{Shape, Tree};

/// As CEL text, with no more brackets than needed.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Shape::Bool(truth) => write!(f, "{truth}"),
            Shape::Int(number) => write!(f, "{number}"),
            // Debug writes the point of an integer.
            Shape::Double(number) => write!(f, "{number:?}"),
            Shape::Text(text) => write!(f, "'{}'", text.escape_debug()),
            Shape::Name(name) => f.write_str(name),
            Shape::List(list) => {
                f.write_str("[")?;
                write_list(f, list, ", ", 0)?;
                f.write_str("]")
            }
            Shape::Not(operand) => {
                f.write_str("!")?;
                operand.write(f, 7)
            }
            Shape::Negate(operand) => {
                f.write_str("-")?;
                operand.write(f, 7)
            }
            Shape::And(parts) => write_list(f, parts, " && ", 3),
            Shape::Or(parts) => write_list(f, parts, " || ", 2),
            Shape::Compare(comparison, sides) => write_sides(f, sides, comparison.sign(), (3, 4)),
            Shape::In(sides) => write_sides(f, sides, "in", (3, 4)),
            Shape::Compute(arithmetic, sides) => {
                let level = self.level();
                write_sides(f, sides, arithmetic.sign(), (level, level + 1))
            }
            Shape::If(parts) => {
                parts.0.write(f, 1)?;
                f.write_str(" ? ")?;
                parts.1.write(f, 1)?;
                f.write_str(" : ")?;
                parts.2.write(f, 0)
            }
            Shape::Index(sides) => {
                sides.0.write(f, 7)?;
                write!(f, "[{}]", sides.1)
            }
            Shape::Call(call) => {
                if let Some(receiver) = &call.receiver {
                    receiver.write(f, 7)?;
                    f.write_str(".")?;
                }
                write!(f, "{}(", call.name)?;
                write_list(f, &call.arguments, ", ", 0)?;
                f.write_str(")")
            }
        }
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, list: &[Tree], between: &str, level: u8) -> fmt::Result {
    for (index, tree) in list.iter().enumerate() {
        if index > 0 {
            f.write_str(between)?;
        }
        tree.write(f, level)?;
    }
    Ok(())
}

fn write_sides(f: &mut fmt::Formatter<'_>, sides: &(Tree, Tree), sign: &str, levels: (u8, u8)) -> fmt::Result {
    sides.0.write(f, levels.0)?;
    write!(f, " {sign} ")?;
    sides.1.write(f, levels.1)
}

impl Tree {
    /// How strongly it holds together: 0 a choice, 7 a name.
    fn level(&self) -> u8 {
        match &self.shape {
            Shape::If(_) => 0,
            Shape::Or(_) => 1,
            Shape::And(_) => 2,
            Shape::Compare(..) | Shape::In(_) => 3,
            Shape::Compute(Arithmetic::Add | Arithmetic::Subtract, _) => 4,
            Shape::Compute(..) => 5,
            Shape::Not(_) | Shape::Negate(_) => 6,
            _ => 7,
        }
    }

    /// In brackets where what stands around holds more strongly.
    fn write(&self, f: &mut fmt::Formatter<'_>, level: u8) -> fmt::Result {
        if self.level() < level {
            write!(f, "({self})")
        } else {
            write!(f, "{self}")
        }
    }
}
