//! Which stacks are one site: the same own method, reached through the same own methods.
//!
//! Between them the framework's frames differ from call to call: what the JIT has inlined by then, whether an `await`
//! went on at once, which of two ways through a pipeline was taken. A person who looks for code wants one line for
//! all of these.

use crate::name::Frame;

/// What stacks of one site have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SiteKey(Vec<String>);

fn is_own(frame: &&Frame) -> bool {
    !frame.is_framework && !frame.is_unknown()
}

impl SiteKey {
    /// Of a stack, innermost frame first.
    pub(crate) fn of(frames: &[Frame]) -> Self {
        let mut own = frames.iter().filter(is_own);
        let Some(site) = own.next() else {
            return Self(frames.iter().map(|frame| frame.raw.clone()).collect());
        };
        // Parts of one method (a lambda and its state machine) are there or inlined into each other.
        let mut key = vec![site.raw.clone()];
        let mut before = site.name.as_str();
        for frame in own {
            if frame.name != before {
                key.push(frame.name.clone());
                before = &frame.name;
            }
        }
        Self(key)
    }
}

/// The frame that a person looks for: the nearest of own code, else the nearest with a name.
pub(crate) fn site(frames: &[Frame]) -> Option<&Frame> {
    let own = frames.iter().find(is_own);
    own.or_else(|| frames.iter().find(|frame| !frame.is_unknown()))
}

/// The stack of a site that stands for the others: the one with the greatest weight.
#[derive(Debug, Default)]
pub(crate) struct Typical {
    frames: Vec<Frame>,
    weight: Option<u64>,
}

impl Typical {
    /// Takes a stack in.
    pub(crate) fn see(&mut self, frames: Vec<Frame>, weight: u64) {
        if self.weight.is_none_or(|known| weight > known) {
            (self.frames, self.weight) = (frames, Some(weight));
        }
    }

    pub(crate) fn into_frames(self) -> Vec<Frame> {
        self.frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(frames: &[(&str, &str)]) -> SiteKey {
        let frames: Vec<Frame> = frames.iter().map(|(of, name)| Frame::of(of, name)).collect();
        SiteKey::of(&frames)
    }

    /// Scenario: an endpoint behind a pipeline of the framework and a middleware, as the JIT had it at different times;
    /// another endpoint; the same helper called by two methods.
    /// Guarantee: the first are one site, the others are sites of their own.
    #[test]
    fn what_the_framework_does_between_makes_no_site() {
        let endpoint = ("Program+<>c", "<<Main>$>b__0_3");
        let middleware = ("Program+<>c__DisplayClass0_0+<<<Main>$>b__0>d", "MoveNext");
        let whole = key(&[
            endpoint,
            ("Microsoft.AspNetCore.Routing.EndpointMiddleware", "Invoke"),
            middleware,
            ("System.Runtime.CompilerServices.AsyncMethodBuilderCore", "Start"),
            ("Program+<>c__DisplayClass0_0", "<<Main>$>b__0"),
        ]);
        let inlined = key(&[
            endpoint,
            ("Microsoft.AspNetCore.Routing.EndpointMiddleware", "Invoke"),
            middleware,
        ]);
        assert_eq!(whole, inlined);
        let other = key(&[("Program+<>c", "<<Main>$>b__0_4"), middleware]);
        assert_ne!(whole, other);
        let helper = |caller| {
            key(&[
                ("Shop.Buffers", "Rent"),
                ("Shop.Orders", caller),
                ("Shop.Program", "Main"),
            ])
        };
        assert_ne!(helper("Parse"), helper("Lines"));
    }
}
