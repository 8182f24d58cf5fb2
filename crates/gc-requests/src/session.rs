//! What a runtime is asked for.
//!
//! `Microsoft-Diagnostics-DiagnosticSource` bridges `DiagnosticListener`s into event sessions; its argument names their
//! events and the properties to send. `Microsoft.AspNetCore.Hosting.EndRequest` is written only while somebody asks for
//! it by name, and asking for it makes ASP.NET Core begin no activity (`HostingApplicationDiagnostics.BeginRequest`
//! looks for other names): the application's tracing stays as it is. `[AS]` sources, the usual way, change it.

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

/// Which of the fields that cost something are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields {
    /// The path. It may hold secrets.
    pub path: bool,
}

/// The argument of the provider.
pub fn arguments(fields: Fields) -> String {
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
    format!("FilterAndPayloadSpecs=\"{SOURCE}/{END_REQUEST}:-{wanted}\n{SOURCE}/{UNHANDLED}:-{wanted}\"")
}
