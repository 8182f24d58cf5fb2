//! The tools with a cost for a process: `callers`, `allocations`, `heap`, `stacks`, `record`, and `advice` with a pid.
//!
//! ```text
//! arguments -> gcwatch command -- first call --> price and confirmation -> kept for one use
//!                              '- `confirm` ---> same command, priced before -> command runs
//! ```
//!
//! These tools exist only if the server was started with `--allow-bursts`, over stdio. Each tool is a gcwatch command
//! that runs as the user who started the server, with the refusals and limits of that command.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::source::{Answer, Refusal, Source};
use super::tools::{ListedTool, advice, found, read, schema};

/// All burst tools, except `advice`, which is also a read-only tool.
pub(super) const BURSTS: [ListedTool; 5] = [
    ListedTool {
        name: "callers",
        title: "Code that collects",
        description: "Finds the code that triggers garbage collections in a process, in a session of some seconds that slows \
                      down the process. The first call returns the price and a confirmation.",
        arguments: schema::<WatchArguments>,
    },
    ListedTool {
        name: "allocations",
        title: "Code that allocates",
        description: "Finds the types and call sites that allocate in a process, in a session of some seconds that slows down \
                      the process. The first call returns the price and a confirmation.",
        arguments: schema::<Allocations>,
    },
    ListedTool {
        name: "heap",
        title: "Live objects",
        description: "Lists the types of live objects in a process, the holders of these objects, and suspects. Pauses the process \
                      for a heap dump. The first call returns the price and a confirmation.",
        arguments: schema::<Heap>,
    },
    ListedTool {
        name: "stacks",
        title: "Thread stacks",
        description: "Returns the stacks of all managed threads of a process, with equal stacks grouped. Slows down the process. \
                      The first call returns the price and a confirmation.",
        arguments: schema::<WatchArguments>,
    },
    ListedTool {
        name: "record",
        title: "Record",
        description: "Records every collection of a process to a new .nettrace file, which `recording` can analyze. The first \
                      call returns the price and a confirmation.",
        arguments: schema::<Record>,
    },
];

