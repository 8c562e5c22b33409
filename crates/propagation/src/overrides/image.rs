//! Image references taken apart, changed and put together again, by the grammar of Docker's distribution project.

use std::sync::LazyLock;

use api::policy::ImageOverrider;
use regex::Regex;

/// Longer repository names are refused.
const REPOSITORY_CHARACTERS_MAX: usize = 255;

const TAG: &str = r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}";
const DIGEST: &str = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*[:][0-9A-Fa-f]{32,}";
const HOST: &str = r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?";
const PATH: &str = r"[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*)*";

static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = format!("^((?:(?P<host>{HOST})/)?(?P<path>{PATH}))(?::(?P<tag>{TAG}))?(?:@(?P<digest>{DIGEST}))?$");
    Regex::new(&pattern).expect("the pattern is fixed and compiles")
});
static WHOLE_TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!("^{TAG}$")).expect("the pattern is fixed and compiles"));
static WHOLE_DIGEST: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!("^{DIGEST}$")).expect("the pattern is fixed and compiles"));

/// `registry.example:5000/team/app:v1` in its parts. Of a tag and a digest only one is kept, the tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub hostname: String,
    pub repository: String,
    pub tag: String,
    pub digest: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("repository name must have at least one component")]
    Empty,
    #[error("repository name must be lowercase")]
    Uppercase,
    #[error("invalid reference format")]
    Format,
    #[error("repository name must not be more than {REPOSITORY_CHARACTERS_MAX} characters")]
    TooLong,
    #[error("unsupported digest algorithm")]
    DigestAlgorithm,
    #[error("invalid checksum digest length")]
    DigestLength,
    #[error("invalid checksum digest format")]
    DigestFormat,
}

impl Image {
    pub fn parse(text: &str) -> Result<Self, ImageError> {
        let Some(parts) = REFERENCE.captures(text) else {
            return Err(match text {
                "" => ImageError::Empty,
                _ if REFERENCE.is_match(&text.to_lowercase()) => ImageError::Uppercase,
                _ => ImageError::Format,
            });
        };
        let part = |name: &str| parts.name(name).map(|part| part.as_str()).unwrap_or_default();
        if part("path").len() > REPOSITORY_CHARACTERS_MAX {
            return Err(ImageError::TooLong);
        }
        let (tag, mut digest) = (part("tag"), part("digest"));
        if !digest.is_empty() {
            check_digest(digest)?;
        }
        if !tag.is_empty() {
            digest = "";
        }
        let (hostname, repository) = split_hostname(&parts[1]);
        let [hostname, repository, tag, digest] = [hostname, repository, tag, digest].map(str::to_owned);
        Ok(Self { hostname, repository, tag, digest })
    }

    /// Changes one part; `None` when there is no such part.
    pub fn overridden(mut self, overrider: &ImageOverrider) -> Option<Self> {
        let value = overrider.value.as_str();
        match overrider.component.as_str() {
            "Registry" => change(&mut self.hostname, &overrider.operator, value),
            "Repository" => change(&mut self.repository, &overrider.operator, value),
            "Tag" => match overrider.operator.as_str() {
                "add" => self.set_tag_or_digest(&format!("{}{value}", self.tag_or_digest())),
                "replace" => self.set_tag_or_digest(value),
                "remove" if !self.tag.is_empty() => self.tag.clear(),
                "remove" => self.digest.clear(),
                _ => {}
            },
            _ => return None,
        }
        Some(self)
    }

    fn tag_or_digest(&self) -> &str {
        if self.tag.is_empty() { &self.digest } else { &self.tag }
    }

    /// Sets the tag or the digest; any other value changes nothing.
    fn set_tag_or_digest(&mut self, value: &str) {
        if WHOLE_TAG.is_match(value) {
            self.tag = value.to_owned();
            self.digest.clear();
        } else if WHOLE_DIGEST.is_match(value) {
            self.digest = value.to_owned();
            self.tag.clear();
        }
    }
}

impl std::fmt::Display for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.hostname.is_empty() {
            write!(f, "{}/", self.hostname)?;
        }
        f.write_str(&self.repository)?;
        match (self.tag.as_str(), self.digest.as_str()) {
            ("", "") => Ok(()),
            ("", digest) => write!(f, "@{digest}"),
            (tag, _) => write!(f, ":{tag}"),
        }
    }
}

fn change(part: &mut String, operator: &str, value: &str) {
    match operator {
        "add" => part.push_str(value),
        "replace" => value.clone_into(part),
        "remove" => part.clear(),
        _ => {}
    }
}

/// The first part is a host when it looks like one: it has a dot or a port, or is this machine.
fn split_hostname(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
        _ => ("", name),
    }
}

