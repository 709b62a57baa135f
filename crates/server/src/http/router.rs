//! Which endpoint serves a request: a table of path patterns and methods. Path segments are handed on as they came,
//! still percent-encoded, so that an encoded `/` never splits one. The type of an endpoint decides what it does.

use http::header::HeaderValue;
use http::{Method, Uri};

use super::problem::Problem;
use super::query::decode_segment;

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Endpoint<T> {
    pub method: Method,
    /// `/l/{id}/borrow`. A trailing slash is another path: list both where both work.
    pub pattern: &'static str,
    pub handler: T,
}

impl<T> Endpoint<T> {
    pub fn new(method: Method, pattern: &'static str, handler: T) -> Self {
        Endpoint { method, pattern, handler }
    }
}

/// A table that cannot be served. Always a mistake in the program.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouterError {
    #[error("pattern {pattern} cannot be served: {reason}")]
    Pattern { pattern: &'static str, reason: &'static str },
    #[error("{method} {pattern} is listed twice")]
    Twice { method: Method, pattern: &'static str },
}

/// The most segments that a pattern has.
const SEGMENTS_MAX: usize = 6;

/// The table, ready to be looked up. A path is split once, and compared with the patterns of as many segments: there are
/// few of those, and most differ in the first one.
#[derive(Debug)]
pub struct Router<T> {
    endpoints: Vec<Endpoint<T>>,
    /// By their number of segments; among those, the ones with a literal where others have a parameter come first.
    paths: [Vec<Path>; SEGMENTS_MAX],
}

/// The endpoints of one pattern.
#[derive(Debug)]
struct Path {
    pattern: &'static str,
    segments: Vec<Segment>,
    /// Indices into `endpoints`.
    endpoints: Vec<usize>,
    /// The value of `Allow`: the methods of those endpoints, and HEAD where there is GET.
    allow: HeaderValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    Literal(&'static str),
    /// Anything but nothing.
    Parameter(&'static str),
}

/// The segments of a path that stand for something, as they came.
#[derive(Debug)]
pub struct Params<'a> {
    segments: &'a [Segment],
    came: [&'a str; SEGMENTS_MAX],
}

impl<'a> Params<'a> {
    /// Still percent-encoded. `name` must be in the pattern.
    pub fn raw(&self, name: &str) -> &'a str {
        let is_it = |segment: &Segment| matches!(segment, Segment::Parameter(known) if *known == name);
        let nth = self.segments.iter().position(is_it);
        self.came[nth.expect("a handler asks for the segments of its own pattern")]
    }

    /// Decoded, or 400.
    pub fn decoded(&self, name: &str) -> Result<std::borrow::Cow<'a, str>, Problem> {
        decode_segment(name, self.raw(name))
    }
}

impl<T> Router<T> {
    pub fn new(endpoints: Vec<Endpoint<T>>) -> Result<Self, RouterError> {
        let mut paths: [Vec<Path>; SEGMENTS_MAX] = Default::default();
        for (index, Endpoint { method, pattern, .. }) in endpoints.iter().enumerate() {
            let segments = segments_of(pattern)?;
            let alike = &mut paths[segments.len() - 1];
            if let Some(known) = alike.iter_mut().find(|known| known.pattern == *pattern) {
                if known.endpoints.iter().any(|&other| endpoints[other].method == *method) {
                    return Err(RouterError::Twice { method: method.clone(), pattern });
                }
                known.endpoints.push(index);
            } else {
                if alike.iter().any(|known| is_same_shape(&known.segments, &segments)) {
                    return Err(RouterError::Pattern { pattern, reason: "another one serves the same paths" });
                }
                let (endpoints, allow) = (vec![index], HeaderValue::from_static(""));
                alike.push(Path { pattern, segments, endpoints, allow });
            }
        }
        for alike in &mut paths {
            let parameters = |segments: &[Segment]| -> Vec<bool> {
                segments.iter().map(|segment| matches!(segment, Segment::Parameter(_))).collect()
            };
            alike.sort_by_cached_key(|path| parameters(&path.segments));
            for path in alike {
                path.allow = allow(path.endpoints.iter().map(|&index| &endpoints[index].method));
            }
        }
        Ok(Router { endpoints, paths })
    }

