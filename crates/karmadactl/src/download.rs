//! Downloads manifests.

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use cluster_client::{ClusterClient, Endpoint, RemoteConfig};
use http::{Request, Uri, header};

/// Maximum number of redirections.
const REDIRECTS_MAX: usize = 10;

pub fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Reads the text at a URL, without credentials.
pub async fn fetch(url: &str) -> anyhow::Result<String> {
    let mut at = url.to_owned();
    for _ in 0..=REDIRECTS_MAX {
        let uri: Uri = at.parse().with_context(|| format!("{at} is not a URL"))?;
        let client = ClusterClient::connect(Endpoint::Remote(config(&uri)?))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::get(path).header(header::ACCEPT, "*/*").body(Bytes::new())?;
        let response = client.raw(request).await.with_context(|| format!("cannot read {at}"))?;
        let status = response.status();
        if status.is_redirection() {
            let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            at = resolve(&uri, location.ok_or_else(|| anyhow!("{at} redirects to no location"))?)?;
            continue;
        }
        if !status.is_success() {
            bail!("unable to read URL {url:?}, server reported {status}, status code={}", status.as_u16());
        }
        return String::from_utf8(response.body().to_vec()).with_context(|| format!("{at} is not text"));
    }
    bail!("{url} redirects more than {REDIRECTS_MAX} times")
}

fn config(uri: &Uri) -> anyhow::Result<RemoteConfig> {
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        bail!("{uri} is not a URL: scheme and host are required");
    };
    Ok(RemoteConfig::new(format!("{scheme}://{authority}")))
}

/// Returns the URL a redirection leads to, which may be only a path.
fn resolve(from: &Uri, location: &str) -> anyhow::Result<String> {
    if is_url(location) {
        return Ok(location.to_owned());
    }
    let (Some(scheme), Some(authority)) = (from.scheme_str(), from.authority()) else { bail!("{from} is not a URL") };
    if !location.starts_with('/') {
        bail!("{from} redirects to {location}, which is neither a URL nor an absolute path");
    }
    Ok(format!("{scheme}://{authority}{location}"))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Answers each connection with the next response.
    async fn serve(responses: Vec<String>) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for response in responses {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await.unwrap();
                stream.write_all(response.as_bytes()).await.unwrap();
            }
        });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn redirections_are_followed_and_errors_reported() {
        let body = |text: &str| {
            format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}", text.len())
        };
        let moved = "HTTP/1.1 302 Found\r\nlocation: /b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned();
        let url = serve(vec![moved, body("kind: A")]).await;
        assert_eq!(fetch(&format!("{url}/a")).await.unwrap(), "kind: A");
        let gone = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned();
        let url = serve(vec![gone]).await;
        let error = fetch(&url).await.unwrap_err().to_string();
        assert!(error.contains("404"), "{error}");
    }
}
