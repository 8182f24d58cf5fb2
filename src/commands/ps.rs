//! `gcwatch ps`
use crate::cli::PsArgs;
/// Runs the command.
///
/// # Errors
///
/// None yet.
pub fn run(_args: &PsArgs) -> anyhow::Result<bool> {
    Ok(false)
}
