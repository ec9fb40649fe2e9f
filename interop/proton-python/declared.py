"""The suite that each module declares its cases of."""

from __future__ import annotations

from cases import Suite

suite = Suite("proton-python", anonymous=True)
