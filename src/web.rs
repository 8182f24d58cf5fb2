//! The daemon's own listener: `/metrics`, health and the JSON API.
