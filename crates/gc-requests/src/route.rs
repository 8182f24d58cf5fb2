//! Classes of requests, by path or source. The classes are configured. Only the class of a path is kept, because a path
//! can contain secrets.

use std::sync::Arc;

use base::pattern::Pattern;

/// Maximum number of classes: 32 for paths, 8 for sources. Each class is a separate series.
pub const MAX_ROUTES: usize = 40;

/// A class of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Name in metrics.
    pub name: Box<str>,
    /// Pattern of the paths; `None` if the class is for activities of the source with this name.
    pub path: Option<Pattern>,
}

/// The classes of requests. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes(Option<Arc<[Route]>>);

impl Routes {
    /// Creates classes from `routes`. Only the first [`MAX_ROUTES`] routes are used.
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        let routes: Arc<[Route]> = routes.into_iter().take(MAX_ROUTES).collect();
        Self((!routes.is_empty()).then_some(routes))
    }

    /// Returns whether any class is for paths, so that the session must request paths.
    pub fn need_paths(&self) -> bool {
        self.all().iter().any(|route| route.path.is_some())
    }

    /// Returns the names of the sources whose activities count as requests.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        let sources = self.all().iter().filter(|route| route.path.is_none());
        sources.map(|route| &*route.name)
    }

    /// Returns the index of the first source for which `is` returns true, or `None` if there is no such source.
    pub fn source(&self, is: impl Fn(&str) -> bool) -> Option<u8> {
        let place = self
            .all()
            .iter()
            .position(|route| route.path.is_none() && is(&route.name))?;
        u8::try_from(place).ok()
    }

    /// Returns all classes.
    pub fn all(&self) -> &[Route] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Returns the index of the first class that matches a path, or `None` if no class matches.
    pub fn class(&self, path: &str) -> Option<u8> {
        let fits = |route: &Route| route.path.as_ref().is_some_and(|pattern| pattern.fits(path));
        let place = self.all().iter().position(fits)?;
        u8::try_from(place).ok()
    }

    /// Returns the name of the class at this index, or `None` if there is no such class.
    pub fn name(&self, place: u8) -> Option<&str> {
        self.all().get(usize::from(place)).map(|route| &*route.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: paths are classified by patterns with and without stars; one class is for a source; more classes than
    /// the maximum are passed.
    /// Guarantee: a path has the first class that matches; a path without a match has no class. Only a class for paths
    /// makes paths necessary, only a source is found by its name, and further classes are ignored.
    #[test]
    fn first_matching_class_is_used() {
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
