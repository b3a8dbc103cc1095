"""Verifies that a stack works on a host, and says what fixes it: checks, their runner, reports."""
