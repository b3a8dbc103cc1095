"""Carries a plan out: every step journaled, every change kept so that it can be put back."""
