"""Loop rules by operation family. A rule may say None: the operation then runs by its kernel."""
