//! Classes of requests, by their paths: few and chosen, so that a path itself, which may hold secrets, is kept nowhere.

use std::sync::Arc;

use strict_yaml::pattern::Pattern;

/// Most classes: each is a series of its own.
pub const MAX_ROUTES: usize = 32;

/// A class of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its name, as metrics have it.
    pub name: Box<str>,
    /// Which paths it is for.
    pub path: Pattern,
}

/// The classes that requests are divided into; cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes(Option<Arc<[Route]>>);

impl Routes {
    /// These, at most [`MAX_ROUTES`]; more are left out.
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        let routes: Arc<[Route]> = routes.into_iter().take(MAX_ROUTES).collect();
        Self((!routes.is_empty()).then_some(routes))
    }

    /// There is none: paths are not asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// All of them.
    pub fn all(&self) -> &[Route] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The place of the first that a path belongs to; `None`: to none.
    pub fn class(&self, path: &str) -> Option<u8> {
        let place = self.all().iter().position(|route| route.path.fits(path))?;
        u8::try_from(place).ok()
    }

    /// The name of the class at that place.
    pub fn name(&self, place: u8) -> Option<&str> {
        self.all().get(usize::from(place)).map(|route| &*route.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: paths and patterns with and without stars.
    /// Guarantee: the first class that fits has the request; a path that fits none has no class.
    #[test]
    fn the_first_that_fits_is_its_class() {
        let route = |name: &str, path: &str| Route {
            name: name.into(),
            path: Pattern(path.to_owned()),
        };
        let routes = Routes::new([
            route("pay", "/orders/*/pay"),
            route("orders", "/orders*"),
            route("root", "/"),
            route("files", "*.png"),
        ]);
        let class = |path: &str| routes.class(path).and_then(|place| routes.name(place));
        assert_eq!(class("/orders/7/pay"), Some("pay"));
        assert_eq!(class("/orders/7/pays"), Some("orders"));
        assert_eq!(class("/orders"), Some("orders"));
        assert_eq!(class("/"), Some("root"));
        assert_eq!(class("/a/b.png"), Some("files"));
        assert_eq!((class("/x"), class("")), (None, None));
        assert!(Routes::default().is_empty() && Routes::new([]).is_empty() && !routes.is_empty());
        assert_eq!(Routes::new((0..40).map(|_| route("a", "b"))).all().len(), MAX_ROUTES);
    }
}
