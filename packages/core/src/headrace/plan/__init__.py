"""Stage of the way of a step; see ARCHITECTURE.md."""
