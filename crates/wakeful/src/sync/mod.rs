//! Tasks that share something, or tell each other: locks, channels and events.
