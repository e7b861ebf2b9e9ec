"""Optimisers, and the trainer with its losses, metrics and callbacks: user-level code on public names only."""
