//! The repositories of a registry.

use std::sync::Arc;

use bytes::Bytes;
use http::header::LINK;
use http::{Method, StatusCode};
use serde::Deserialize;

use super::remote::{PAGES_MAX, expect, next_page};
use super::{Call, Client, ClientError, address, resolve, text_of};

impl Client {
    /// Returns the names of all repositories, in order.
    pub async fn catalog(self: &Arc<Self>, host: &str) -> Result<Vec<String>, ClientError> {
        #[derive(Deserialize)]
        struct Page {
            repositories: Option<Vec<String>>,
        }
        let scheme = self.scheme(host).await?;
        let mut url = format!("{scheme}://{host}/v2/_catalog");
        let mut repositories = Vec::new();
        for _ in 0..PAGES_MAX {
            let what = format!("list the repositories of {host}");
            let base = address(&url)?;
            let call = Call {
                method: Method::GET,
                url,
                headers: Vec::new(),
                body: Bytes::new(),
                host,
                scope: "registry:catalog:*".to_owned(),
                what: what.clone(),
                may_repeat: true,
            };
            let answer = expect(self.send(call).await?, &what, &[StatusCode::OK]).await?;
            let next = answer.headers().get(LINK).and_then(|link| link.to_str().ok()).and_then(next_page);
            let page: Page = serde_json::from_slice(&text_of(answer).await)
                .map_err(|error| ClientError::Protocol { what, why: error.to_string() })?;
            repositories.extend(page.repositories.unwrap_or_default());
            match next {
                Some(next) => url = resolve(&base, &next),
                None => break,
            }
        }
        Ok(repositories)
    }
}
