//! Tells every garbage collection of every .NET process on the host, exactly.
