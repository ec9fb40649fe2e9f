"""The administration client of `azure-servicebus` for Python against the broker's management API."""

from __future__ import annotations

import pathlib
import sys

INTEROP = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(INTEROP / "lib"), str(INTEROP / "azure-python")]

from admin import suite

# Each of these declares the cases of one subject. Their names are none of those in `azure-python`.
import listings
import profiles
import properties
import uses

if __name__ == "__main__":
    suite.run()
