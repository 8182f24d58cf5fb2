//! Classes of requests, by their paths or their sources: few and chosen, so that a path itself, which may hold
//! secrets, is kept nowhere.

use std::sync::Arc;

use base::pattern::Pattern;

/// Most classes: each is a series of its own. 32 of paths, 8 of sources.
pub const MAX_ROUTES: usize = 40;

/// A class of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its name, as metrics have it.
    pub name: Box<str>,
    /// Which paths it is for; `None`: it is of the activities of the source with this name.
    pub path: Option<Pattern>,
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

    /// One is of paths: they are asked for.
    pub fn need_paths(&self) -> bool {
        self.all().iter().any(|route| route.path.is_some())
    }

    /// The sources whose activities count.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        let sources = self.all().iter().filter(|route| route.path.is_none());
        sources.map(|route| &*route.name)
    }

    /// The place of a source; `None`: its activities do not count.
    pub fn source(&self, is: impl Fn(&str) -> bool) -> Option<u8> {
        let place = self
            .all()
            .iter()
            .position(|route| route.path.is_none() && is(&route.name))?;
        u8::try_from(place).ok()
    }

    /// All of them.
    pub fn all(&self) -> &[Route] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The place of the first that a path belongs to; `None`: to none.
    pub fn class(&self, path: &str) -> Option<u8> {
        let fits = |route: &Route| route.path.as_ref().is_some_and(|pattern| pattern.fits(path));
        let place = self.all().iter().position(fits)?;
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
            path: Some(Pattern(path.to_owned())),
        };
        let source = Route {
            name: "Acme.Jobs".into(),
            path: None,
        };
        let routes = Routes::new([
            source.clone(),
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
        assert!(!Routes::default().need_paths() && !Routes::new([source]).need_paths() && routes.need_paths());
        assert_eq!(Routes::new((0..50).map(|_| route("a", "b"))).all().len(), MAX_ROUTES);
        assert_eq!(routes.source(|name| name == "Acme.Jobs"), Some(0));
        assert_eq!(routes.source(|name| name == "pay"), None);
    }
}
