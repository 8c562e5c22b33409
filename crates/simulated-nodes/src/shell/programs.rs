//! The programs of simulated containers.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::duration;
use crate::shell::files::{FileEntry, resolve};
use crate::shell::interpret::{Flow, Shell};
use crate::shell::streams::Io;
use crate::shell::{tar, text_programs};

/// All programs.
pub const NAMES: &[&str] = &[
    ":", "[", "ash", "base64", "basename", "bash", "break", "cat", "cd", "continue", "cp", "cut", "date", "dirname",
    "echo", "env", "exec", "exit", "export", "false", "grep", "head", "hostname", "id", "kill", "ls", "mkdir", "mv",
    "nproc", "printenv", "printf", "ps", "pwd", "read", "rm", "rmdir", "seq", "set", "sh", "sleep", "sort", "tail",
    "tar", "tee", "test", "touch", "tr", "trap", "true", "tty", "uname", "unset", "uptime", "wait", "wc", "which",
    "whoami", "yes",
];

/// Reports whether the command is one of these programs.
pub fn is_known(command: &str) -> bool {
    NAMES.contains(&program(command))
}

fn program(command: &str) -> &str {
    let dirs = ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/"];
    let name = dirs.iter().find_map(|dir| command.strip_prefix(dir)).unwrap_or(command);
    if NAMES.contains(&name) { name } else { command }
}

pub fn run<'a>(shell: &'a mut Shell, command: &'a [String], io: &'a Io) -> BoxFuture<'a, Flow> {
    async move {
        let Some((name, arguments)) = command.split_first() else { return Flow::Next };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let name = program(name);
        if !is_known(name) {
            shell.is_foreign = true;
            return shell.complain(io, format!("sh: {name}: not found"), 127).await;
        }
        shell.status = 0;
        if let Some(flow) = control(shell, name, &arguments, io).await {
            return flow;
        }
        if let Some(flow) = text_programs::run(shell, name, &arguments, io).await {
            return flow;
        }
        about_files(shell, name, &arguments, io).await
    }
    .boxed()
}

/// Commands that change the shell itself, or take time.
async fn control(shell: &mut Shell, name: &str, arguments: &[&str], io: &Io) -> Option<Flow> {
    Some(match (name, arguments) {
        (":" | "true" | "trap" | "wait", _) => Flow::Next,
        ("false", _) => {
            shell.status = 1;
            Flow::Next
        }
        ("exit", code) => Flow::Exit(code.first().map_or(shell.status, |code| code.parse().unwrap_or(2))),
        ("break", _) => Flow::Break,
        ("continue", _) => Flow::Continue,
        ("set", options) => {
            for option in options {
                match option.as_bytes() {
                    [b'-', flags @ ..] if flags.contains(&b'e') => shell.stop_on_error(true),
                    [b'+', flags @ ..] if flags.contains(&b'e') => shell.stop_on_error(false),
                    _ => {}
                }
            }
            Flow::Next
        }
        ("export", names) => {
            for (name, value) in names.iter().filter_map(|name| name.split_once('=')) {
                shell.vars.insert(name.to_owned(), value.to_owned());
            }
            Flow::Next
        }
        ("unset", names) => {
            for name in names {
                shell.vars.remove(*name);
            }
            Flow::Next
        }
        ("exec", []) => Flow::Next,
        ("exec", command) => {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            match run(shell, &command, io).await {
                Flow::Next => Flow::Exit(shell.status),
                flow => flow,
            }
        }
        ("sh" | "bash" | "ash", arguments) => sub_shell(shell, arguments, io).await,
        ("sleep", lengths) => sleep(shell, lengths, io).await,
        ("read", names) => {
            match io.stdin.read_line().await {
                Some(line) => drop(shell.vars.insert(names.last().unwrap_or(&"REPLY").to_string(), line)),
                None => shell.status = 1,
            }
            Flow::Next
        }
        ("cd", arguments) => {
            let home = shell.vars.get("HOME").cloned().unwrap_or_else(|| "/root".to_owned());
            let dir = resolve(&shell.dir, arguments.first().unwrap_or(&home.as_str()));
            let is_dir = shell.files.lock().get(&dir) == Some(&FileEntry::Dir);
            if !is_dir {
                return Some(
                    shell.complain(io, format!("sh: cd: can't cd to {dir}: No such file or directory"), 1).await,
                );
            }
            shell.dir = dir;
            Flow::Next
        }
        ("kill", _) => {
            shell.complain(io, "kill: processes of a simulated container cannot be killed".to_owned(), 1).await
        }
        _ => return None,
    })
}

