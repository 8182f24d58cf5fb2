//! Names that compilers make: state machines, closures, lambdas, types of one file.

/// Hexadecimal digits of SHA-256, which the C# compiler puts into the name of a type that only its file sees.
const FILE_DIGEST: usize = 64;

/// The `X` of `<X>d__7` and `<X>d`, and of `VB$StateMachine_7_X`: the method that a state machine was made of.
pub(super) fn state_machine(segment: &str) -> Option<String> {
    if let Some(rest) = segment.strip_prefix("VB$StateMachine_") {
        let (number, name) = rest.split_once('_')?;
        let name = name.split(['`', '<']).next().filter(|name| !name.is_empty())?;
        return number.parse::<u32>().ok().map(|_| name.to_owned());
    }
    let (inner, rest) = bracketed(segment)?;
    let rest = rest.split(['`', '<']).next().unwrap_or_default();
    let is_one = rest == "d"
        || rest
            .strip_prefix("d__")
            .is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()));
    // The dots of an explicit implementation.
    (is_one && !inner.is_empty()).then(|| inner.replace('-', "."))
}

/// The `X` of `X@12` and `X@12-3`, which F# has for a function within a function at line 12.
pub(super) fn fsharp_closure(segment: &str) -> Option<String> {
    let (name, place) = segment.rsplit_once('@')?;
    let place = place.split(['`', '<']).next()?;
    let is_place = !place.is_empty() && place.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    (is_place && !name.is_empty()).then(|| name.to_owned())
}

/// `Shop.X` of `Shop.<File>F0123...__X`: a type that only its file sees. The digits are those of the file's path.
pub(super) fn of_file(segment: &str) -> String {
    let find = || {
        let (namespace, own) = segment.split_at_checked(segment.find('<')?)?;
        let (_, rest) = bracketed(own)?;
        let (digest, name) = rest.strip_prefix('F')?.split_at_checked(FILE_DIGEST)?;
        let is_digest = digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let name = name.strip_prefix("__").filter(|name| is_digest && !name.is_empty())?;
        Some(format!("{namespace}{name}"))
    };
    find().unwrap_or_else(|| segment.to_owned())
}

/// `<X>Y` as X and Y; the brackets inside of X are counted.
pub(super) fn bracketed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_u32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some((text.get(1..at)?, text.get(at + 1..)?));
                }
            }
            _ if at == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The lambdas and local functions of a method have numbers from 0, which the compiler gives them in an order of its
/// own: `0_3` (after that of the method) and `3` are the fourth.
pub(super) fn lambda(number: &str) -> String {
    let end = number.find(|letter: char| !letter.is_ascii_digit() && letter != '_');
    let own = number.get(..end.unwrap_or(number.len())).unwrap_or_default();
    match own.rsplit('_').next().and_then(|own| own.parse::<u32>().ok()) {
        Some(before @ 1..) => format!("lambda {}", u64::from(before) + 1),
        _ => "lambda".to_owned(),
    }
}
