//! Spans, metrics and `/metrics` of every recording, compared with committed files, with the table of definitions, and
//! with the collections.

mod aggregate;
mod defined;
mod golden;
mod prometheus;
mod recordings;
mod render;
mod series;
mod spans;
mod synthetic;
