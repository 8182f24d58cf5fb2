//! Decodes any bytes as the payloads of events of methods, modules and the process, and any text as the names of a
//! method and a type. Payloads are decoded or refused, methods do not overlap, and every name can be displayed.
#![no_main]

use clr_evidence::budget::Budget;
use clr_evidence::method::{Method, Methods};
use clr_evidence::module::Modules;
use clr_evidence::name::{Frame, type_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut budget = Budget::default();
    let mut methods = Methods::default();
    for payload in input.chunks(64) {
        methods.observe(payload, None, &mut budget);
    }
    methods.observe(input, None, &mut budget);
    let mut modules = Modules::default();
    for payload in input.chunks(48) {
        modules.observe(payload, &mut budget);
    }
    modules.observe_process(input);
    modules.decide();
    if let Ok(method) = Method::decode(input) {
        let frame = Frame::new(&method.namespace, &method.name);
        assert!(!frame.name.chars().any(char::is_control));
        type_name(&method.namespace);
        if let Some(found) = methods.at(method.address) {
            assert!(found.address <= method.address);
        }
    }
    let text = String::from_utf8_lossy(input);
    let (namespace, name) = text.split_once('\n').unwrap_or((&text, ""));
    Frame::new(namespace, name);
    type_name(&text);
});
