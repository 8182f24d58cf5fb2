//! What a runtime is asked for.
//!
//! `Microsoft-Diagnostics-DiagnosticSource` bridges `DiagnosticListener`s into event sessions; its argument names
//! their events and the properties to send. `Microsoft.AspNetCore.Hosting.EndRequest` is written only while somebody
//! asks for it by name, and asking for it makes ASP.NET Core begin no activity
//! (`HostingApplicationDiagnostics.BeginRequest` looks for other names): the application's tracing stays as it is.
//! `[AS]` sources, the usual way, change it where no SDK listens.

/// The provider.
pub const PROVIDER: &str = "Microsoft-Diagnostics-DiagnosticSource";
/// Messages (how the filter was understood) and events.
pub const KEYWORDS: u64 = 0x3;
/// Informational.
pub const LEVEL: u32 = 4;
/// Name of the bridged events. Their ids differ between versions.
pub const EVENT: &str = "Event";
/// Name of the messages by which the provider says how it understood a filter, whoever's it is. All sessions get them.
pub const MESSAGE: &str = "Message";
/// The listener that requests are of.
pub const SOURCE: &str = "Microsoft.AspNetCore";
/// A request ended.
pub const END_REQUEST: &str = "Microsoft.AspNetCore.Hosting.EndRequest";
/// A request ended with an exception that nothing handled: this comes in place of [`END_REQUEST`].
pub const UNHANDLED: &str = "Microsoft.AspNetCore.Hosting.UnhandledException";

/// Name of the events by which an activity of a source ends.
pub const ACTIVITY_STOP: &str = "ActivityStop";

/// Which of the fields that cost something are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields {
    /// The path. It may hold secrets.
    pub path: bool,
}

/// The argument of the provider. `sources`: names of `ActivitySource`s whose activities are asked for, too. To ask for
/// them changes the tracing of a process in which nobody else listens: name them only where an SDK does
/// (`Propagate` asks for less than every SDK).
pub fn arguments<'a>(fields: Fields, sources: impl IntoIterator<Item = &'a str>) -> String {
    let mut wanted = "EndTimestamp=timestamp;\
        TraceId=*Activity.TraceId;\
        SpanId=*Activity.SpanId;\
        ParentSpanId=*Activity.ParentSpanId;\
        ActivityTraceFlags=*Activity.ActivityTraceFlags;\
        StartTicks=*Activity.StartTimeUtc.Ticks;\
        Status=httpContext.Response.StatusCode"
        .to_owned();
    if fields.path {
        wanted.push_str(";Path=httpContext.Request.Path.Value");
    }
    // The minus leaves out every property that is not named.
    let mut lines = vec![
        format!("{SOURCE}/{END_REQUEST}:-{wanted}"),
        format!("{SOURCE}/{UNHANDLED}:-{wanted}"),
    ];
    let sources = sources.into_iter().filter(|name| is_source(name));
    lines.extend(sources.map(|source| format!("[AS]{source}/Stop-Propagate:-{ACTIVITY_FIELDS}")));
    format!("FilterAndPayloadSpecs=\"{}\"", lines.join("\n"))
}

/// What is asked for of an activity. `Local` has a value where it is a part of another activity of the process.
const ACTIVITY_FIELDS: &str = "TraceId=TraceId;\
    SpanId=SpanId;\
    ParentSpanId=ParentSpanId;\
    ActivityTraceFlags=ActivityTraceFlags;\
    StartTicks=StartTimeUtc.Ticks;\
    DurationTicks=Duration.Ticks;\
    Local=Parent.Kind;\
    Failed=Status";

/// Whether a text can be the name of a source here: nothing that means something in a filter, and not the source of the
/// requests that are read anyway, in a way that does not need an SDK.
pub fn is_source(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=128).contains(&name.len()) && name.bytes().all(is_plain) && name != SOURCE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: no source; one; texts that mean something in a filter, and the source of the requests themselves.
    /// Guarantee: a line for each that can be one, and nothing of the others.
    #[test]
    fn sources_are_lines_of_the_filter() {
        let lines = |sources: &[&str]| {
            let argument = arguments(Fields::default(), sources.iter().copied());
            argument.lines().skip(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(lines(&[]).is_empty());
        assert!(lines(&["*", "A\nB", "A/Start", "A:B", "A\"", "", SOURCE]).is_empty());
        let one = lines(&["System.Net.Http"]);
        assert_eq!(one.len(), 1);
        assert!(one[0].starts_with("[AS]System.Net.Http/Stop-Propagate:-TraceId=") && one[0].ends_with('"'));
    }
}
