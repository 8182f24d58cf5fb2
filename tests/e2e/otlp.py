"""Converts OTLP as JSON, as receivers return it, to plain values."""

import base64


def value(any_value):
    """Returns an AnyValue as a plain value."""
    for kind, inner in any_value.items():
        if kind == "intValue":
            return int(inner)
        if kind == "arrayValue":
            return [value(each) for each in inner.get("values", [])]
        return inner
    return None


def attributes(pairs):
    return {pair["key"]: value(pair["value"]) for pair in pairs or []}


def identity(text):
    """Returns a trace or span id in hex, because OTLP's own JSON uses hex and protobuf's usual JSON uses base64."""
    if not text:
        return ""
    if len(text) in (16, 32) and all(digit in "0123456789abcdefABCDEF" for digit in text):
        return text.lower()
    return base64.b64decode(text).hex()


def spans(resource_spans):
    """Returns spans as plain dictionaries, each with its resource and scope."""
    for group in resource_spans:
        resource = attributes(group.get("resource", {}).get("attributes"))
        for scope in group.get("scopeSpans") or group.get("instrumentationLibrarySpans") or []:
            for span in scope["spans"]:
                yield {
                    "trace": identity(span["traceId"]),
                    "id": identity(span["spanId"]),
                    "parent": identity(span.get("parentSpanId")),
                    "name": span["name"],
                    "kind": span.get("kind"),
                    "start": int(span["startTimeUnixNano"]),
                    "end": int(span["endTimeUnixNano"]),
                    "attributes": attributes(span.get("attributes")),
                    "links": [
                        {"trace": identity(link["traceId"]), "id": identity(link["spanId"]), **attributes(link.get("attributes"))}
                        for link in span.get("links") or []
                    ],
                    "resource": resource,
                    "scope": (scope.get("scope") or scope.get("instrumentationLibrary") or {}).get("name"),
                }


def metrics(resource_metrics):
    """Returns (resource, name, unit, kind, data) of each metric."""
    for group in resource_metrics:
        resource = attributes(group.get("resource", {}).get("attributes"))
        for scope in group.get("scopeMetrics", []):
            for metric in scope["metrics"]:
                for kind in ("sum", "gauge", "histogram", "exponentialHistogram"):
                    if kind in metric:
                        yield resource, metric["name"], metric.get("unit"), kind, metric[kind]


def logs(resource_logs):
    """Returns log records as plain dictionaries, each with its resource."""
    for group in resource_logs:
        resource = attributes(group.get("resource", {}).get("attributes"))
        for scope in group.get("scopeLogs", []):
            for record in scope["logRecords"]:
                yield {
                    "time": int(record["timeUnixNano"]),
                    "observed": int(record["observedTimeUnixNano"]),
                    "severity": (record["severityNumber"], record["severityText"]),
                    "body": value(record["body"]),
                    "event": record.get("eventName"),
                    "trace": identity(record.get("traceId")),
                    "span": identity(record.get("spanId")),
                    "attributes": attributes(record.get("attributes")),
                    "resource": resource,
                }
