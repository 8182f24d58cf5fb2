//! Configuration of the event session.
//!
//! `Microsoft-Diagnostics-DiagnosticSource` bridges `DiagnosticListener`s into event sessions. The argument of this
//! provider lists the events of the listeners and the properties to send. `Microsoft.AspNetCore.Hosting.EndRequest` is
//! written only while a session requests it by name. Requesting it does not make ASP.NET Core start activities
//! (`HostingApplicationDiagnostics.BeginRequest` checks for other names), so the tracing of the application does not
//! change. The usual method, `[AS]` sources, changes the tracing in processes without an SDK that listens.

/// Name of the provider.
pub const PROVIDER: &str = "Microsoft-Diagnostics-DiagnosticSource";
/// Keywords for messages (which report how the filter was interpreted) and events.
pub const KEYWORDS: u64 = 0x3;
/// Level Informational.
pub const LEVEL: u32 = 4;
/// Name of the bridged events. The ids of these events differ between versions.
pub const EVENT: &str = "Event";
/// Name of the messages in which the provider reports how it interpreted a filter of any session. Every session
/// receives them.
pub const MESSAGE: &str = "Message";
/// Name of the listener for requests.
pub const SOURCE: &str = "Microsoft.AspNetCore";
/// Name of the event for a completed request.
pub const END_REQUEST: &str = "Microsoft.AspNetCore.Hosting.EndRequest";
/// Name of the event for a request that ended with an unhandled exception. This event replaces [`END_REQUEST`].
pub const UNHANDLED: &str = "Microsoft.AspNetCore.Hosting.UnhandledException";

/// Name of the events for a completed activity of a source.
pub const ACTIVITY_STOP: &str = "ActivityStop";

/// Optional fields of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields {
    /// Whether to request the path, which can contain secrets.
    pub path: bool,
}

/// Returns the argument of the provider. `sources` are names of `ActivitySource`s whose activities are also requested.
/// Requesting activities changes the tracing of a process without a listener, so pass only sources for which an SDK
/// listens (`Propagate` requests less than every SDK).
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
    // The minus sign excludes all properties that are not listed.
    let mut lines = vec![
        format!("{SOURCE}/{END_REQUEST}:-{wanted}"),
        format!("{SOURCE}/{UNHANDLED}:-{wanted}"),
    ];
    let sources = sources.into_iter().filter(|name| is_source(name));
    lines.extend(sources.map(|source| format!("[AS]{source}/Stop-Propagate:-{ACTIVITY_FIELDS}")));
    format!("FilterAndPayloadSpecs=\"{}\"", lines.join("\n"))
}

/// Requested fields of an activity. `Local` has a value if the activity is part of another activity of the process.
const ACTIVITY_FIELDS: &str = "TraceId=TraceId;\
    SpanId=SpanId;\
    ParentSpanId=ParentSpanId;\
    ActivityTraceFlags=ActivityTraceFlags;\
    StartTicks=StartTimeUtc.Ticks;\
    DurationTicks=Duration.Ticks;\
    Local=Parent.Kind;\
    Failed=Status";

/// Returns whether a text is accepted as the name of a source. The text must have 1 to 128 letters, digits, `.`, `_` or
/// `-`, which have no meaning in a filter. The source of the requests is not accepted, because the requests are read in
/// a way that does not need an SDK.
pub fn is_source(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=128).contains(&name.len()) && name.bytes().all(is_plain) && name != SOURCE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: there is no source, one source, texts with a meaning in a filter, or the source of the requests.
    /// Guarantee: the filter has a line for each valid source, and no line for other texts.
    #[test]
    fn valid_source_is_line_of_filter() {
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
