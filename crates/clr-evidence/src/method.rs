//! Methods by address, which provide the names of frames.
//!
//! A runtime reports the methods that it has compiled at the end of a session (rundown: `MethodDCEndVerbose`, 144), and
//! methods that it compiles during a session if the session requests these events (`MethodLoadVerbose`, 143). Both
//! events have the same layout:
//!
//! ```text
//! u64 MethodID, u64 ModuleID, u64 address, u32 size, u32 token, u32 flags, utf16z namespace, name, signature, ...
//! ```
//!
//! From a rundown, only methods with an address in a stack are retained: several hundred out of tens of thousands.

use std::collections::{BTreeMap, BTreeSet};

use crate::budget::Budget;
use crate::budget::shown_bytes;

/// Provider of the rundown at the end of a session.
pub const RUNDOWN_PROVIDER: &str = "Microsoft-Windows-DotNETRuntimeRundown";
/// Event id of `MethodDCEndVerbose` of [`RUNDOWN_PROVIDER`].
pub const METHOD_DC_END_VERBOSE: u32 = 144;
/// Event id of `MethodLoadVerbose` of the runtime's provider. `MethodDCStartVerbose` of the rundown at the start of a
/// session has the same id.
pub const METHOD_LOAD_VERBOSE: u32 = 143;

/// Memory per method excluding its names, here and for its frame, in bytes.
const METHOD_BYTES: usize = 256;
/// Maximum number of characters of a namespace or a name that are retained.
pub const MAX_NAME_CHARS: usize = 1024;

/// A method described by an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// Start address of the code.
    pub address: u64,
    /// Size of the code, in bytes.
    pub size: u32,
    /// Id of the module in the process.
    pub module: u64,
    /// Token in the metadata of the module; 0 for a dynamic method.
    pub token: u32,
    /// Full name of the type: `Shop.Repository`1[System.Int32]`; `dynamicClass` for a dynamic method.
    pub namespace: String,
    /// Name of the method.
    pub name: String,
}

/// Error returned if a payload is not a complete method or module event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} is truncated")]
pub struct MethodError {
    /// First incomplete field.
    pub field: &'static str,
}

impl Method {
    /// Decodes the payload of a verbose method event. The fields after the name are ignored.
    ///
    /// # Errors
    /// Returns an error if the payload is too short.
    pub fn decode(payload: &[u8]) -> Result<Self, MethodError> {
        let mut rest = payload;
        let _id = number::<8>(&mut rest, "MethodID")?;
        let module = number::<8>(&mut rest, "ModuleID")?;
        let address = number::<8>(&mut rest, "MethodStartAddress")?;
        let size = number::<4>(&mut rest, "MethodSize")?;
        let token = number::<4>(&mut rest, "MethodToken")?;
        let _flags = number::<4>(&mut rest, "MethodFlags")?;
        let namespace = text(&mut rest, "MethodNamespace")?;
        let name = text(&mut rest, "MethodName")?;
        Ok(Self {
            address,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            module,
            token: u32::try_from(token).unwrap_or(u32::MAX),
            namespace,
            name,
        })
    }

    /// Returns the first address after the code.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size.into())
    }

    /// Returns the type and the name of the method in the runtime's format.
    pub fn raw(&self) -> String {
        if self.namespace.is_empty() {
            return self.name.clone();
        }
        format!("{}.{}", self.namespace, self.name)
    }

    /// Returns the memory of the method including its two names in reports, in bytes.
    fn bytes(&self) -> usize {
        let names = self.namespace.len() + self.name.len();
        METHOD_BYTES + names + 2 * shown_bytes(names)
    }
}

