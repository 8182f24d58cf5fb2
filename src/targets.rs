//! Which .NET processes the host has, who they are, and one supervised task per process that reads its collections.

pub mod options;
