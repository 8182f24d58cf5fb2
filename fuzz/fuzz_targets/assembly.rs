//! Parses any bytes as the file of an assembly. Every found static field has a requested name, and every requested name
//! has a result.
#![no_main]

use clr_heap::metadata::statics;
use clr_heap::statics::classes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut read = |at: u64, count: u32| {
        let rest = input.get(usize::try_from(at).ok()?..)?;
        Some(rest.get(..count as usize).unwrap_or(rest).to_vec())
    };
    let names = ["entries", "list", "dictionary", "s_default", "Log", "<>9"];
    let Ok(fields) = statics(&mut read, &names.into_iter().collect()) else {
        return;
    };
    assert!(fields.iter().all(|field| names.contains(&&*field.name)));
    for is_whole in [true, false] {
        assert_eq!(
            classes(&names, std::slice::from_ref(&fields), is_whole).len(),
            names.len()
        );
    }
});
