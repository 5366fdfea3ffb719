"""Settings of the property tests: no time limits, no files left behind."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unit", deadline=None, database=None, max_examples=60)
settings.load_profile("unit")
