//! Heap dumps: types, nodes, edges, roots and ranges in bulk.
//!
//! A permanent session does not request these events, because their keywords make every collection slower. Sessions for
//! heap dumps and recordings of other tools contain them. Each kind is split into several events, numbered by Index.
//! Events 15, 16, 18, 19 and 38 were observed on .NET 11 (64 bits), and event 22 on .NET Core 3.0 (64 bits) and 3.1 (32
//! bits). The other layouts follow the manifest.

use super::enums::RootKind;
use super::fields::Numbers;
use super::flags::RootFlags;
use super::reader::{Byte, Count, Ptr};
use super::record::record;
use super::rows::Rows;
use super::text::Utf16;

record! {
    /// BulkType (15, keyword 0x80000): type names. Version 0 (6 bytes + rows of varying length).
    BulkType<'a> {
        /// Number of rows.
        count: u32 as Count<u32> = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// The types.
        values: Rows<'a, BulkTypeRow<'a>> = "Values",
    }

    /// A type in [`BulkType`]: 29 bytes, the name, and its type parameters.
    BulkTypeRow<'a> {
        /// Method table of the type.
        type_id: u64 = "TypeID",
        /// Module of the type.
        module_id: u64 = "ModuleID",
        /// Token in the metadata of the module.
        type_name_id: u32 = "TypeNameID",
        /// Bits: 1 delegate, 2 finalizable, 4 COM object, 8 array. The rank of an array starts at bit 8.
        flags: u32 = "Flags",
        /// ECMA-335 element type.
        cor_element_type: u8 = "CorElementType",
        /// Name of the type.
        name: Utf16<'a> = "Name",
        /// Number of type parameters.
        type_parameter_count: u32 as Count<u32> = "TypeParameterCount",
        /// Method tables of the type parameters.
        type_parameters: Numbers<'a> = "TypeParameters",
    }

    /// GCBulkRootEdge (16, keyword 0x100000): roots. Version 0 (10 bytes + 21 per row on 64 bits, 13 on 32).
    BulkRootEdge<'a> {
        /// Sequence number of the event among the events of its kind.
        index: u32 = "Index",
        /// Number of rows.
        count: u32 as Count<u32> = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// The roots.
        values: Rows<'a, RootEdge> = "Values",
    }

    /// A root in [`BulkRootEdge`].
    RootEdge {
        /// Address of the object.
        rooted_node_address: u64 as Ptr = "RootedNodeAddress",
        /// Kind of the root.
        gc_root_kind: RootKind as Byte<RootKind> = "GCRootKind",
        /// Properties of the root.
        gc_root_flag: RootFlags = "GCRootFlag",
        /// Address or number of the root itself.
        gc_root_id: u64 as Ptr = "GCRootID",
    }

    /// GCBulkRootConditionalWeakTableElementEdge (17, keyword 0x100000): edges through dependent handles. Version 0
    /// (10 bytes + 24 per row on 64 bits, 12 on 32).
    BulkRootConditionalWeakTableElementEdge<'a> {
        /// Sequence number of the event among the events of its kind.
        index: u32 = "Index",
        /// Number of rows.
        count: u32 as Count<u32> = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// The edges.
        values: Rows<'a, WeakTableEdge> = "Values",
    }

    /// An edge in [`BulkRootConditionalWeakTableElementEdge`].
    WeakTableEdge {
        /// Key of the edge.
        gc_key_node_id: u64 as Ptr = "GCKeyNodeID",
        /// Value that the key keeps alive.
        gc_value_node_id: u64 as Ptr = "GCValueNodeID",
        /// Handle of the edge.
        gc_root_id: u64 as Ptr = "GCRootID",
    }

    /// GCBulkNode (18, keyword 0x100000): objects. Version 0 (10 bytes + 32 per row on 64 bits, 28 on 32).
    BulkNode<'a> {
        /// Sequence number of the event among the events of its kind.
        index: u32 = "Index",
        /// Number of rows.
        count: u32 as Count<u32> = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// The objects.
        values: Rows<'a, HeapNode> = "Values",
    }

    /// An object in [`BulkNode`].
    HeapNode {
        /// Address of the object.
        address: u64 as Ptr = "Address",
        /// Size of the object in bytes.
        size: u64 = "Size",
        /// Method table of the object.
        type_id: u64 = "TypeID",
        /// Number of edges in GCBulkEdge that belong to this object.
        edge_count: u64 = "EdgeCount",
    }

    /// GCBulkEdge (19, keyword 0x100000): references, in the order of the nodes. Version 0 (10 bytes + 12 per row on 64
    /// bits, 8 on 32).
    BulkEdge<'a> {
        /// Sequence number of the event among the events of its kind.
        index: u32 = "Index",
        /// Number of rows.
        count: u32 as Count<u32> = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// The references.
        values: Rows<'a, HeapEdge> = "Values",
    }

    /// A reference in [`BulkEdge`].
    HeapEdge {
        /// Address of the referenced object.
        value: u64 as Ptr = "Value",
        /// Field of the reference; 0 in practice.
        referencing_field_id: u32 = "ReferencingFieldID",
    }

    /// GCBulkSurvivingObjectRanges (21, keyword 0x400000): survivors that are not moved. Version 0 (10 bytes + 16 per
    /// row on 64 bits, 12 on 32).
    BulkSurvivingObjectRanges<'a> {
        /// Sequence number of the event among the events of its kind.
        index: u32 = "Index",
        /// Number of rows.
        count: u32 as Count<u32> = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// The ranges.
        values: Rows<'a, SurvivingRange> = "Values",
    }

    /// A range in [`BulkSurvivingObjectRanges`].
    SurvivingRange {
        /// Start of the range.
        range_base: u64 as Ptr = "RangeBase",
        /// Length of the range in bytes.
        range_length: u64 = "RangeLength",
    }

    /// GCBulkMovedObjectRanges (22, keyword 0x400000): survivors that are moved. Version 0 (10 bytes + 24 per row on 64
    /// bits, 16 on 32).
    BulkMovedObjectRanges<'a> {
        /// Sequence number of the event among the events of its kind.
        index: u32 = "Index",
        /// Number of rows.
        count: u32 as Count<u32> = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// The ranges.
        values: Rows<'a, MovedRange> = "Values",
    }

    /// A range in [`BulkMovedObjectRanges`].
    MovedRange {
        /// Start of the range before the move.
        old_range_base: u64 as Ptr = "OldRangeBase",
        /// Start of the range after the move.
        new_range_base: u64 as Ptr = "NewRangeBase",
        /// Length of the range in bytes.
        range_length: u64 = "RangeLength",
    }

    /// GCBulkRootCCW (36, keyword 0x100000; Windows): objects that COM keeps alive. Version 0 (6 bytes + 44 per row).
    BulkRootCcw<'a> {
        /// Number of rows.
        count: u32 as Count<u32> = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// The wrappers.
        values: Rows<'a, RootCcw> = "Values",
    }

    /// A wrapper in [`BulkRootCcw`].
    RootCcw {
        /// Number of the root.
        gc_root_id: u64 = "GCRootID",
        /// Address of the object.
        object_id: u64 = "ObjectID",
        /// Method table of the object.
        type_id: u64 = "TypeID",
        /// COM interface of the wrapper.
        i_unknown: u64 = "IUnknown",
        /// Number of references from COM.
        ref_count: u32 = "RefCount",
        /// Number of these references that are pegged.
        pegged_ref_count: u32 = "PeggedRefCount",
        /// Bits: 1 strong, 2 pegged.
        flags: u32 = "Flags",
    }

    /// GCBulkRCW (37, keyword 0x100000; Windows): COM objects that managed objects keep alive. Version 0 (6 bytes + 40
    /// per row).
    BulkRcw<'a> {
        /// Number of rows.
        count: u32 as Count<u32> = "Count",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// The wrappers.
        values: Rows<'a, Rcw> = "Values",
    }

    /// A wrapper in [`BulkRcw`].
    Rcw {
        /// Address of the managed object.
        object_id: u64 = "ObjectID",
        /// Method table of the managed object.
        type_id: u64 = "TypeID",
        /// COM interface of the wrapper.
        i_unknown: u64 = "IUnknown",
        /// Virtual table of the COM object.
        v_table: u64 = "VTable",
        /// Number of references.
        ref_count: u32 = "RefCount",
        /// Bits with unknown meaning.
        flags: u32 = "Flags",
    }

    /// GCBulkRootStaticVar (38, keyword 0x100000): static fields. Version 0 (14 bytes + rows of varying length).
    BulkRootStaticVar<'a> {
        /// Number of rows.
        count: u32 as Count<u32> = "Count",
        /// AppDomain of the fields.
        app_domain_id: u64 = "AppDomainID",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// The fields.
        values: Rows<'a, RootStaticVar<'a>> = "Values",
    }

    /// A static field in [`BulkRootStaticVar`]: 28 bytes and the name.
    RootStaticVar<'a> {
        /// Number of the root.
        gc_root_id: u64 = "GCRootID",
        /// Address of the object.
        object_id: u64 = "ObjectID",
        /// Method table of the class.
        type_id: u64 = "TypeID",
        /// Bits: 1 thread-local.
        flags: u32 = "Flags",
        /// Name of the field.
        field_name: Utf16<'a> = "FieldName",
    }
}
