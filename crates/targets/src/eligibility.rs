//! Determines whether the daemon would read a process. A filter can exclude the process, or another gcwatch instance
//! can read it.

use dotnet_diagnostics::discovery::Process;

use crate::facts::Facts;
use crate::filter::Subject;
use crate::heap_limit::at_limit;
use crate::identity::{key_of, service_of, sketch};
use crate::lease::Leases;
use crate::options::{Filter, TargetOptions};
use processes::text::bounded;

/// The facts that determine whether the daemon would read a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eligibility {
    /// Display name of the process, as known without an answer of its runtime.
    pub name: String,
    /// Whether the configuration selects the process.
    pub wanted: bool,
    /// The gcwatch instance that reads the process; `None` if no instance reads it.
    pub holder: Option<String>,
    /// Number of connections of that instance: one, or two if the instance also reads requests.
    pub own_connections: usize,
    /// Positions of the `include` filters that match the process.
    pub meant_by: Vec<usize>,
    /// Reason why the first session would wait; `None` if the session would not wait, or if the process is already
    /// read.
    pub at_limit: Option<String>,
}

/// Returns the facts that determine whether the daemon would read a process.
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
    let requests = &options.requests;
    let reads_requests = requests.enabled && subject.is_wanted(&requests.include, &requests.exclude);
    let may_wait = holder.is_none() && !options.attach_at_heap_limit;
    Eligibility {
        name: sketch(process, service_of(&facts)).one_name(),
        wanted: subject.is_wanted(&options.include, &options.exclude),
        at_limit: may_wait.then(|| at_limit(process, &facts)).flatten(),
        own_connections: match holder {
            Some(_) => 1 + usize::from(reads_requests),
            None => 0,
        },
        holder: holder.map(|holder| bounded(&holder)),
        meant_by: meant_by.map(|(place, _)| place).collect(),
    }
}

/// Returns whether a filter names its processes (by name, command line or variable). A process that such a filter
/// matches was expected to run .NET. A filter with only a user matches every process of the user.
pub fn names_something(filter: &Filter) -> bool {
    filter.name.is_some() || filter.command_line.is_some() || !filter.environment.is_empty()
}

#[cfg(test)]
mod tests {
    use dotnet_diagnostics::discovery::Scan;

    use super::*;

    /// Scenario: a gcwatch instance reads a process and no requests, then also requests, then requests of other
    /// processes only. Finally, the instance releases the process.
    /// Guarantee: the instance has one connection, two connections, one connection, and none.
    #[test]
    fn session_for_requests_is_own_connection() {
        let folder = tempfile::tempdir().unwrap();
        let process = Scan::host().inspect(std::process::id()).unwrap();
        let mut options = TargetOptions {
            lease_folder: folder.path().join("leases"),
            ..TargetOptions::default()
        };
        let leases = Leases::new(options.lease_folder.clone());
        let lease = leases.take(key_of(&process), process.uid).unwrap();
        options.requests.enabled = false;
        assert_eq!(eligibility(&process, &options).own_connections, 1);
        options.requests.enabled = true;
        assert_eq!(eligibility(&process, &options).own_connections, 2);
        options.requests.exclude = vec![Filter::default()];
        assert_eq!(eligibility(&process, &options).own_connections, 1);
        drop(lease);
        assert_eq!(eligibility(&process, &options).own_connections, 0);
    }
}
