"""The count of reruns over the nightly runs (tests/reruns/history.py)."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

from tools import PROJECT

sys.path.append(str(PROJECT / "tests/reruns"))
import history


class Reruns(unittest.TestCase):
    def test_only_reruns_that_pass_count(self):
        """Scenario: a run has two reruns of a test that pass, and a rerun of another test that fails.
        Guarantee: the reruns of the first test count, and the second test does not count."""
        records = "passed\tlive::a\nfailed\tattack::b\npassed\tlive::a\n"
        self.assertEqual(history.counted(records), {"live::a": 2})
        self.assertEqual(history.counted(""), {})

    def test_history_has_twenty_runs(self):
        """Scenario: 25 runs are added, and the last run is added again with other reruns.
        Guarantee: the history has the last 20 runs, each once, and the last run has its new reruns."""
        text = ""
        for run in range(25):
            text = history.added(text, str(run), {"live::a": 1})
        text = history.added(text, "24", {})
        lines = text.splitlines()
        self.assertEqual((len(lines), lines[0], lines[-1]), (20, '{"reruns": {"live::a": 1}, "run": "5"}', '{"reruns": {}, "run": "24"}'))

    def test_second_rerun_is_a_defect(self):
        """Scenario: a test has one rerun in the kept runs, then a second rerun; another test has an older rerun.
        Guarantee: only the second rerun is reported, with the test and the runs."""
        text = history.added("", "1", {"live::old": 1})
        for run in range(2, 22):
            text = history.added(text, str(run), {"live::a": 1} if run == 9 else {"live::old": 1} if run == 10 else {})
        self.assertEqual(history.defects(text), [])
        found = history.defects(history.added(text, "22", {"live::a": 1}))
        self.assertEqual(len(found), 1)
        self.assertIn("live::a: passed only on a rerun 2 times", found[0])
        self.assertIn("(9, 22)", found[0])

    def test_files_are_read(self):
        """Scenario: the script adds a folder with two files and a missing folder to a history that does not exist, and
        checks the history.
        Guarantee: the reruns of both files count; the check fails and names the test."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for job in ("one", "two"):
                (folder / job).mkdir()
                (folder / job / "reruns.tsv").write_text("passed\tlive::a\n")
            path = folder / "kept/history.jsonl"
            self.assertEqual(history.main("add", path, "1", folder / "missing"), 0)
            self.assertEqual(history.main("check", path), 0)
            self.assertEqual(history.main("add", path, "2", folder), 0)
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                self.assertEqual(history.main("check", path), 1)
            self.assertIn("live::a", said.getvalue())
