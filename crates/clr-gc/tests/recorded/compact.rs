//! Collections packed into few bytes.

use clr_gc::gc::CompactCollection;

use crate::recordings::{self, Recording};

/// Scenario: every collection of every recording is packed.
/// Guarantee: unpacking returns an equal collection, and each packed collection has at most 450 bytes.
#[test]
fn packed_collections_round_trip() {
    let mut count = 0;
    for name in recordings::names() {
        for collection in Recording::read(&name).collections() {
            let packed = CompactCollection::new(collection.clone());
            assert_eq!(packed.number(), collection.number);
            assert_eq!(&packed.unpack(), collection, "{name} #{}", collection.number);
            assert!(
                packed.bytes() <= 450,
                "{name} #{}: {}",
                collection.number,
                packed.bytes()
            );
            count += 1;
        }
    }
    assert!(count > 300);
}
