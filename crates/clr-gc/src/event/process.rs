//! Events that identify the process and the runtime, and messages of the event source itself.

use super::record::record;
use super::text::Utf16;

record! {
    /// RuntimeStart (187) of the runtime provider, and RuntimeDCStart (187) of the rundown provider: identity of the
    /// runtime. Version 0 (41 bytes + two strings).
    RuntimeInformation<'a> {
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// Edition of the runtime: 1 desktop, 2 CoreCLR, 4 Mono.
        sku: u16 = "Sku",
        /// First part of the version of the base class library, which is the version of the release: 10 in 10.0.14.
        /// .NET Core before 5 reports 4.0.0.
        bcl_major_version: u16 = "BclMajorVersion",
        /// Second part: 0 in 10.0.14.
        bcl_minor_version: u16 = "BclMinorVersion",
        /// Third part: 14 in 10.0.14.
        bcl_build_number: u16 = "BclBuildNumber",
        /// Fourth part: 0.
        bcl_qfe_number: u16 = "BclQfeNumber",
        /// First part of the file version of the runtime: 10 in 10.0.14.
        vm_major_version: u16 = "VMMajorVersion",
        /// Second part: 0 in 10.0.14.
        vm_minor_version: u16 = "VMMinorVersion",
        /// Third part, a build number: 1426 in 10.0.14.
        vm_build_number: u16 = "VMBuildNumber",
        /// Fourth part, a build number.
        vm_qfe_number: u16 = "VMQfeNumber",
        /// Bits: 1 concurrent GC, 0x1000 server GC, and others.
        startup_flags: u32 = "StartupFlags",
        /// Bits: 1 managed program, 2 hosted.
        startup_mode: u8 = "StartupMode",
        /// Command line; empty in every recording.
        command_line: Utf16<'a> = "CommandLine",
        /// GUID in wire order; zero except for COM activation.
        com_object_guid: [u8; 16] = "ComObjectGuid",
        /// Path of the runtime library.
        runtime_dll_path: Utf16<'a> = "RuntimeDllPath",
    }

    /// GCSettingsRundown (10) of the rundown provider: configuration of the collector. Version 0 (50 bytes). Sent at
    /// the end of a session whose rundown has keyword 0x1, by CoreCLR 9 and later. A number that is not configured is
    /// 0.
    RundownSettings {
        /// Heap limit in bytes, configured or derived from the limit of the container.
        hard_limit: u64 = "HardLimit",
        /// Minimum size of a large object in bytes.
        loh_threshold: u64 = "LOHThreshold",
        /// Configured physical memory of the machine in bytes.
        physical_memory_config: u64 = "PhysicalMemoryConfig",
        /// Minimum budget of generation 0 in bytes.
        gen0_min_budget_config: u64 = "Gen0MinBudgetConfig",
        /// Maximum budget of generation 0 in bytes.
        gen0_max_budget_config: u64 = "Gen0MaxBudgetConfig",
        /// Memory load in percent at which the collector considers memory scarce.
        high_mem_percent_config: u32 = "HighMemPercentConfig",
        /// Bits: 1 concurrent, 2 large pages, 4 frozen segments, 8 hard limit is configured, 0x10 heaps are not bound
        /// to processors.
        bit_settings: u32 = "BitSettings",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// ProcessInfo (1) of the provider Microsoft-DotNETCore-EventPipe: the last event of a stream that was stopped
    /// cleanly. Versions 0 (one string: .NET Core 3.1), 1 (three).
    ProcessInfo<'a> {
        /// Command line.
        command_line: Utf16<'a> = "CommandLine",
        /// Operating system: `Linux`, `Windows` ...
        os_information: Utf16<'a> = "OSInformation" since 1,
        /// Architecture: `x64`, `arm64` ...
        arch_information: Utf16<'a> = "ArchInformation" since 1,
    }

    /// Event 0: a message of the event source itself, usually about an internal error. Observed with an exception in
    /// command processing when a session started while the heap was full.
    EventSourceMessage<'a> {
        /// Text of the message.
        message: Utf16<'a> = "message",
    }
}

impl RuntimeInformation<'_> {
    /// Returns the release of the runtime, for example `10.0.14`. The release is the version of the base class library.
    /// The third part of the file version of the runtime is a build number.
    ///
    /// .NET Core before 5 reports 4.0.0 for every release. In this case, the result is the name of the folder of the
    /// runtime library, or `None` if this name is not a version, because the program ships its own runtime.
    pub fn version(&self) -> Option<String> {
        if self.bcl_major_version >= 5 {
            return Some(format!(
                "{}.{}.{}",
                self.bcl_major_version, self.bcl_minor_version, self.bcl_build_number
            ));
        }
        let path = self.runtime_dll_path.to_text();
        let folder = path.rsplit(['/', '\\']).nth(1)?;
        let is_release =
            |text: &str| text.split('.').count() == 3 && text.split('.').all(|part| part.parse::<u16>().is_ok());
        is_release(folder.split('-').next()?).then(|| folder.to_owned())
    }
}
