//! Determines whether the daemon reads a process: a filter can exclude it, or another gcwatch instance can read it.
//! Blocks the calling thread.

use dotnet_diagnostics::discovery::Process;

use crate::facts::Facts;
use crate::filter::Subject;
use crate::heap_limit::at_limit;
use crate::identity::{key_of, service_of, sketch};
use crate::lease::Leases;
use crate::options::{Filter, TargetOptions};
use processes::text::bounded;

/// Whether the daemon would read a process, and the gcwatch instance that reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eligibility {
    /// Display name of the process, if known without the answer of its runtime.
    pub name: String,
    /// Whether the configuration selects the process.
    pub wanted: bool,
    /// The gcwatch instance that reads the process; `None` if no instance reads it.
    pub holder: Option<String>,
    /// Positions of the `include` filters that match the process.
    pub meant_by: Vec<usize>,
    /// Reason why the first session would wait; `None` if the session would not wait, or if the process is already
    /// read.
    pub at_limit: Option<String>,
}

/// Returns whether the daemon would read a process, and the gcwatch instance that reads it.
///
/// Blocks the calling thread.
pub fn eligibility(process: &Process, options: &TargetOptions) -> Eligibility {
    let facts = Facts::for_process(process);
    let subject = Subject {
        name: &process.name,
        facts: &facts,
    };
    let meant_by = (0..).zip(&options.include);
    let meant_by = meant_by.filter(|(_, filter)| subject.is_meant_by(filter));
    let holder = Leases::new(options.lease_folder.clone()).holder(key_of(process), process.uid);
    let may_wait = holder.is_none() && !options.attach_at_heap_limit;
    Eligibility {
        name: sketch(process, service_of(&facts)).one_name(),
        wanted: subject.is_wanted(&options.include, &options.exclude),
        at_limit: may_wait.then(|| at_limit(process, &facts)).flatten(),
        holder: holder.map(|holder| bounded(&holder)),
        meant_by: meant_by.map(|(place, _)| place).collect(),
    }
}

/// Returns whether a filter names its processes (by name, command line or variable). A process that such a filter
/// matches was expected to run .NET. A filter with only a user matches everything that the user runs.
pub fn names_something(filter: &Filter) -> bool {
    filter.name.is_some() || filter.command_line.is_some() || !filter.environment.is_empty()
}