    /// The endpoint for a request; 404 where nothing is served, 405 where another method is. HEAD goes where GET goes:
    /// hyper leaves out the body.
    pub fn route<'a>(&'a self, method: &Method, uri: &'a Uri) -> Result<(&'a Endpoint<T>, Params<'a>), Problem> {
        let Some((path, params)) = self.find(uri.path()) else { return Err(Problem::no_such_path()) };
        let wanted = |wanted: &Method| path.endpoints.iter().find(|&&index| self.endpoints[index].method == *wanted);
        let index = wanted(method).or_else(|| if *method == Method::HEAD { wanted(&Method::GET) } else { None });
        match index {
            Some(&index) => Ok((&self.endpoints[index], params)),
            None => Err(Problem::wrong_method(method, path.allow.clone())),
        }
    }

    fn find<'a>(&'a self, path: &'a str) -> Option<(&'a Path, Params<'a>)> {
        let (mut came, mut len) = ([""; SEGMENTS_MAX], 0);
        for segment in path.strip_prefix('/')?.split('/') {
            *came.get_mut(len)? = segment;
            len += 1;
        }
        let serves = |path: &&Path| path.segments.iter().zip(&came).all(|(segment, came)| segment.matches(came));
        let found = self.paths[len - 1].iter().find(serves)?;
        Some((found, Params { segments: &found.segments, came }))
    }

    /// Every endpoint, in the order of the table.
    pub fn endpoints(&self) -> &[Endpoint<T>] {
        &self.endpoints
    }
}

impl Segment {
    fn matches(self, came: &str) -> bool {
        match self {
            Segment::Literal(literal) => literal == came,
            Segment::Parameter(_) => !came.is_empty(),
        }
    }
}

fn segments_of(pattern: &'static str) -> Result<Vec<Segment>, RouterError> {
    let wrong = |reason| RouterError::Pattern { pattern, reason };
    let path = pattern.strip_prefix('/').ok_or(wrong("it does not begin with a slash"))?;
    let parameter = |segment: &'static str| segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let segments: Vec<_> =
        path.split('/').map(|it| parameter(it).map_or(Segment::Literal(it), Segment::Parameter)).collect();
    let is_plain = |text: &str| !text.contains(['{', '}', '*']);
    let is_fit = |segment: &Segment| match *segment {
        Segment::Literal(text) => is_plain(text),
        Segment::Parameter(name) => is_plain(name) && !name.is_empty(),
    };
    if segments.len() > SEGMENTS_MAX {
        return Err(wrong("it has too many segments"));
    }
    if segments.iter().all(is_fit) { Ok(segments) } else { Err(wrong("a segment is a literal or a {parameter}")) }
}

/// Returns whether both serve the same paths.
fn is_same_shape(one: &[Segment], other: &[Segment]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|pair| match pair {
            (Segment::Literal(one), Segment::Literal(other)) => one == other,
            (Segment::Parameter(_), Segment::Parameter(_)) => true,
            _ => false,
        })
}

