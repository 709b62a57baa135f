//! Questions to the provider over HTTP: bounded in size and time, over connections of their own, and never redirected,
//! as only the configuration says where keys come from.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Longest answer read, in bytes.
const ANSWER_MAX: usize = 256 * 1024;

/// From the question to the end of the answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("{0} is not an address that can be asked")]
    NotAUrl(String),
    #[error("{url} could not be reached: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("{url} did not answer within 5 s")]
    TimedOut { url: String },
    #[error("{url} answered {status}")]
    Status { url: String, status: u16 },
    #[error("{url} answered with more than 256 KiB, or broke off")]
    Body { url: String },
    #[error("{url} answered with something else than expected: {reason}")]
    Content { url: String, reason: &'static str },
}

/// A form to post.
#[derive(Clone, Debug)]
pub struct Form {
    /// `application/x-www-form-urlencoded`
    pub body: String,
    /// The value of `Authorization`, if one is needed.
    pub authorization: Option<HeaderValue>,
}

pub type Fetched<'a> = Pin<Box<dyn Future<Output = Result<Bytes, FetchError>> + Send + 'a>>;

/// How the provider is asked. The body of a 200 comes back.
pub trait Fetch: Send + Sync + fmt::Debug {
    fn get<'a>(&'a self, url: &'a str) -> Fetched<'a>;
    fn post<'a>(&'a self, url: &'a str, form: Form) -> Fetched<'a>;
}

/// Over the network, with the certificates this machine trusts (`SSL_CERT_FILE` names others).
#[derive(Debug)]
pub struct HttpFetch {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl HttpFetch {
    /// Fails when this machine's list of trusted certificates cannot be read.
    pub fn new() -> std::io::Result<Self> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(TIMEOUT));
        let https = HttpsConnectorBuilder::new()
            .with_native_roots()?
            // Plain HTTP only where the settings allowed such an address.
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(20))
            .pool_timer(hyper_util::rt::TokioTimer::new())
            .pool_max_idle_per_host(8)
            .build(https);
        Ok(HttpFetch { client })
    }

    async fn ask(&self, url: &str, request: Request<Full<Bytes>>) -> Result<Bytes, FetchError> {
        let shown = || url.to_owned();
        let answer = async {
            let response = self
                .client
                .request(request)
                .await
                .map_err(|error| FetchError::Unreachable { url: shown(), reason: reason_of(&error) })?;
            let status = response.status().as_u16();
            if status != 200 {
                return Err(FetchError::Status { url: shown(), status });
            }
            let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
            body.map(http_body_util::Collected::to_bytes).map_err(|_| FetchError::Body { url: shown() })
        };
        tokio::time::timeout(TIMEOUT, answer).await.unwrap_or_else(|_| Err(FetchError::TimedOut { url: shown() }))
    }
}

/// The innermost cause says it best: `connection refused`, not `client error (Connect)`.
fn reason_of(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

impl Fetch for HttpFetch {
    fn get<'a>(&'a self, url: &'a str) -> Fetched<'a> {
        Box::pin(async move {
            let uri: Uri = url.parse().map_err(|_| FetchError::NotAUrl(url.to_owned()))?;
            let request = Request::builder()
                .uri(uri)
                .header(ACCEPT, "application/json")
                .body(Full::default())
                .map_err(|_| FetchError::NotAUrl(url.to_owned()))?;
            self.ask(url, request).await
        })
    }

    fn post<'a>(&'a self, url: &'a str, form: Form) -> Fetched<'a> {
        Box::pin(async move {
            let uri: Uri = url.parse().map_err(|_| FetchError::NotAUrl(url.to_owned()))?;
            let mut request = Request::builder()
                .method(Method::POST)
                .uri(uri)
                .header(ACCEPT, "application/json")
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(Full::from(form.body))
                .map_err(|_| FetchError::NotAUrl(url.to_owned()))?;
            if let Some(authorization) = form.authorization {
                request.headers_mut().insert(AUTHORIZATION, authorization);
            }
            self.ask(url, request).await
        })
    }
}
