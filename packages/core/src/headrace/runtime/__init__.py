"""Running steps: what is fed and fetched, the state they share, deadlines and traces."""