async fn sleep(shell: &mut Shell, lengths: &[&str], io: &Io) -> Flow {
    let total = lengths.iter().try_fold(Duration::ZERO, |total, length| {
        Some(total.saturating_add(duration::parse(length)?).min(duration::FOREVER))
    });
    match total {
        Some(total) if !lengths.is_empty() => shell.sleep(total).await,
        _ => shell.complain(io, "sleep: invalid number".to_owned(), 1).await,
    }
}

/// `sh -c SCRIPT`, `sh FILE`, or a script from stdin.
async fn sub_shell(shell: &mut Shell, arguments: &[&str], io: &Io) -> Flow {
    let options: Vec<&str> = arguments.iter().take_while(|word| word.starts_with('-')).copied().collect();
    let rest = &arguments[options.len()..];
    if options.iter().any(|option| !option.starts_with("--") && option.contains('e')) {
        shell.stop_on_error(true);
    }
    let (before_dir, before_vars) = (shell.dir.clone(), shell.vars.clone());
    let takes_script = options.iter().any(|option| !option.starts_with("--") && option.contains('c'));
    let flow = match (takes_script, rest) {
        (true, [script, names @ ..]) => {
            shell.arguments = names.iter().map(|name| (*name).to_owned()).collect();
            let script = (*script).to_owned();
            shell.run_script(&script, io).await
        }
        (false, [file, ..]) => {
            let path = resolve(&shell.dir, file);
            let read = shell.files.lock().read(&path);
            match read {
                Ok(bytes) => {
                    shell.arguments = rest.iter().map(|name| (*name).to_owned()).collect();
                    let script = String::from_utf8_lossy(&bytes).into_owned();
                    shell.run_script(&script, io).await
                }
                Err(error) => {
                    shell.is_foreign = true;
                    shell.complain(io, format!("sh: can't open '{file}': {error}"), 2).await
                }
            }
        }
        _ => crate::shell::terminal::interact(shell, io).await,
    };
    (shell.dir, shell.vars) = (before_dir, before_vars);
    match flow {
        Flow::Exit(code) => {
            shell.status = code;
            Flow::Next
        }
        flow => flow,
    }
}

async fn about_files(shell: &mut Shell, name: &str, arguments: &[&str], io: &Io) -> Flow {
    let (options, operands): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|word| word.starts_with('-') && **word != "-");
    let has = |flag: char| options.iter().any(|option| !option.starts_with("--") && option.contains(flag));
    let paths: Vec<String> = operands.iter().map(|operand| resolve(&shell.dir, operand)).collect();
    match name {
        "test" | "[" => {
            let words = if name == "[" { arguments.strip_suffix(&["]"]).unwrap_or(arguments) } else { arguments };
            shell.status = i32::from(!text_programs::test(shell, words));
            Flow::Next
        }
        "ls" => list(shell, &operands, has('l'), has('a') || has('A'), has('1'), io).await,
        "mkdir" => each(shell, name, &paths, io, |files, path| files.make_dir(path, has('p'))).await,
        "rmdir" => {
            each(shell, name, &paths, io, |files, path| match files.list(path)?.is_empty() {
                true => files.remove(path, true),
                false => Err(crate::shell::files::FileError::NotEmpty),
            })
            .await
        }
        "rm" => {
            each(shell, name, &paths, io, |files, path| match files.remove(path, has('r') || has('R')) {
                Err(_) if has('f') && files.get(path).is_none() => Ok(()),
                done => done,
            })
            .await
        }
        "touch" => each(shell, name, &paths, io, |files, path| files.append(path, b"")).await,
        "cp" | "mv" => copy(shell, name, &paths, io).await,
        "tar" => tar::run(shell, arguments, io).await,
        _ => Flow::Next,
    }
}

