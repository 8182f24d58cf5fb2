//! `gcwatch record`
use crate::cli::RecordArgs;
/// Runs the command.
///
/// # Errors
///
/// None yet.
pub fn run(_args: &RecordArgs) -> anyhow::Result<bool> {
    Ok(false)
}
