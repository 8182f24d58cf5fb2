//! Heap dumps: types, nodes, edges, roots and ranges in bulk.
//!
//! A monitor never asks for them (their keywords make every collection slower); a recording made by another tool may
//! have them. They come in several events each, numbered by Index. Bytes seen of 22 only (.NET Core 3.0 on 64 bits, 3.1
//! on 32); all the others are the manifest's word.

use super::enums::RootKind;
use super::fields::Numbers;
use super::flags::RootFlags;
use super::reader::{Byte, Count, Ptr};
use super::record::record;
use super::rows::Rows;
use super::text::Utf16;

record! {
    /// BulkType (15, keyword 0x80000): names of types. Version 0 (6 bytes + rows of varying length).
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
        /// Method table.
        type_id: u64 = "TypeID",
        /// Module.
        module_id: u64 = "ModuleID",
        /// Token in the module's metadata.
        type_name_id: u32 = "TypeNameID",
        /// Bits: 1 delegate, 2 finalizable, 4 COM object, 8 array; rank of the array from bit 8.
        flags: u32 = "Flags",
        /// ECMA-335 element type.
        cor_element_type: u8 = "CorElementType",
        /// Name.
        name: Utf16<'a> = "Name",
        /// How many type parameters.
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
        /// The object.
        rooted_node_address: u64 as Ptr = "RootedNodeAddress",
        /// Where the root is.
        gc_root_kind: RootKind as Byte<RootKind> = "GCRootKind",
        /// What it is like.
        gc_root_flag: RootFlags = "GCRootFlag",
        /// The root's own address or number.
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
        /// The key.
        gc_key_node_id: u64 as Ptr = "GCKeyNodeID",
        /// What it keeps.
        gc_value_node_id: u64 as Ptr = "GCValueNodeID",
        /// The handle.
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
        /// Where.
        address: u64 as Ptr = "Address",
        /// Number of bytes.
        size: u64 = "Size",
        /// Method table.
        type_id: u64 = "TypeID",
        /// How many of the edges in GCBulkEdge are its own.
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
        /// The object referred to.
        value: u64 as Ptr = "Value",
        /// The field; 0 in practice.
        referencing_field_id: u32 = "ReferencingFieldID",
    }

    /// GCBulkSurvivingObjectRanges (21, keyword 0x400000): survivors that stay. Version 0 (10 bytes + 16 per row on 64
    /// bits, 12 on 32).
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
        /// Where it begins.
        range_base: u64 as Ptr = "RangeBase",
        /// Number of bytes.
        range_length: u64 = "RangeLength",
    }

    /// GCBulkMovedObjectRanges (22, keyword 0x400000): survivors that move. Version 0 (10 bytes + 24 per row on 64
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
        /// Where it began.
        old_range_base: u64 as Ptr = "OldRangeBase",
        /// Where it begins now.
        new_range_base: u64 as Ptr = "NewRangeBase",
        /// Number of bytes.
        range_length: u64 = "RangeLength",
    }

    /// GCBulkRootCCW (36, keyword 0x100000; Windows): objects that COM holds. Version 0 (6 bytes + 44 per row).
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
        /// The root's number.
        gc_root_id: u64 = "GCRootID",
        /// The object.
        object_id: u64 = "ObjectID",
        /// Its method table.
        type_id: u64 = "TypeID",
        /// Its COM interface.
        i_unknown: u64 = "IUnknown",
        /// References by COM.
        ref_count: u32 = "RefCount",
        /// Of these, pegged.
        pegged_ref_count: u32 = "PeggedRefCount",
        /// Bits: 1 strong, 2 pegged.
        flags: u32 = "Flags",
    }

    /// GCBulkRCW (37, keyword 0x100000; Windows): COM objects that managed objects hold. Version 0 (6 bytes + 40 per
    /// row).
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
        /// The managed object.
        object_id: u64 = "ObjectID",
        /// Its method table.
        type_id: u64 = "TypeID",
        /// The COM interface.
        i_unknown: u64 = "IUnknown",
        /// The COM object's virtual table.
        v_table: u64 = "VTable",
        /// References.
        ref_count: u32 = "RefCount",
        /// Bits without known meaning.
        flags: u32 = "Flags",
    }

    /// GCBulkRootStaticVar (38, keyword 0x100000): static fields. Version 0 (14 bytes + rows of varying length).
    BulkRootStaticVar<'a> {
        /// Number of rows.
        count: u32 as Count<u32> = "Count",
        /// AppDomain.
        app_domain_id: u64 = "AppDomainID",
        /// Number of the runtime within its process.
        clr_instance: u16 = "ClrInstanceID",
        /// The fields.
        values: Rows<'a, RootStaticVar<'a>> = "Values",
    }

    /// A static field in [`BulkRootStaticVar`]: 28 bytes and the name.
    RootStaticVar<'a> {
        /// The root's number.
        gc_root_id: u64 = "GCRootID",
        /// The object.
        object_id: u64 = "ObjectID",
        /// Method table of the class.
        type_id: u64 = "TypeID",
        /// Bits: 1 thread-local.
        flags: u32 = "Flags",
        /// Name of the field.
        field_name: Utf16<'a> = "FieldName",
    }
}
