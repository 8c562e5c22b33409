//! Follows the file of an `EncryptionConfiguration` and the KMS plugins it names.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::EncryptionConfiguration;
use crate::rewrite::Rewriter;
use crate::transformer::Encryption;

/// Interval for checking whether the file changed.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Calls the KMS plugins at their intervals until stopped.
pub fn follow_plugins(encryption: &Encryption, stop: &CancellationToken) {
    for plugin in encryption.plugins() {
        tokio::spawn(plugin.follow(stop.clone()));
    }
}

/// Applies changes of the file until stopped. An invalid file changes nothing.
pub async fn follow_file(path: PathBuf, encryption: Arc<Encryption>, rewriter: Arc<Rewriter>, stop: CancellationToken) {
    let mut seen = tokio::fs::read_to_string(&path).await.unwrap_or_default();
    let mut plugins = stop.child_token();
    follow_plugins(&encryption, &plugins);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
        let text = match tokio::fs::read_to_string(&path).await {
            Ok(text) if text != seen => text,
            _ => continue,
        };
        seen = text;
        match load(&seen).await {
            Ok(loaded) => {
                encryption.replace(loaded);
                // Plugins that are no longer used are not called any more.
                std::mem::replace(&mut plugins, stop.child_token()).cancel();
                follow_plugins(&encryption, &plugins);
                tracing::info!(path = %path.display(), "the encryption configuration was reloaded");
                rewriter.request();
            }
            Err(error) => {
                tracing::error!(path = %path.display(), error, "the encryption configuration was not reloaded");
            }
        }
    }
}

/// A configuration whose plugins answer.
async fn load(text: &str) -> Result<Encryption, String> {
    let config = EncryptionConfiguration::parse(text).map_err(|error| error.to_string())?;
    let encryption = Encryption::new(&config)?;
    encryption.check_plugins().await?;
    Ok(encryption)
}
