//! Writes the `.heapsnapshot` format of Chrome's developer tools, which memlab and VS Code also read.
//!
//! The super root comes first, then the roots, then all objects. References are numbered elements, because the runtime
//! does not report their names.

use std::io::{self, Write};

use crate::graph::Graph;

/// Number of values per node in the file.
const NODE_FIELDS: u64 = 6;
const OBJECT: u32 = 3;
const SYNTHETIC: u32 = 9;
const ELEMENT: u32 = 1;
const INTERNAL: u32 = 3;

const META: &str = r#"{"snapshot":{"meta":{"node_fields":["type","name","id","self_size","edge_count","detachedness"],"node_types":[["hidden","array","string","object","code","closure","regexp","number","native","synthetic","concatenated string","sliced string","symbol","bigint","object shape"],"string","number","number","number","number"],"edge_fields":["type","name_or_index","to_node"],"edge_types":[["context","element","property","internal","hidden","shortcut","weak"],"string_or_number","node"],"trace_function_info_fields":[],"trace_node_fields":[],"sample_fields":[],"location_fields":[]},"#;

/// Writes a graph as a heap snapshot. The output is written in many small parts, so use a buffered writer.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub fn write(graph: &Graph, out: &mut impl Write) -> io::Result<()> {
    let objects = graph.objects();
    let roots = graph.roots().len() as u32;
    let nodes = u64::from(objects) + u64::from(roots) + 1;
    // Order in the file: super root, roots, objects.
    let place = |node: u32| match node.checked_sub(objects) {
        None => u64::from(node) + u64::from(roots) + 1,
        Some(root) if root < roots => u64::from(root) + 1,
        Some(_) => 0,
    };
    let order = || {
        std::iter::once(graph.super_root())
            .chain((0..roots).map(|root| objects + root))
            .chain(0..objects)
    };
    let edges: u64 = order().map(|node| graph.targets(node).len() as u64).sum();
    out.write_all(META.as_bytes())?;
    writeln!(
        out,
        r#""node_count":{nodes},"edge_count":{edges},"trace_function_count":0}},"#
    )?;
    out.write_all(b"\"nodes\":[")?;
    // Order of the strings: super root, each root, each type.
    let name = |node: u32| match graph.type_of(node) {
        Some(one) => 1 + roots + one,
        None if node == graph.super_root() => 0,
        None => node - objects + 1,
    };
    for (index, node) in order().enumerate() {
        let r#type = if node < objects { OBJECT } else { SYNTHETIC };
        let separator = if index == 0 { "" } else { ",\n" };
        write!(
            out,
            "{separator}{type},{},{},{},{},0",
            name(node),
            2 * index + 1,
            graph.bytes(node),
            graph.targets(node).len()
        )?;
    }
    out.write_all(b"],\n\"edges\":[")?;
    let mut separator = "";
    for node in order() {
        for (index, target) in graph.targets(node).iter().enumerate() {
            let (r#type, name) = if node == graph.super_root() {
                (INTERNAL, u64::from(name(*target)))
            } else {
                (ELEMENT, index as u64)
            };
            write!(out, "{separator}{type},{name},{}", place(*target) * NODE_FIELDS)?;
            separator = ",\n";
        }
    }
    out.write_all(
        b"],\n\"trace_function_infos\":[],\"trace_tree\":[],\"samples\":[],\"locations\":[],\n\"strings\":[\"(roots)\"",
    )?;
    for root in graph.roots() {
        out.write_all(b",\n")?;
        serde_json::to_writer(&mut *out, &root.shown())?;
    }
    for one in &graph.types {
        out.write_all(b",\n")?;
        serde_json::to_writer(&mut *out, &one.name)?;
    }
    out.write_all(b"]}\n")
}