fn check_digest(digest: &str) -> Result<(), ImageError> {
    let (algorithm, encoded) = digest.split_once(':').unwrap_or_default();
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err(ImageError::DigestAlgorithm),
    };
    if encoded.len() != length {
        return Err(ImageError::DigestLength);
    }
    let is_lower_hex = encoded.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if is_lower_hex { Ok(()) } else { Err(ImageError::DigestFormat) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "sha256:50d858e0985ecc7f60418aaf0cc5ab587f42c2570a884095a9e8ccacd0f6545c";

    #[test]
    fn images_are_parsed_with_the_grammar_of_docker() {
        for (text, host, repository, tag, digest) in [
            ("pause", "", "pause", "", ""),
            ("subpath/imagename:v1.0.0", "", "subpath/imagename", "v1.0.0", ""),
            ("fictional.registry.example/imagename:v1.0.0", "fictional.registry.example", "imagename", "v1.0.0", ""),
            ("host.example:10443/a/b:v1", "host.example:10443", "a/b", "v1", ""),
            ("10.10.10.10:10443/a/b", "10.10.10.10:10443", "a/b", "", ""),
            ("[2001:db8::1]:5000/a", "[2001:db8::1]:5000", "a", "", ""),
            ("localhost/a", "localhost", "a", "", ""),
            ("localhost:5000", "", "localhost", "5000", ""),
            (&format!("host.example:10443/a@{SHA}"), "host.example:10443", "a", "", SHA),
        ] {
            let image = Image::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let parts = [&image.hostname, &image.repository, &image.tag, &image.digest];
            assert_eq!(parts, [host, repository, tag, digest], "{text}");
            assert_eq!(image.to_string(), text);
        }
        // Tag and digest do not go together; the tag stays.
        assert_eq!(Image::parse(&format!("a:v1@{SHA}")).expect("valid").to_string(), "a:v1");
    }

    #[test]
    fn invalid_images_are_refused() {
        for (text, error) in [
            ("", ImageError::Empty),
            ("Nginx", ImageError::Uppercase),
            (":v1", ImageError::Format),
            ("a b", ImageError::Format),
            ("a::b", ImageError::Format),
            ("é", ImageError::Format),
            (&format!("a@md5{}", &SHA[6..]), ImageError::DigestAlgorithm),
            (&format!("a@{}", &SHA[..50]), ImageError::DigestLength),
            (&format!("a@{}", SHA.to_uppercase().replace("SHA", "sha")), ImageError::DigestFormat),
            (&"a".repeat(256), ImageError::TooLong),
        ] {
            assert_eq!(Image::parse(text), Err(error), "{text}");
        }
    }

    #[track_caller]
    fn check(image: &str, component: &str, operator: &str, value: &str, expected: &str) {
        let [component, operator, value] = [component, operator, value].map(str::to_owned);
        let overrider = ImageOverrider { predicate: None, component, operator, value };
        let got = Image::parse(image).expect("valid").overridden(&overrider).expect("a known part");
        assert_eq!(got.to_string(), expected, "{image} {overrider:?}");
    }

    #[test]
    fn each_component_can_be_added_replaced_or_removed() {
        let image = "fictional.registry.example/imagename:v1.0.0";
        check("perl:5.34.0", "Registry", "add", "registry.k8s.io", "registry.k8s.io/perl:5.34.0");
        check(image, "Registry", "add", ".test", "fictional.registry.example.test/imagename:v1.0.0");
        check(image, "Registry", "replace", "fictional.registry.us", "fictional.registry.us/imagename:v1.0.0");
        check(image, "Registry", "remove", "fictional.registry.us", "imagename:v1.0.0");
        check(image, "Repository", "add", "/nginx", "fictional.registry.example/imagename/nginx:v1.0.0");
        check(image, "Repository", "replace", "nginx", "fictional.registry.example/nginx:v1.0.0");
        check(image, "Repository", "remove", "nginx", "fictional.registry.example/:v1.0.0");
        check(image, "Tag", "add", "-eu", "fictional.registry.example/imagename:v1.0.0-eu");
        check(image, "Tag", "add", SHA, image);
        check(image, "Tag", "replace", SHA, &format!("fictional.registry.example/imagename@{SHA}"));
        check(image, "Tag", "replace", "no tag", image);
        check(image, "Tag", "remove", SHA, "fictional.registry.example/imagename");
        check(&format!("a@{SHA}"), "Tag", "remove", "", "a");
        check(&format!("a@{SHA}"), "Tag", "replace", "v2", "a:v2");
        check("a", "Tag", "add", "v2", "a:v2");
        assert_eq!(Image::default().overridden(&ImageOverrider::default()), None);
    }
}
