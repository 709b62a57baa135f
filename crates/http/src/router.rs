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
    /// Said to a caller that comes with another method.
    pub hint: Option<&'static str>,
}

impl<T> Endpoint<T> {
    pub fn new(method: Method, pattern: &'static str, handler: T) -> Self {
        Endpoint { method, pattern, handler, hint: None }
    }

    /// The same, with a word for callers that come with another method.
    #[must_use]
    pub fn hinting(self, hint: Option<&'static str>) -> Self {
        Endpoint { hint, ..self }
    }
}

/// A table that cannot be served. Always a mistake in the program.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouterError {
    #[error("pattern {pattern} cannot be added: {reason}")]
    Pattern { pattern: &'static str, reason: matchit::InsertError },
    #[error("{method} {pattern} is listed twice")]
    Twice { method: Method, pattern: &'static str },
}

/// The table, ready to be looked up.
#[derive(Debug)]
pub struct Router<T> {
    endpoints: Vec<Endpoint<T>>,
    /// Pattern to its index in `paths`.
    tree: matchit::Router<usize>,
    paths: Vec<Path>,
}

/// The endpoints of one pattern.
#[derive(Debug)]
struct Path {
    /// Indices into `endpoints`.
    endpoints: Vec<usize>,
    /// The value of `Allow`: the methods of those endpoints, and HEAD where there is GET.
    allow: HeaderValue,
    hint: Option<&'static str>,
}

/// The segments of a path that stand for something, as they came.
#[derive(Debug)]
pub struct Params<'a>(matchit::Params<'a, 'a>);

impl<'a> Params<'a> {
    /// Still percent-encoded. `name` must be in the pattern.
    pub fn raw(&self, name: &str) -> &'a str {
        self.0.get(name).expect("a handler asks for the segments of its own pattern")
    }

    /// Decoded, or 400.
    pub fn decoded(&self, name: &str) -> Result<std::borrow::Cow<'a, str>, Problem> {
        decode_segment(name, self.raw(name))
    }
}

impl<T> Router<T> {
    pub fn new(endpoints: Vec<Endpoint<T>>) -> Result<Self, RouterError> {
        let mut tree = matchit::Router::new();
        let mut paths: Vec<(&'static str, Vec<usize>)> = Vec::new();
        for (index, Endpoint { method, pattern, .. }) in endpoints.iter().enumerate() {
            if let Some((_, known)) = paths.iter_mut().find(|(known, _)| known == pattern) {
                if known.iter().any(|&other| endpoints[other].method == *method) {
                    return Err(RouterError::Twice { method: method.clone(), pattern });
                }
                known.push(index);
            } else {
                tree.insert(*pattern, paths.len()).map_err(|reason| RouterError::Pattern { pattern, reason })?;
                paths.push((pattern, vec![index]));
            }
        }
        let paths = paths
            .into_iter()
            .map(|(_, indices)| Path {
                allow: allow(indices.iter().map(|&i| &endpoints[i].method)),
                hint: indices.iter().find_map(|&i| endpoints[i].hint),
                endpoints: indices,
            })
            .collect();
        Ok(Router { endpoints, tree, paths })
    }

    /// The endpoint for a request; 404 where nothing is served, 405 where another method is. HEAD goes where GET goes:
    /// `connection` leaves out the body.
    pub fn route<'a>(&'a self, method: &Method, uri: &'a Uri) -> Result<(&'a Endpoint<T>, Params<'a>), Problem> {
        let Ok(found) = self.tree.at(uri.path()) else { return Err(Problem::no_such_path()) };
        let path = &self.paths[*found.value];
        let wanted = |wanted: &Method| path.endpoints.iter().find(|&&index| self.endpoints[index].method == *wanted);
        let index = wanted(method).or_else(|| if *method == Method::HEAD { wanted(&Method::GET) } else { None });
        match index {
            Some(&index) => Ok((&self.endpoints[index], Params(found.params))),
            None => Err(Problem::wrong_method(method, path.allow.clone(), path.hint)),
        }
    }

    /// Every endpoint, in the order of the table.
    pub fn endpoints(&self) -> &[Endpoint<T>] {
        &self.endpoints
    }
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
    }
}
