"""Carries out a plan and rolls it back: step by step, with a record before and after each."""