async fn each(
    shell: &mut Shell,
    name: &str,
    paths: &[String],
    io: &Io,
    act: impl Fn(&mut crate::shell::Files, &str) -> Result<(), crate::shell::files::FileError>,
) -> Flow {
    let mut failures = Vec::new();
    {
        let mut files = shell.files.lock();
        for path in paths {
            if let Err(error) = act(&mut files, path) {
                failures.push(format!("{name}: {path}: {error}"));
            }
        }
    }
    for failure in failures {
        let flow = shell.complain(io, failure, 1).await;
        if flow != Flow::Next {
            return flow;
        }
    }
    Flow::Next
}

async fn copy(shell: &mut Shell, name: &str, paths: &[String], io: &Io) -> Flow {
    let Some((target, sources)) = paths.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return shell.complain(io, format!("{name}: missing operand"), 1).await;
    };
    let mut failure = None;
    {
        let mut files = shell.files.lock();
        let is_dir = files.get(target) == Some(&FileEntry::Dir);
        for source in sources {
            let base = source.rsplit('/').next().unwrap_or_default();
            let to = if is_dir { resolve(target, base) } else { target.clone() };
            let copied: Vec<(String, FileEntry)> = files
                .below(source)
                .map(|(path, entry)| (format!("{to}{}", &path[source.len()..]), entry.clone()))
                .collect();
            if copied.is_empty() {
                failure = Some(format!("{name}: {source}: No such file or directory"));
            }
            for (path, entry) in copied {
                let done = match entry {
                    FileEntry::Dir => files.make_dir(&path, true),
                    FileEntry::File { bytes, mode } => files.write(&path, bytes, mode),
                };
                if let Err(error) = done {
                    failure = Some(format!("{name}: {path}: {error}"));
                }
            }
            if name == "mv" && failure.is_none() && to != *source {
                let _ = files.remove(source, true);
            }
        }
    }
    match failure {
        Some(failure) => shell.complain(io, failure, 1).await,
        None => Flow::Next,
    }
}

async fn list(shell: &mut Shell, operands: &[&str], long: bool, all: bool, single: bool, io: &Io) -> Flow {
    let operands = if operands.is_empty() { &["."][..] } else { operands };
    let (mut out, mut failures) = (String::new(), Vec::new());
    {
        let files = shell.files.lock();
        for operand in operands {
            let path = resolve(&shell.dir, operand);
            if operands.len() > 1 {
                out.push_str(&format!("{operand}:\n"));
            }
            let names: Vec<String> = match files.get(&path) {
                Some(FileEntry::File { .. }) => vec![(*operand).to_owned()],
                Some(FileEntry::Dir) => files
                    .list(&path)
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|name| all || !name.starts_with('.'))
                    .map(str::to_owned)
                    .collect(),
                None => {
                    failures.push(format!("ls: {operand}: No such file or directory"));
                    continue;
                }
            };
            for name in names {
                if !long {
                    out.push_str(&name);
                    out.push('\n');
                    continue;
                }
                let full = if files.get(&path) == Some(&FileEntry::Dir) { resolve(&path, &name) } else { path.clone() };
                let (kind, size) = match files.get(&full) {
                    Some(FileEntry::File { bytes, mode }) => {
                        (if mode & 0o111 != 0 { "-rwxr-xr-x" } else { "-rw-r--r--" }, bytes.len())
                    }
                    _ => ("drwxr-xr-x", 4096),
                };
                out.push_str(&format!("{kind}    1 root     root     {size:>9} {name}\n"));
            }
        }
    }
    let _ = single;
    for failure in failures {
        let flow = shell.complain(io, failure, 1).await;
        if flow != Flow::Next {
            return flow;
        }
    }
    shell.write(&io.stdout, &Bytes::from(out)).await
}
