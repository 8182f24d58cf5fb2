//! Attributes of profiles.

use super::attributes;

attributes! {
    FRAME_TYPE "profile.frame.type" Text Development
        "On each location: `dotnet`."
        from "semantic conventions (profile)"
    ALLOCATED_TYPE "gcwatch.allocation.type" Text Own
        "On each sample: the type that was allocated, as a person writes it. Absent where the runtime does not say it."
        from "AllocationSampled, AllocationTick (TypeName)"
    BIASED "gcwatch.allocation.biased" Bool Own
        "On the profile: true where the runtime sampled about every 100 KB instead of by chance (.NET 8 and 9)."
        from "which event it is"
}
