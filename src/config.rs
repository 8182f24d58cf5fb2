//! What the operator may set: flags over environment over one YAML file, every key optional.
