"""Runs gcwatch: the analysis of a recording, and the replay of a recording to a receiver."""

import datetime
import json
import os
import pathlib
import re
import subprocess

PROJECT = pathlib.Path(__file__).resolve().parents[2]
RECORDINGS = PROJECT / "tests" / "recordings"
# Timeout for one command, in seconds.
PATIENCE = 120


def program():
    """Returns the binary under test."""
    return os.environ.get("GCWATCH") or str(PROJECT / "target" / "debug" / "gcwatch")


def unix_ns(text):
    """Converts RFC 3339 with up to nine fractional digits to nanoseconds since 1970."""
    moment, fraction = re.fullmatch(r"(.*?)(?:\.(\d{1,9}))?Z", text).groups()
    whole = datetime.datetime.fromisoformat(moment).replace(tzinfo=datetime.timezone.utc)
    return int(whole.timestamp()) * 10**9 + int((fraction or "0").ljust(9, "0"))


class Recording:
    """The reference for a recording: the output of `gcwatch analyze`, which other checks compare with other tools."""

    def __init__(self, name):
        self.path = RECORDINGS / f"{name}.nettrace.gz"
        self.name = name.rpartition("/")[2]
        records = self.analyzed("--no-rules")
        self.gcs = {record["number"]: record for record in records if record["kind"] == "gc"}
        known = next(gc for gc in self.gcs.values() if gc["start"])
        self.sync = unix_ns(known["start"]) - known["start_offset_ns"]

    def analyzed(self, *arguments):
        output = subprocess.run(
            [program(), "analyze", "--format", "ndjson", *arguments, self.path],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        ).stdout
        return [json.loads(line) for line in output.splitlines()]

    def anomalies(self):
        """Returns the alerts of the shipped rules on the recording."""
        return [record for record in self.analyzed() if record["kind"] == "anomaly"]

    def pauses(self):
        """Returns the known durations of the recording's pauses, in nanoseconds."""
        parts = [pause["pause_ns"] for gc in self.gcs.values() for pause in gc["pauses"]]
        return [part for part in parts if part is not None]

    def by_generation(self):
        counts = {}
        for gc in self.gcs.values():
            if gc["generation"] is not None:
                name = f"gen{gc['generation']}"
                counts[name] = counts.get(name, 0) + 1
        return counts


# Returns an environment with a configuration and without the caller's settings of telemetry, such as an endpoint.
def environment(folder, **more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GCWATCH_CONFIG"))}
    config = pathlib.Path(folder) / "gcwatch.yaml"
    # Every collection must become a span, regardless of its duration and of the rate.
    config.write_text("spans: {min_pause: 0s, max_per_second: 100000}\n")
    return {**kept, "GCWATCH_CONFIG": str(config), **more}


def replay(folder, recording, *arguments, **variables):
    """Replays a recording. Returns the standard error of the command, which must succeed."""
    done = subprocess.run(
        [program(), "replay", recording.path, *arguments],
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"gcwatch replay ended with {done.returncode}: {done.stderr}"
    return done.stderr
