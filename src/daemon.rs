//! The daemon: its parts put together, reload and shutdown.
