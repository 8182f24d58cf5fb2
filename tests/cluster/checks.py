"""Runs the checks in order, and lists the checks that this machine cannot run."""

import sys
import time
import unittest

import lab

CHECKS = ["check_install", "check_pods", "check_incidents", "check_kubectl", "check_update", "check_start"]


class Result(unittest.TextTestResult):
    """A result that counts passed tests, because the failed setup of a class is a failure without a test."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    began = time.monotonic()
    named = [each for each in sys.argv[1:] if not each.startswith("-")]
    suite = unittest.defaultTestLoader.loadTestsFromNames(named or CHECKS)
    done = unittest.TextTestRunner(verbosity=2, failfast="--failfast" in sys.argv, resultclass=Result).run(suite)
    for what in lab.NOT_SHOWN:
        print(f"not shown here: {what}", file=sys.stderr)
    failed = len(done.failures) + len(done.errors)
    print(f"tests/cluster: {done.passed} passed, {failed} failed, {len(done.skipped)} left out, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0 if done.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