fn allow<'a>(methods: impl Iterator<Item = &'a Method>) -> HeaderValue {
    let mut names: Vec<&str> = Vec::new();
    for method in methods {
        names.push(method.as_str());
        if *method == Method::GET {
            names.push("HEAD");
        }
    }
    // HEAD may be listed itself.
    names.sort_unstable();
    names.dedup();
    HeaderValue::from_str(&names.join(", ")).expect("method names are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Router<&'static str> {
        Router::new(vec![
            Endpoint::new(Method::GET, "/l/{id}", "show"),
            Endpoint::new(Method::PUT, "/l/{id}", "put"),
            Endpoint::new(Method::POST, "/l/{id}/borrow", "borrow"),
            Endpoint::new(Method::GET, "/l/{id}/leases/{lease}", "lease"),
            Endpoint::new(Method::GET, "/v1/claims", "list"),
            Endpoint::new(Method::GET, "/v1/claims/", "list"),
            Endpoint::new(Method::GET, "/v1/claims/{id}", "claim"),
            Endpoint::new(Method::GET, "/v1/claims/{id}/", "claim"),
            Endpoint::new(Method::GET, "/", "dashboard"),
        ])
        .unwrap()
    }

    #[test]
    fn requests_find_their_endpoint() {
        let router = table();
        for (method, uri, expected, id) in [
            (Method::GET, "/l/7", "show", Some("7")),
            (Method::HEAD, "/l/7", "show", Some("7")),
            (Method::PUT, "/l/7?x=1", "put", Some("7")),
            (Method::POST, "/l/a%2Fb/borrow", "borrow", Some("a%2Fb")),
            (Method::GET, "/l/7/leases/9", "lease", Some("7")),
            (Method::GET, "/v1/claims", "list", None),
            (Method::GET, "/v1/claims/?status=active", "list", None),
            (Method::GET, "/v1/claims/5", "claim", Some("5")),
            (Method::GET, "/v1/claims/5/", "claim", Some("5")),
            (Method::GET, "http://example.org/", "dashboard", None),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let (endpoint, params) = router.route(&method, &uri).unwrap();
            assert_eq!((endpoint.handler, id.map(|_| params.raw("id"))), (expected, id), "{method} {uri}");
        }
    }

    #[test]
    fn other_paths_are_404_and_other_methods_405() {
        let router = table();
        for (method, uri, status, allow) in [
            (Method::GET, "/l", 404, None),
            (Method::GET, "/l/", 404, None),
            (Method::GET, "/l/7/", 404, None),
            (Method::GET, "/L/7", 404, None),
            (Method::GET, "/l/7/borrow/9", 404, None),
            (Method::OPTIONS, "*", 404, None),
            (Method::DELETE, "/l/7", 405, Some("GET, HEAD, PUT")),
            (Method::HEAD, "/l/7/borrow", 405, Some("POST")),
            (Method::OPTIONS, "/v1/claims", 405, Some("GET, HEAD")),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let problem = router.route(&method, &uri).unwrap_err();
            let response = problem.to_response(&super::super::RequestId::of(&http::HeaderMap::new()));
            let allowed = response.headers().get("allow").map(|value| value.to_str().unwrap());
            assert_eq!((response.status().as_u16(), allowed), (status, allow), "{method} {uri}");
        }
    }

    #[test]
    fn segments_are_decoded_on_demand() {
        let router = table();
        let uri: Uri = "/l/a%2Fb".parse().unwrap();
        assert_eq!(router.route(&Method::GET, &uri).unwrap().1.decoded("id").unwrap(), "a/b");
        let uri: Uri = "/l/a%2".parse().unwrap();
        assert_eq!(
            router.route(&Method::GET, &uri).unwrap().1.decoded("id").unwrap_err().reason,
            "id in the path has a % that is not followed by two hex digits"
        );
    }

    #[test]
    fn a_table_with_a_mistake_is_refused() {
        let twice = Router::new(vec![Endpoint::new(Method::GET, "/a", 1), Endpoint::new(Method::GET, "/a", 2)]);
        assert_eq!(twice.unwrap_err().to_string(), "GET /a is listed twice");
        let conflict = Router::new(vec![Endpoint::new(Method::GET, "/{a}", 1), Endpoint::new(Method::GET, "/{b}", 2)]);
        assert!(matches!(conflict, Err(RouterError::Pattern { pattern: "/{b}", .. })));
        for pattern in ["a", "", "/{}", "/a{b}", "/{*rest}", "/{a", "/a/b/c/d/e/f/g"] {
            assert!(matches!(
                Router::new(vec![Endpoint::new(Method::GET, pattern, 1)]),
                Err(RouterError::Pattern { .. })
            ));
        }
    }

    #[test]
    fn a_literal_comes_before_a_parameter_whatever_the_order_of_the_table() {
        let patterns = ["/{a}/{b}", "/{a}/y", "/x/{b}", "/x/y", "/{a}/y/z"];
        let table = patterns.into_iter().map(|pattern| Endpoint::new(Method::GET, pattern, pattern));
        for table in [table.clone().collect::<Vec<_>>(), table.rev().collect()] {
            let router = Router::new(table).unwrap();
            let paths = ["/x/y", "/x/z", "/z/y", "/z/z", "/x/y/z", "/x", "/x/", "//y", "/", "/a/b/c/d/e/f/g/h"];
            let found = paths.map(|path| router.find(path).map(|(path, _)| path.pattern));
            let expected = [Some("/x/y"), Some("/x/{b}"), Some("/{a}/y"), Some("/{a}/{b}"), Some("/{a}/y/z")];
            assert_eq!(found[..5], expected);
            assert_eq!(found[5..], [None; 5]);
        }
    }
}
