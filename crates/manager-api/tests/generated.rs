//! The files in `generated` are those that the proto files produce. With `FLOTILLA_CODEGEN=write` the test writes them.

mod codegen;

use std::path::Path;

#[test]
fn generated_files_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = codegen::generate(&root.join("../../proto")).expect("the proto files compile");
    let writes = std::env::var("FLOTILLA_CODEGEN").is_ok_and(|value| value == "write");
    for (name, content) in files {
        let path = root.join("generated").join(&name);
        if writes {
            std::fs::create_dir_all(root.join("generated")).expect("a folder");
            std::fs::write(&path, &content).expect("written");
        }
        let found = std::fs::read(&path).unwrap_or_default();
        assert!(found == content, "{name} is out of date: run `cargo xtask codegen`");
    }
}
