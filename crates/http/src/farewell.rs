//! Answers to peers that are not let in: one sentence, and the end of the connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// How long a peer may take to read why.
const PATIENCE: Duration = Duration::from_secs(1);

/// [`Problem::too_many_connections`](super::Problem::too_many_connections) for peers whose request is not read.
pub(super) const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/json\r\n\
    cache-control: no-store\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    content-length: 56\r\n\r\n\
    {\"error\": \"too many connections\", \"code\": \"overloaded\"}\n";

pub(super) const SPEAKS_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: application/json\r\n\
    cache-control: no-store\r\n\
    connection: close\r\n\
    content-length: 80\r\n\r\n\
    {\"error\": \"this port speaks HTTPS: use an https:// URL\", \"code\": \"bad_request\"}\n";

/// Says `answer` and closes. A peer that has its answer already gets an empty one.
pub(super) async fn tell(stream: impl AsyncRead + AsyncWrite + Unpin, answer: &'static [u8]) {
    let _ = timeout(PATIENCE, tell_and_close(stream, answer)).await;
}

/// Reads what the peer sends meanwhile: closing with unread bytes would reset the connection, and the peer might never
/// see the answer.
async fn tell_and_close(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &'static [u8]) -> io::Result<()> {
    stream.write_all(answer).await?;
    stream.shutdown().await?;
    let mut sink = [0; 1024];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Problem;

    #[test]
    fn each_is_one_complete_response() {
        let tls = Problem::bad_request("this port speaks HTTPS: use an https:// URL");
        for (answer, problem) in [(TOO_MANY, Problem::too_many_connections()), (SPEAKS_TLS, tls)] {
            let text = std::str::from_utf8(answer).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("content-length: {}", body.len())), "{head} {}", body.len());
            assert!(body.ends_with("}\n"), "{body}");
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert!(head.contains(&problem.status.to_string()), "{head}");
            assert_eq!(body, json!({"error": problem.reason, "code": problem.code}));
        }
    }
}
