"""Carries a plan out and rolls it back: step by step, between a record before and one after."""
