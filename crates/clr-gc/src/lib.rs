//! Typed garbage collection events of the CLR and the reconstruction of collections from them.
