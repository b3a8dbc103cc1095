"""Carries out a plan: every step is journaled, and every change kept for a rollback."""