/// Maximum duration of a burst, in seconds, because clients wait at most one minute for an answer.
const MAX_SECONDS: u32 = 30;
/// Maximum number of unused confirmations. The oldest confirmation is dropped first.
const MAX_WAITING: usize = 8;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WatchArguments {
    /// Pid on this host.
    pid: u32,
    /// Duration in seconds, at most 30; default: 10 for `callers`, 1 for `stacks`.
    seconds: Option<u32>,
    /// Value of `confirm` in the answer with the price. Without `confirm`, the call returns the price.
    confirm: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Allocations {
    /// Pid on this host.
    pid: u32,
    /// Duration in seconds, at most 30; default: 5.
    seconds: Option<u32>,
    /// Use allocation ticks, which .NET 9 and older require, at a higher price.
    #[serde(default)]
    tick: bool,
    /// Value of `confirm` in the answer with the price. Without `confirm`, the call returns the price.
    confirm: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Heap {
    /// Pid on this host.
    pid: u32,
    /// Count only objects and bytes by type, without holders, at half the price in .NET 10 and later.
    #[serde(default)]
    histogram: bool,
    /// Show the holders of objects whose type name contains this text. Not allowed with `histogram`.
    r#type: Option<String>,
    /// Value of `confirm` in the answer with the price. Without `confirm`, the call returns the price.
    confirm: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Record {
    /// Pid on this host.
    pid: u32,
    /// Duration in seconds, at most 30.
    seconds: u32,
    /// Path of the new file, which must end in `.nettrace`.
    output: PathBuf,
    /// Value of `confirm` in the answer with the price. Without `confirm`, the call returns the price.
    confirm: Option<String>,
}

/// The command that a call requests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RequestedCommand {
    /// Arguments of the gcwatch command.
    words: Vec<String>,
    price: Price,
    confirm: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Price {
    /// A measured price, from docs/evidence.md and docs/heap.md.
    Known(String),
    /// The gcwatch command that prints the price.
    Said(Vec<String>),
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn asked(name: &str, arguments: Map<String, Value>) -> Result<Option<RequestedCommand>, Refusal> {
    let within = |seconds: u32| match seconds {
        1..=MAX_SECONDS => Ok(seconds),
        _ => Err(Refusal::new(
            format!("{seconds} s is not between 1 and {MAX_SECONDS}"),
            format!("use 1 to {MAX_SECONDS} s; the gcwatch command on a terminal allows longer durations"),
        )),
    };
    let watch = |pid: u32, seconds: u32| words(&[name, &pid.to_string(), "--duration", &format!("{seconds}s")]);
    let records = words(&["--format", "ndjson"]);
    let (words, price, confirm) = match name {
        "callers" | "stacks" => {
            let WatchArguments { pid, seconds, confirm } = read(arguments)?;
            let is_callers = name == "callers";
            let seconds = within(seconds.unwrap_or(if is_callers { 10 } else { 1 }))?;
            let price = if is_callers {
                format!(
                    "a session with stacks in process {pid} for {seconds} s: up to 20 % more CPU for each request. At the end \
                     of the session, the runtime names its methods, which takes 0.2 to 0.5 s for 11,500 methods (on .NET 8 \
                     and older, methods that must be compiled wait for this). The session uses at most 32 MB in the process"
                )
            } else {
                format!(
                    "the sample profiler in process {pid} for {seconds} s: the profiler stops the managed threads about every \
                     millisecond, which slows down a process with very many threads"
                )
            };
            ([watch(pid, seconds), records].concat(), Price::Known(price), confirm)
        }
        "allocations" => {
            let Allocations {
                pid,
                seconds,
                tick,
                confirm,
            } = read(arguments)?;
            let seconds = within(seconds.unwrap_or(5))?;
            let cost = if tick {
                "10 to 15 % of the CPU of an allocating process during the session, and an event for every pinned object"
            } else {
                "up to 20 % more CPU for each request (.NET 10 and later)"
            };
            let price = format!(
                "samples of the allocations of process {pid} for {seconds} s: {cost}. At the end of the session, the runtime \
                 names its methods, which takes 0.2 to 0.3 s for 11,500 methods. The session uses at most 32 MB in the process"
            );
            let mut words = [watch(pid, seconds), records].concat();
            words.extend(tick.then(|| "--tick".to_owned()));
            (words, Price::Known(price), confirm)
        }
        "heap" => {
            let Heap {
                pid,
                histogram,
                r#type,
                confirm,
            } = read(arguments)?;
            let mut words = [words(&[name, &pid.to_string()]), records].concat();
            words.extend(histogram.then(|| "--histogram".to_owned()));
            // The name is part of this argument, so that a name that starts with `--` is not parsed as an option.
            words.extend(r#type.map(|name| format!("--type={name}")));
            let said = words.iter().cloned().chain(["--price".to_owned()]).collect();
            (words, Price::Said(said), confirm)
        }
        "record" => {
            let Record {
                pid,
                seconds,
                output,
                confirm,
            } = read(arguments)?;
            let seconds = within(seconds)?;
            if output.extension().is_none_or(|extension| extension != "nettrace") {
                let error = format!("{} does not end in .nettrace", output.display());
                return Err(Refusal::new(error, "use a new file, such as /tmp/4711.nettrace"));
            }
            let price = format!(
                "a session that records every collection of process {pid} for {seconds} s: the cost to the process is not \
                 measurable. gcwatch writes {}, about 30 KB per second for a busy process, and never replaces a file",
                output.display()
            );
            let mut words = watch(pid, seconds);
            words.push(format!("--output={}", output.display()));
            (words, Price::Known(price), confirm)
        }
        "advice" => {
            let requested = advice::observation(arguments)?;
            let (pid, seconds) = (requested.pid, within(requested.seconds.unwrap_or(MAX_SECONDS))?);
            let price = format!(
                "a session that records every collection of process {pid} for {seconds} s: the cost to the process is not \
                 measurable. gcwatch sets nothing and writes no file. Fewer than 50 young collections in this time result \
                 in refusals"
            );
            let pid = pid.to_string();
            let observed = words(&["advise", &pid, "--duration", &format!("{seconds}s")]);
            (
                [observed, requested.options].concat(),
                Price::Known(price),
                requested.confirm,
            )
        }
        _ => return Ok(None),
    };
    Ok(Some(RequestedCommand { words, price, confirm }))
}

/// The unused confirmations with their commands, oldest first.
#[derive(Debug, Default)]
pub(super) struct Confirmations(Mutex<VecDeque<(String, Vec<String>)>>);

impl Confirmations {
    /// Creates a confirmation for a command.
    fn give(&self, words: &[String]) -> String {
        let confirm = format!("{:016x}", fastrand::u64(..));
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_WAITING {
            waiting.pop_front();
        }
        waiting.push_back((confirm.clone(), words.to_owned()));
        confirm
    }

    /// Removes a confirmation if it belongs to this command. Returns whether the confirmation was removed. A
    /// confirmation of another command stays valid.
    fn take(&self, confirm: &str, words: &[String]) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = waiting.iter().position(|(given, of)| given == confirm && of == words);
        place.and_then(|place| waiting.remove(place)).is_some()
    }
}

/// Returns the answer of a tool: the price of its command, or the result of a confirmed command. Returns `None` if no
/// burst tool has this name.
pub(super) async fn answer<S: Source>(
    name: &str,
    arguments: Map<String, Value>,
    confirmations: &Confirmations,
    source: &S,
) -> Option<Answer> {
    match asked(name, arguments) {
        Ok(Some(asked)) => Some(run_command(asked, confirmations, source).await),
        Ok(None) => None,
        Err(refusal) => Some(Err(refusal)),
    }
}

async fn run_command<S: Source>(asked: RequestedCommand, confirmations: &Confirmations, source: &S) -> Answer {
    let RequestedCommand { words, price, confirm } = asked;
    let Some(confirm) = confirm else {
        let price = match price {
            Price::Known(price) => price,
            Price::Said(words) => source.command(words, None).await?.said,
        };
        return Ok(json!({
            "price": price,
            "command": format!("gcwatch {}", words.join(" ")),
            "confirm": confirmations.give(&words),
            "next": "ask the owner of the process for consent, then call again with the same arguments and `confirm`",
        }));
    };
    if !confirmations.take(&confirm, &words) {
        return Err(Refusal::new(
            "no unused confirmation exists for these arguments",
            "call without `confirm` to get the price and a new confirmation, which is valid for one run",
        ));
    }
    Ok(found(source.command(words, None).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str, arguments: Value) -> Result<Vec<String>, Refusal> {
        asked(name, arguments.as_object().unwrap().clone()).map(|asked| asked.unwrap().words)
    }

    /// Scenario: each tool is called with typical arguments of an agent, among them options in place of names,
    /// durations beyond the limit, and a file that is not a recording.
    /// Guarantee: each call results in a refusal, or in a gcwatch command to which the agent cannot add options.
    #[test]
    fn tool_call_becomes_one_command() {
        assert_eq!(
            command("callers", json!({ "pid": 7 })).unwrap().join(" "),
            "callers 7 --duration 10s --format ndjson"
        );
        assert_eq!(
            command("allocations", json!({ "pid": 7, "seconds": 3, "tick": true }))
                .unwrap()
                .join(" "),
            "allocations 7 --duration 3s --format ndjson --tick"
        );
        assert_eq!(
            command("heap", json!({ "pid": 7, "type": "--force" }))
                .unwrap()
                .join(" "),
            "heap 7 --format ndjson --type=--force"
        );
        assert_eq!(
            command(
                "record",
                json!({ "pid": 7, "seconds": 5, "output": "--force.nettrace" })
            )
            .unwrap()
            .join(" "),
            "record 7 --duration 5s --output=--force.nettrace"
        );
        assert_eq!(command("stacks", json!({ "pid": 7 })).unwrap()[0], "stacks");
        assert_eq!(
            command("advice", json!({ "pid": 7, "seconds": 9, "limit": 1000 }))
                .unwrap()
                .join(" "),
            "advise 7 --duration 9s --format ndjson --limit=1000B"
        );
        assert!(command("advice", json!({ "pid": 7, "seconds": 31 })).is_err());
        assert!(command("advice", json!({ "pid": 7, "file": "a.nettrace" })).is_err());
        assert!(command("callers", json!({ "pid": 7, "seconds": 31 })).is_err());
        assert!(command("callers", json!({ "pid": "7 --force" })).is_err());
        assert!(command("record", json!({ "pid": 7, "seconds": 5, "output": "/etc/passwd" })).is_err());
        assert_eq!(asked("rm", Map::new()), Ok(None));
    }

    /// Scenario: a price is confirmed for another command, for its own command, and again; more prices are requested
    /// than are kept.
    /// Guarantee: a confirmation is valid only for its own command, and once; the oldest price is dropped.
    #[test]
    fn confirmation_is_valid_for_one_run() {
        let confirmations = Confirmations::default();
        let (own, other) = (words(&["callers", "7"]), words(&["callers", "8"]));
        let given = confirmations.give(&own);
        assert!(!confirmations.take(&given, &other) && !confirmations.take("", &own));
        assert!(confirmations.take(&given, &own) && !confirmations.take(&given, &own));
        let oldest = confirmations.give(&own);
        (0..MAX_WAITING).for_each(|_| drop(confirmations.give(&other)));
        assert!(!confirmations.take(&oldest, &own));
    }
}
