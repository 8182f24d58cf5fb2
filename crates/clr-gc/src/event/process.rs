//! Which process and runtime it is, and messages of the event source itself.

use super::record::record;
use super::text::Utf16;

record! {
    /// RuntimeStart (187) of the runtime provider, and RuntimeDCStart (187) of the rundown provider: which runtime
    /// runs. Version 0 (41 bytes + two strings).
    RuntimeInformation<'a> {
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// 1 desktop, 2 CoreCLR, 4 Mono.
        sku: u16 = "Sku",
        /// First number of the base class library's version, which is that of the release: 10 in
        /// 10.0.14. .NET Core before 5 says 4.0.0.
        bcl_major_version: u16 = "BclMajorVersion",
        /// Second number: 0 in 10.0.14.
        bcl_minor_version: u16 = "BclMinorVersion",
        /// Third number: 14 in 10.0.14.
        bcl_build_number: u16 = "BclBuildNumber",
        /// Fourth number: 0.
        bcl_qfe_number: u16 = "BclQfeNumber",
        /// First number of the runtime's file version: 10 in 10.0.14.
        vm_major_version: u16 = "VMMajorVersion",
        /// Second number: 0 in 10.0.14.
        vm_minor_version: u16 = "VMMinorVersion",
        /// Third number: a build's, 1426 in 10.0.14.
        vm_build_number: u16 = "VMBuildNumber",
        /// Fourth number: a build's.
        vm_qfe_number: u16 = "VMQfeNumber",
        /// Bits: 1 concurrent GC, 0x1000 server GC, and others.
        startup_flags: u32 = "StartupFlags",
        /// Bits: 1 managed program, 2 hosted.
        startup_mode: u8 = "StartupMode",
        /// Command line; empty in every recording.
        command_line: Utf16<'a> = "CommandLine",
        /// GUID, in wire order; zero but for COM activation.
        com_object_guid: [u8; 16] = "ComObjectGuid",
        /// Where the runtime was loaded from.
        runtime_dll_path: Utf16<'a> = "RuntimeDllPath",
    }

    /// GCSettingsRundown (10) of the rundown provider: how the collector is set up. Version 0 (50 bytes). Comes at the
    /// end of a session with keyword 0x1 in its rundown, from CoreCLR 9 on; a number that is not configured is 0.
    RundownSettings {
        /// Limit of the heap in bytes, configured or derived from that of the container.
        hard_limit: u64 = "HardLimit",
        /// Objects of at least as many bytes are large.
        loh_threshold: u64 = "LOHThreshold",
        /// Memory in bytes that the collector is configured to take as the machine's.
        physical_memory_config: u64 = "PhysicalMemoryConfig",
        /// Least budget of generation 0 in bytes.
        gen0_min_budget_config: u64 = "Gen0MinBudgetConfig",
        /// Largest budget of generation 0 in bytes.
        gen0_max_budget_config: u64 = "Gen0MaxBudgetConfig",
        /// Memory load in percent from which the collector takes memory for scarce.
        high_mem_percent_config: u32 = "HighMemPercentConfig",
        /// Bits: 1 concurrent, 2 large pages, 4 frozen segments, 8 the hard limit is configured, 0x10 heaps are not
        /// bound to processors.
        bit_settings: u32 = "BitSettings",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
    }

    /// ProcessInfo (1) of the provider Microsoft-DotNETCore-EventPipe: comes last in a stream that was stopped in
    /// order. Versions 0 (one string: .NET Core 3.1), 1 (three).
    ProcessInfo<'a> {
        /// Command line.
        command_line: Utf16<'a> = "CommandLine",
        /// `Linux`, `Windows` ...
        os_information: Utf16<'a> = "OSInformation" since 1,
        /// `x64`, `arm64` ...
        arch_information: Utf16<'a> = "ArchInformation" since 1,
    }

    /// Event 0: a message of the event source itself, usually about an error of its own. Seen with an exception in
    /// command processing when a session began while the heap was full.
    EventSourceMessage<'a> {
        /// The message.
        message: Utf16<'a> = "message",
    }
}

impl RuntimeInformation<'_> {
    /// The release that runs: `10.0.14`. The base class library carries its number; the runtime's own third number is a
    /// build's.
    ///
    /// .NET Core before 5 gives 4.0.0 for every release. There it is the name of the folder that the runtime was loaded
    /// from, and `None` for a program that brings its own runtime.
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
