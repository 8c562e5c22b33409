//! Calls to a KMS plugin over its Unix socket.

use std::time::Duration;

use data_encoding::HEXLOWER;
use http::uri::PathAndQuery;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::messages::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, EncryptedObject, StatusRequest, StatusResponse,
};
use crate::ciphers::random;

pub struct Plugin {
    channel: Channel,
    timeout: Duration,
}

impl Plugin {
    /// Connects on first use, and again after the plugin was restarted.
    pub fn new(endpoint: &str, timeout: Duration) -> Result<Self, String> {
        let endpoint = Endpoint::from_shared(endpoint.to_owned()).map_err(|error| error.to_string())?;
        Ok(Self { channel: endpoint.connect_timeout(timeout).connect_lazy(), timeout })
    }

    pub async fn status(&self) -> Result<StatusResponse, String> {
        self.call("/v2.KeyManagementService/Status", StatusRequest {}).await
    }

    pub async fn encrypt(&self, plaintext: Vec<u8>) -> Result<EncryptResponse, String> {
        self.call("/v2.KeyManagementService/Encrypt", EncryptRequest { plaintext, uid: uid()? }).await
    }

    pub async fn decrypt(&self, object: &EncryptedObject) -> Result<Vec<u8>, String> {
        let request = DecryptRequest {
            ciphertext: object.encrypted_dek_source.clone(),
            uid: uid()?,
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        };
        let response: DecryptResponse = self.call("/v2.KeyManagementService/Decrypt", request).await?;
        Ok(response.plaintext)
    }

    async fn call<M, R>(&self, path: &'static str, message: M) -> Result<R, String>
    where
        M: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        let method = path.rsplit('/').next().unwrap_or_default();
        let call = async {
            let mut grpc = Grpc::new(self.channel.clone());
            grpc.ready().await.map_err(|error| error.to_string())?;
            let codec = ProstCodec::<M, R>::default();
            let answer = grpc.unary(Request::new(message), PathAndQuery::from_static(path), codec).await;
            answer
                .map(tonic::Response::into_inner)
                .map_err(|status| format!("{:?}: {}", status.code(), status.message()))
        };
        match tokio::time::timeout(self.timeout, call).await {
            Ok(result) => result.map_err(|error| format!("{method} failed: {error}")),
            Err(_) => Err(format!("{method}: no answer within {:?}", self.timeout)),
        }
    }
}

/// Identifies a call in the logs of the plugin.
fn uid() -> Result<String, String> {
    let bytes: [u8; 16] = random().map_err(|error| error.to_string())?;
    Ok(HEXLOWER.encode(&bytes))
}
