//! Dockerfiles as data, with the expected image or error.

use serde_json::{Value, json};

use super::*;
use crate::client::ClientOptions;
use crate::copy::NoProgress;
use crate::image::tar::TarIndex;

fn parse(text: &str) -> Result<Dockerfile, DockerfileError> {
    Dockerfile::parse(text, &[("VERSION".to_owned(), "2".to_owned())])
}

fn check_config(text: &str, expected: impl FnOnce(&mut crate::image::builder::RunConfig)) {
    let mut config = crate::image::builder::RunConfig::default();
    expected(&mut config);
    assert_eq!(parse(&format!("FROM scratch\n{text}")).map(|parsed| parsed.config), Ok(config), "{text}");
}

fn words(words: &[&str]) -> Option<Vec<String>> {
    Some(words.iter().map(ToString::to_string).collect())
}

#[test]
fn instructions_set_the_configuration() {
    check_config("CMD [\"a\", \"b c\"]", |config| config.cmd = words(&["a", "b c"]));
    check_config("cmd run me", |config| config.cmd = words(&["/bin/sh", "-c", "run me"]));
    check_config("CMD [\"x\"]\nENTRYPOINT [\"e\"]", |config| config.entrypoint = words(&["e"]));
    check_config("ENV A=1 B=\"two words\" C='$A' \\\n  # note\n  D=$A", |config| {
        config.env =
            [("A", "1"), ("B", "two words"), ("C", "$A"), ("D", "")].map(|(k, v)| (k.into(), v.into())).to_vec();
    });
    check_config("ENV A=1\nENV D=${A}x$A-${B:-none}${A:+yes}", |config| {
        config.env = [("A", "1"), ("D", "1x1-noneyes")].map(|(k, v)| (k.into(), v.into())).to_vec();
    });
    check_config("ENV OLD form is one", |config| config.env = vec![("OLD".into(), "form is one".into())]);
    check_config("ARG VERSION=1\nARG OTHER=o\nLABEL v=$VERSION o=$OTHER", |config| {
        config.labels = [("v", "2"), ("o", "o")].map(|(k, v)| (k.into(), v.into())).into();
    });
    check_config("EXPOSE 80 53/udp", |config| config.exposed_ports = vec!["80/tcp".into(), "53/udp".into()]);
    check_config("WORKDIR /a\nWORKDIR b/../c", |config| config.working_dir = Some("/a/c".into()));
    check_config("USER 1000:1000\nSTOPSIGNAL SIGINT\nVOLUME [\"/d\"]", |config| {
        config.user = Some("1000:1000".into());
        config.stop_signal = Some("SIGINT".into());
        config.volumes = vec!["/d".into()];
    });
}

#[test]
fn files_are_copied_to_their_destination() {
    let parsed = parse("FROM a:1\nWORKDIR /app\nCOPY --chown=5:6 --chmod=0755 x y ./\nCOPY [\"a b\", \"/c\"]").unwrap();
    assert_eq!(parsed.from.map(|from| from.to_string()).as_deref(), Some("docker.io/library/a:1"));
    let copies: Vec<_> =
        parsed.copies.iter().map(|c| (c.sources.join("+"), c.target.as_str(), c.owner, c.mode)).collect();
    let expected = [
        (String::new(), "/app", None, None),
        ("x+y".to_owned(), "/app/", Some((5, 6)), Some(0o755)),
        ("a b".to_owned(), "/c", None, None),
    ];
    assert_eq!(copies, expected);
}

#[test]
fn a_dockerfile_that_needs_a_builder_is_refused_with_the_reason() {
    let cases = [
        ("FROM scratch\nRUN x", 2, "RUN"),
        ("FROM a AS b\nFROM scratch", 2, "a second FROM"),
        ("FROM scratch\nCOPY --from=b x y", 2, "COPY --from"),
        ("FROM scratch\nADD https://x/y /z", 2, "ADD of archives and addresses"),
        ("FROM scratch\n\n\nCOPY <<EOF /x", 4, "COPY with text in the Dockerfile"),
    ];
    for (text, line, instruction) in cases {
        let expected = DockerfileError::NeedsTool { line, instruction: instruction.to_owned() };
        assert_eq!(parse(text), Err(expected), "{text}");
    }
    assert_eq!(parse(""), Err(DockerfileError::NoFrom));
    for wrong in
        ["COPY a b", "FROM scratch\nNONSENSE", "FROM scratch\nCOPY x", "FROM scratch\nENV A=\"x", "FROM a b c d"]
    {
        assert!(matches!(parse(wrong), Err(DockerfileError::Wrong { .. })), "{wrong}");
    }
}

async fn build_in(context: &Path) -> Result<(Layout, Descriptor, tempfile::TempDir), BuildError> {
    let scratch = tempfile::tempdir().unwrap();
    let layout = Layout::create(scratch.path()).unwrap();
    let options = BuildOptions {
        context: context.to_owned(),
        dockerfile: None,
        name: "demo/app:1".parse().unwrap(),
        arguments: Vec::new(),
        platform: Platform::host(),
        mirror: None,
        compresses: true,
    };
    let client = Client::new(&ClientOptions::default()).unwrap();
    let image = build(&options, &client, &layout, &NoProgress).await?;
    Ok((layout, image, scratch))
}

#[tokio::test]
async fn a_simple_context_is_built_without_any_tool() {
    let context = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = context.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("Dockerfile", "FROM scratch\nCOPY site /www\nCOPY *.txt /etc/\nCMD [\"/www/run\"]\n");
    write(".dockerignore", "**/*.bak\nnotes.txt\n");
    write("site/index.html", "hello");
    write("site/old.bak", "old");
    write("motd.txt", "hi");
    write("notes.txt", "private");
    let (layout, image, _scratch) = build_in(context.path()).await.unwrap();
    let read = |digest: &Value| std::fs::read(layout.blob_path(&digest.as_str().unwrap().parse().unwrap())).unwrap();
    let manifest: Value = serde_json::from_slice(&read(&json!(image.digest))).unwrap();
    let files = |layer: usize| {
        let mut plain = tempfile::tempfile().unwrap();
        let bytes = read(&manifest["layers"][layer]["digest"]);
        io::copy(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut plain).unwrap();
        let index = TarIndex::read(&plain).unwrap();
        move |path: &str| index.read_small(&plain, path, 100).unwrap().map(|b| String::from_utf8(b).unwrap())
    };
    let (site, etc) = (files(0), files(1));
    assert_eq!(site("www/index.html").as_deref(), Some("hello"));
    assert_eq!(site("www/old.bak"), None);
    assert_eq!(etc("etc/motd.txt").as_deref(), Some("hi"));
    assert_eq!(etc("etc/notes.txt"), None);
    let named = layout.index().unwrap().manifests[0].annotations[crate::image::layout::IMAGE_NAME].clone();
    assert_eq!(named, "docker.io/demo/app:1");
}

#[tokio::test]
async fn nothing_outside_the_context_gets_into_an_image() {
    let (context, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(outside.path().join("secret"), "x").unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), context.path().join("link")).unwrap();
    for source in ["link", "../secret", "/etc/passwd"] {
        std::fs::write(context.path().join("Dockerfile"), format!("FROM scratch\nCOPY {source} /x\n")).unwrap();
        let built = build_in(context.path()).await;
        assert!(matches!(built, Err(BuildError::Copy { .. })), "{source}");
    }
}