pub(crate) fn number<const N: usize>(rest: &mut &[u8], field: &'static str) -> Result<u64, MethodError> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(MethodError { field })?;
    *rest = tail;
    Ok(head.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

pub(crate) fn text(rest: &mut &[u8], field: &'static str) -> Result<String, MethodError> {
    let unit = |pair: &[u8]| pair.iter().rev().fold(0, |value, byte| value << 8 | u16::from(*byte));
    let length = rest
        .chunks_exact(2)
        .position(|pair| pair == [0, 0])
        .ok_or(MethodError { field })?;
    let (head, tail) = rest.split_at_checked(length * 2 + 2).ok_or(MethodError { field })?;
    *rest = tail;
    let units = head.chunks_exact(2).take(length).map(unit);
    Ok(char::decode_utf16(units)
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
        .take(MAX_NAME_CHARS)
        .collect())
}

/// The known methods, by address.
#[derive(Debug, Default)]
pub struct Methods {
    /// Methods by start address, without overlaps.
    by_address: BTreeMap<u64, Method>,
    seen: u64,
}

impl Methods {
    /// Processes a verbose method event. If `wanted` is given, only a method with one of these addresses is retained.
    /// New code can replace other code, so a later method replaces the earlier methods at its addresses. An invalid
    /// payload is ignored, and a method that exceeds the memory limit is not retained.
    pub fn observe(&mut self, payload: &[u8], wanted: Option<&BTreeSet<u64>>, budget: &mut Budget) {
        let Ok(method) = Method::decode(payload) else { return };
        self.seen += 1;
        if method.size == 0 || wanted.is_some_and(|wanted| wanted.range(method.address..method.end()).next().is_none())
        {
            return;
        }
        self.insert(method, budget);
    }

    fn insert(&mut self, method: Method, budget: &mut Budget) {
        while let Some(start) = self.overlap(&method) {
            if let Some(gone) = self.by_address.remove(&start) {
                budget.give_back(gone.bytes());
            }
        }
        // If a method exceeds the memory limit, its frames have no name.
        if budget.take(method.bytes()) {
            self.by_address.insert(method.address, method);
        }
    }

    /// Returns the start of a known method that overlaps this method, or `None` if there is no such method.
    fn overlap(&self, method: &Method) -> Option<u64> {
        let (start, last) = self.by_address.range(..method.end()).next_back()?;
        (last.end() > method.address).then_some(*start)
    }

    /// Returns the method that contains a return address, or `None` if no known method contains the address. The
    /// address can be the first address after the code if the last instruction is a call.
    pub fn at(&self, return_address: u64) -> Option<&Method> {
        let inside = |address: u64| {
            let (_, method) = self.by_address.range(..=address).next_back()?;
            (address < method.end()).then_some(method)
        };
        inside(return_address.checked_sub(1)?).or_else(|| inside(return_address))
    }

    /// Returns the number of method events read.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the payload of a method event.
    pub(crate) fn payload(address: u64, size: u32, namespace: &str, name: &str) -> Vec<u8> {
        let mut payload = Vec::new();
        for number in [1, 2, address] {
            payload.extend(number.to_le_bytes());
        }
        for number in [size, 0x0600_0001, 0] {
            payload.extend(number.to_le_bytes());
        }
        for text in [namespace, name, "void ()"] {
            payload.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        }
        payload
    }

    /// Scenario: a method is looked up by addresses at its start and end.
    /// Guarantee: a return address after the last byte belongs to the method, and an address before the first byte does
    /// not.
    #[test]
    fn return_address_after_code_belongs_to_method() {
        let mut methods = Methods::default();
        methods.observe(&payload(100, 10, "A", "f"), None, &mut Budget::default());
        let name = |address| methods.at(address).map(Method::raw);
        assert_eq!(name(99), None);
        assert_eq!(name(100).as_deref(), Some("A.f"));
        assert_eq!(name(110).as_deref(), Some("A.f"));
        assert_eq!(name(111), None);
        assert_eq!(name(0), None);
    }

    /// Scenario: the code of a collected dynamic method is replaced by other code that overlaps two methods.
    /// Guarantee: the later method is found, and the earlier methods are not.
    #[test]
    fn later_code_replaces_earlier_code() {
        let mut methods = Methods::default();
        methods.observe(&payload(100, 10, "A", "f"), None, &mut Budget::default());
        methods.observe(&payload(110, 10, "A", "g"), None, &mut Budget::default());
        methods.observe(&payload(105, 10, "A", "h"), None, &mut Budget::default());
        let name = |address| methods.at(address).map(|method| method.name.clone());
        assert_eq!(name(104), None);
        assert_eq!(name(107).as_deref(), Some("h"));
        assert_eq!(name(118), None);
    }

    /// Scenario: a rundown is read with one wanted address.
    /// Guarantee: only the method with this address is retained, and all methods are counted.
    #[test]
    fn only_wanted_methods_of_rundown_are_kept() {
        let mut methods = Methods::default();
        let wanted = BTreeSet::from([205]);
        for address in [100, 200, 300] {
            methods.observe(&payload(address, 10, "A", "f"), Some(&wanted), &mut Budget::default());
        }
        assert_eq!((methods.by_address.len(), methods.seen()), (1, 3));
    }

    /// Scenario: a payload is truncated at every byte.
    /// Guarantee: the payload is refused until its name is complete.
    #[test]
    fn truncated_method_is_refused() {
        let whole = payload(100, 10, "A", "f");
        let needed = whole.len() - 2 * ("void ()".len() + 1);
        for length in 0..needed {
            assert!(Method::decode(&whole[..length]).is_err(), "{length}");
        }
        assert_eq!(
            Method::decode(&whole[..needed]).map(|method| method.raw()),
            Ok("A.f".to_owned())
        );
        let mut methods = Methods::default();
        methods.observe(&whole[..9], None, &mut Budget::default());
        assert_eq!((methods.seen(), methods.by_address.len()), (0, 0));
    }
}
