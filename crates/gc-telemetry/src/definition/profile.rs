//! Attributes of profiles.

use super::attributes;

attributes! {
    FRAME_TYPE "profile.frame.type" Text Development
        "Type of each location: `dotnet`."
        from "semantic conventions (profile)"
    ALLOCATED_TYPE "gcwatch.allocation.type" Text Own
        "Type of the allocated object in each sample, in readable form. Absent if the runtime does not report the type."
        from "AllocationSampled, AllocationTick (TypeName)"
    BIASED "gcwatch.allocation.biased" Bool Own
        "On the profile: `true` if the runtime took a sample about every 100 KB instead of random samples (.NET 8 and 9)."
        from "type of the event"
}
