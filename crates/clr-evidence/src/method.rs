//! Methods by address: what a frame of a stack is called.
//!
//! A runtime names the methods that it has compiled at the end of a session (rundown: `MethodDCEndVerbose`, 144), and
//! those that it compiles meanwhile where the session asks for it (`MethodLoadVerbose`, 143). Both have one layout:
//!
//! ```text
//! u64 MethodID, u64 ModuleID, u64 address, u32 size, u32 token, u32 flags, utf16z namespace, name, signature, ...
//! ```
//!
//! Of a rundown only the methods are kept that a stack has an address of: a few hundred out of some ten thousand.

use std::collections::{BTreeMap, BTreeSet};

use crate::budget::Budget;
use crate::budget::shown_bytes;

/// The provider of the rundown at the end of a session.
pub const RUNDOWN_PROVIDER: &str = "Microsoft-Windows-DotNETRuntimeRundown";
/// `MethodDCEndVerbose`, of [`RUNDOWN_PROVIDER`].
pub const METHOD_DC_END_VERBOSE: u32 = 144;
/// `MethodLoadVerbose`, of the runtime's provider. The rundown at the start of a session has the same number.
pub const METHOD_LOAD_VERBOSE: u32 = 143;

/// Bytes of a method beside its names: here, and its frame.
const METHOD_BYTES: usize = 256;
/// Characters of a namespace or of a name that are kept.
pub const MAX_NAME_CHARS: usize = 1024;

/// A method as an event describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// Where its code begins.
    pub address: u64,
    /// How long that is.
    pub size: u32,
    /// Which module it is of, in the process.
    pub module: u64,
    /// Its token in the module's metadata; 0 for a dynamic one.
    pub token: u32,
    /// The full name of its type: `Shop.Repository`1[System.Int32]`; `dynamicClass` for a dynamic one.
    pub namespace: String,
    /// Its own name.
    pub name: String,
}

/// Why a payload is no method, or no module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} is cut short")]
pub struct NoMethod {
    /// The first field that is not whole.
    pub field: &'static str,
}

impl Method {
    /// Reads the payload of a verbose method event. The fields after the name are not needed.
    ///
    /// # Errors
    /// When it is too short.
    pub fn decode(payload: &[u8]) -> Result<Self, NoMethod> {
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

    /// The first address behind it.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size.into())
    }

    /// Type and name as the runtime writes them.
    pub fn raw(&self) -> String {
        if self.namespace.is_empty() {
            return self.name.clone();
        }
        format!("{}.{}", self.namespace, self.name)
    }

    /// With its two names in reports.
    fn bytes(&self) -> usize {
        let names = self.namespace.len() + self.name.len();
        METHOD_BYTES + names + 2 * shown_bytes(names)
    }
}

pub(crate) fn number<const N: usize>(rest: &mut &[u8], field: &'static str) -> Result<u64, NoMethod> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(NoMethod { field })?;
    *rest = tail;
    Ok(head.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

pub(crate) fn text(rest: &mut &[u8], field: &'static str) -> Result<String, NoMethod> {
    let unit = |pair: &[u8]| pair.iter().rev().fold(0, |value, byte| value << 8 | u16::from(*byte));
    let length = rest
        .chunks_exact(2)
        .position(|pair| pair == [0, 0])
        .ok_or(NoMethod { field })?;
    let (head, tail) = rest.split_at_checked(length * 2 + 2).ok_or(NoMethod { field })?;
    *rest = tail;
    let units = head.chunks_exact(2).take(length).map(unit);
    Ok(char::decode_utf16(units)
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
        .take(MAX_NAME_CHARS)
        .collect())
}

/// The methods that are known, by address.
#[derive(Debug, Default)]
pub struct Methods {
    /// By their first address; they do not overlap.
    by_address: BTreeMap<u64, Method>,
    seen: u64,
}

impl Methods {
    /// Takes a verbose method event in. With `wanted`, only a method that has one of these addresses is kept. Code
    /// may take the place of other code: what comes later holds.
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
        // Frames in one without a place have no name.
        if budget.take(method.bytes()) {
            self.by_address.insert(method.address, method);
        }
    }

    /// The start of a known method that lies in part where this one is.
    fn overlap(&self, method: &Method) -> Option<u64> {
        let (start, last) = self.by_address.range(..method.end()).next_back()?;
        (last.end() > method.address).then_some(*start)
    }

    /// The method that a return address is in: it may be the first one behind a call at the very end.
    pub fn at(&self, return_address: u64) -> Option<&Method> {
        let inside = |address: u64| {
            let (_, method) = self.by_address.range(..=address).next_back()?;
            (address < method.end()).then_some(method)
        };
        inside(return_address.checked_sub(1)?).or_else(|| inside(return_address))
    }

    /// Method events that were read.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The payload of a method.
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

    /// Scenario: a method, asked for by the addresses around it.
    /// Guarantee: a return address behind its last byte is its own, one before its first is not.
    #[test]
    fn a_return_address_may_be_the_first_behind_the_code() {
        let mut methods = Methods::default();
        methods.observe(&payload(100, 10, "A", "f"), None, &mut Budget::default());
        let name = |address| methods.at(address).map(Method::raw);
        assert_eq!(name(99), None);
        assert_eq!(name(100).as_deref(), Some("A.f"));
        assert_eq!(name(110).as_deref(), Some("A.f"));
        assert_eq!(name(111), None);
        assert_eq!(name(0), None);
    }

    /// Scenario: code of a collected dynamic method gives way to other code that overlaps two methods.
    /// Guarantee: the later one holds, and nothing is left of the others.
    #[test]
    fn later_code_takes_the_place_of_earlier() {
        let mut methods = Methods::default();
        methods.observe(&payload(100, 10, "A", "f"), None, &mut Budget::default());
        methods.observe(&payload(110, 10, "A", "g"), None, &mut Budget::default());
        methods.observe(&payload(105, 10, "A", "h"), None, &mut Budget::default());
        let name = |address| methods.at(address).map(|method| method.name.clone());
        assert_eq!(name(104), None);
        assert_eq!(name(107).as_deref(), Some("h"));
        assert_eq!(name(118), None);
    }

    /// Scenario: a rundown, with one address that is wanted.
    /// Guarantee: only its method is kept, and all are counted.
    #[test]
    fn a_rundown_is_kept_as_far_as_it_is_wanted() {
        let mut methods = Methods::default();
        let wanted = BTreeSet::from([205]);
        for address in [100, 200, 300] {
            methods.observe(&payload(address, 10, "A", "f"), Some(&wanted), &mut Budget::default());
        }
        assert_eq!((methods.by_address.len(), methods.seen()), (1, 3));
    }

    /// Scenario: the payload cut at every byte.
    /// Guarantee: it is refused until its name is whole.
    #[test]
    fn a_payload_that_is_cut_is_refused() {
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
