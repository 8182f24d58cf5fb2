#!/usr/bin/env python3
"""Counts the tests that passed only on a rerun, over the nightly runs.

    history.py add HISTORY RUN FOLDER    add the records of a run: the files *.tsv below the folder
    history.py check HISTORY             exit code 1 if a test needed more than one rerun

The harness (tests/support/src/harness.rs) writes a line `OUTCOME<tab>TEST` per rerun into target/reruns.tsv. The history
has a line of JSON per run: the id of the run, and the number of reruns of each test."""

import json
import pathlib
import sys

# Runs that the history keeps.
RUNS = 20
# Reruns of a test that are noise. A test with more reruns is defective.
NOISE = 1


def counted(records):
    """Returns the number of reruns that passed, by test. A test whose rerun fails makes the run fail, and does not
    count."""
    reruns = {}
    for line in records.splitlines():
        outcome, test = line.split("\t")
        if outcome == "passed":
            reruns[test] = reruns.get(test, 0) + 1
    return reruns


def added(history, run, reruns):
    """Returns the history with a run at its end, without the oldest runs. A repeated run replaces its earlier line."""
    runs = [line for line in history.splitlines() if json.loads(line)["run"] != run]
    runs.append(json.dumps({"run": run, "reruns": reruns}, sort_keys=True))
    return "".join(f"{line}\n" for line in runs[-RUNS:])


def defects(history):
    """Returns a message for each test with too many reruns."""
    runs = {}
    for line in history.splitlines():
        record = json.loads(line)
        for test, reruns in record["reruns"].items():
            runs.setdefault(test, []).extend([record["run"]] * reruns)
    return [
        f"{test}: passed only on a rerun {len(ids)} times in the last {RUNS} nightly runs ({', '.join(ids)}); find the race"
        for test, ids in sorted(runs.items())
        if len(ids) > NOISE
    ]


def main(command, path, *arguments):
    history = pathlib.Path(path)
    text = history.read_text() if history.exists() else ""
    if command == "add":
        run, folder = arguments
        files = sorted(pathlib.Path(folder).rglob("*.tsv"))
        history.parent.mkdir(parents=True, exist_ok=True)
        history.write_text(added(text, run, counted("".join(file.read_text() for file in files))))
        return 0
    found = defects(text)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) not in (3, 5) or sys.argv[1] != ("check" if len(sys.argv) == 3 else "add"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
