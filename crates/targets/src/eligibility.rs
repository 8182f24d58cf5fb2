//! What keeps the daemon from reading a process: a filter excludes it, another gcwatch reads it. Blocking.

use dotnet_diagnostics::discovery::Process;

use crate::facts::Facts;
use crate::filter::Subject;
use crate::heap_limit::at_limit;
use crate::identity::{key_of, service_of, sketch};
use crate::lease::Leases;
use crate::options::{Filter, TargetOptions};
use processes::text::bounded;

/// Whether the daemon would read a process, and which gcwatch does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eligibility {
    /// What it is called everywhere, as far as that is known without its runtime's answer.
    pub name: String,
    /// The configuration wants it.
    pub wanted: bool,
    /// The gcwatch that reads it.
    pub holder: Option<String>,
    /// The filters of `include` that mean it, by their place.
    pub meant_by: Vec<usize>,
    /// Why its first session would wait; not known of one that is read.
    pub at_limit: Option<String>,
}

/// Whether the daemon would read a process, and which gcwatch does; blocking.
pub fn eligibility(process: &Process, options: &TargetOptions) -> Eligibility {
    let facts = Facts::of(process);
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

/// Whether a filter names what it means (a name, a command line, a variable): then a process that it means is one that
/// was expected to be .NET. One by the user alone means everything that the user runs.
pub fn names_something(filter: &Filter) -> bool {
    filter.name.is_some() || filter.command_line.is_some() || !filter.environment.is_empty()
}
