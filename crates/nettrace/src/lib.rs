//! Reads and writes nettrace, the event stream of .NET's EventPipe (V4, V5 metadata, V6).
