"""The suite that each module declares its cases of."""

from __future__ import annotations

from cases import Suite
from facade import in_both_styles

suite = Suite("azure-python")
case = in_both_styles(suite)
