//! Determines the program of a recording from its events.
//!
//! The command line is at the end of a stream that was stopped cleanly. The settings of the collector are in the
//! rundown, which `gcwatch record` requests if it is small (.NET 9 and later).

use clr_gc::event::ClrEvent;
use clr_gc::stream::Observed;

use targets::settings::GcSettings;

/// Maximum number of characters of a command line that are retained.
const MAX_CHARACTERS: usize = 8 << 10;

/// The program of a recording.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Pid of the process to which the command line belongs; `None` if the stream does not contain it.
    pid: Option<u64>,
    /// Command line, with the arguments joined by spaces; `None` if the stream does not contain it. Arguments can
    /// contain secrets.
    pub command_line: Option<String>,
    /// Settings of the collector.
    pub settings: GcSettings,
}

impl Program {
    pub(super) fn observe(&mut self, observed: &Observed<'_>) {
        let Ok(event) = &observed.decoded else { return };
        self.settings.take_in(event);
        if let ClrEvent::ProcessInfo(info) = event {
            let text: String = info.command_line.chars().take(MAX_CHARACTERS).collect();
            if !text.trim().is_empty() {
                self.pid = observed.event.process;
                self.command_line = Some(text);
            }
        }
    }

    /// Returns the name of the process with this pid: its entry assembly, or its executable if there is no assembly.
    /// Returns `None` if the command line is unknown or belongs to another process.
    pub fn name(&self, pid: Option<u64>) -> Option<String> {
        if self.pid.is_some() && self.pid != pid {
            return None;
        }
        name_of(self.command_line.as_deref()?)
    }
}

/// Returns the name of the first assembly before the first option. If this is the assembly of a custom host and another
/// assembly follows, the other assembly counts. Without an assembly before the options, the name is the first assembly
/// in the options of `dotnet`, or the executable.
///
/// Paths can contain spaces, which a command line does not mark, but the text after the last separator is the name in
/// any case. Returns `None` if the name has no printable character.
fn name_of(command_line: &str) -> Option<String> {
    let words = || CommandWords(command_line);
    let plain = words().take_while(|word| !word.starts_with('-'));
    let is_assembly = |word: &&str| word.len() > 4 && word.to_ascii_lowercase().ends_with(".dll");
    // A custom host lists its own assembly first, then the assembly that it runs.
    let host = words().next().map(base);
    let is_its_own = |word: &&str| base(word).rsplit_once('.').map(|(stem, _)| stem) == host;
    let mut assemblies = plain.clone().filter(is_assembly);
    let first = assemblies.next();
    let run = first.filter(is_its_own).and_then(|_| assemblies.next());
    let word = run.or(first).or_else(|| {
        // Example: `dotnet exec --runtimeconfig FILE app.dll`
        let is_host = words().next().is_some_and(|host| base(host) == "dotnet");
        words().find(is_assembly).filter(|_| is_host)
    });
    let name = base(word.or_else(|| words().next())?);
    let name = match name.len().checked_sub(4).and_then(|end| name.split_at_checked(end)) {
        Some((short, ending)) if ending.eq_ignore_ascii_case(".dll") || ending.eq_ignore_ascii_case(".exe") => short,
        _ => name,
    };
    let printable: String = name.chars().filter(|c| !c.is_control()).collect();
    (!printable.is_empty()).then_some(printable)
}

/// The words of a command line, separated by spaces, or in double quotes as on Windows.
#[derive(Clone)]
struct CommandWords<'a>(&'a str);

impl<'a> Iterator for CommandWords<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0.trim_start();
        let (word, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

fn base(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: command lines are in the format of runtimes: a host with an assembly, a host with options, an
    /// executable without a host, a custom host, Windows paths, a name with a control character, an empty text.
    /// Guarantee: the program has the name of the entry assembly, or of the executable if there is no assembly. The
    /// name has no directory, no extension and no control characters; a text without a name yields `None`.
    #[test]
    fn program_is_named_by_its_assembly() {
        for (command_line, name) in [
            (
                "/opt/dotnet/dotnet /srv/Shop.Api.dll --urls http://x/a.dll",
                Some("Shop.Api"),
            ),
            ("dotnet exec --runtimeconfig /etc/r.json /srv/app.DLL", Some("app")),
            ("/srv/orders --config x.dll", Some("orders")),
            ("/opt/run /opt/run.dll /srv/Shop.dll x.dll", Some("Shop")),
            ("/srv/orders /srv/orders.dll --config x.dll", Some("orders")),
            ("C:\\apps\\Orders.exe", Some("Orders")),
            ("\"C:\\Program Files\\Shop\\Shop.Api.exe\" --urls x  ", Some("Shop.Api")),
            ("\"dotnet\" \"C:\\My Apps\\Shop.Api.dll\" --urls x", Some("Shop.Api")),
            ("\"C:\\Shop\\Shop.Api.exe", Some("Shop.Api")),
            ("/srv/a\u{1b}[31mb", Some("a[31mb")),
            (".dll", None),
            ("  ", None),
        ] {
            assert_eq!(name_of(command_line).as_deref(), name, "{command_line}");
        }
    }
}
