//! Programs that process text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::shell::files::{FileEntry, resolve};
use crate::shell::interpret::{Flow, Shell};
use crate::shell::programs::is_known;
use crate::shell::streams::Io;

/// `None` if the program is none of these.
pub async fn run(shell: &mut Shell, name: &str, arguments: &[&str], io: &Io) -> Option<Flow> {
    let text = match (name, arguments) {
        ("echo", words) => echo(words),
        ("printf", [format, values @ ..]) => printf(format, values),
        ("pwd", _) => format!("{}\n", shell.dir),
        ("hostname", _) => format!("{}\n", shell.environment.hostname),
        ("whoami", _) => "root\n".to_owned(),
        ("id", _) => "uid=0(root) gid=0(root) groups=0(root)\n".to_owned(),
        ("tty", _) => "not a tty\n".to_owned(),
        ("nproc", _) => "1\n".to_owned(),
        ("uname", options) => uname(shell, options),
        ("uptime", _) => " up\n".to_owned(),
        ("date", options) => date(shell, options),
        ("ps", _) => format!("PID   USER     COMMAND\n    1 root     {}\n", shell.environment.process),
        ("env" | "printenv", []) => shell.vars.iter().map(|(name, value)| format!("{name}={value}\n")).collect(),
        ("printenv", names) => {
            let found: Vec<&String> = names.iter().filter_map(|name| shell.vars.get(*name)).collect();
            shell.status = i32::from(found.len() != names.len());
            found.into_iter().map(|value| format!("{value}\n")).collect()
        }
        ("which", names) => {
            let found: Vec<String> =
                names.iter().filter(|name| is_known(name)).map(|name| format!("/bin/{name}\n")).collect();
            shell.status = i32::from(found.len() != names.len());
            found.concat()
        }
        ("basename", [path, ..]) => format!("{}\n", path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)),
        ("dirname", [path, ..]) => {
            format!("{}\n", path.rsplit_once('/').map_or(".", |(dir, _)| if dir.is_empty() { "/" } else { dir }))
        }
        ("seq", bounds) => seq(bounds),
        ("yes", words) => return Some(yes(shell, words, io).await),
        ("cat" | "head" | "tail" | "wc" | "grep" | "sort" | "tee" | "tr" | "cut" | "base64", _) => {
            return Some(filter(shell, name, arguments, io).await);
        }
        _ => return None,
    };
    Some(shell.write(&io.stdout, text.as_bytes()).await)
}

fn echo(words: &[&str]) -> String {
    let (mut words, mut ends, mut escapes) = (words, true, false);
    while let Some((flags, rest)) = words.split_first() {
        match flags.strip_prefix('-') {
            Some(flags) if !flags.is_empty() && flags.chars().all(|flag| "neE".contains(flag)) => {
                ends &= !flags.contains('n');
                escapes |= flags.contains('e');
                words = rest;
            }
            _ => break,
        }
    }
    let text = words.join(" ");
    let text = if escapes { unescape(&text) } else { text };
    if ends { text + "\n" } else { text }
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some('r')) => out.push('\r'),
            ('\\', Some('e')) => out.push('\x1b'),
            ('\\', Some('\\')) => out.push('\\'),
            ('\\', Some(other)) => out.extend(['\\', other]),
            (c, _) => out.push(c),
        }
    }
    out
}

fn printf(format: &str, values: &[&str]) -> String {
    let format = unescape(format);
    let mut values = values.iter();
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '%' { chars.next() } else { None }) {
            ('%', Some('%')) => out.push('%'),
            ('%', Some('s' | 'd' | 'i' | 'u')) => out.push_str(values.next().unwrap_or(&"")),
            ('%', Some(other)) => out.extend(['%', other]),
            (c, _) => out.push(c),
        }
    }
    out
}

fn uname(shell: &Shell, options: &[&str]) -> String {
    match options.first() {
        Some(&"-n") => format!("{}\n", shell.environment.hostname),
        Some(&"-m") => "x86_64\n".to_owned(),
        Some(&"-r") => "simulated\n".to_owned(),
        Some(&"-a") => format!("Linux {} simulated #1 SMP x86_64 Linux\n", shell.environment.hostname),
        _ => "Linux\n".to_owned(),
    }
}

fn date(shell: &Shell, options: &[&str]) -> String {
    let now = shell.now();
    let format = options.iter().find_map(|option| option.strip_prefix('+'));
    let shown = match format {
        Some(format) => jiff::fmt::strtime::format(format, &now.to_zoned(jiff::tz::TimeZone::UTC)).unwrap_or_default(),
        None => now.strftime("%a %b %e %H:%M:%S UTC %Y").to_string(),
    };
    format!("{shown}\n")
}

/// A sequence of numbers, with a maximum length.
fn seq(bounds: &[&str]) -> String {
    const NUMBERS_MAX: usize = 100_000;
    let numbers: Vec<i64> = bounds.iter().filter_map(|bound| bound.parse().ok()).collect();
    let (first, step, last) = match numbers.as_slice() {
        [last] => (1, 1, *last),
        [first, last] => (*first, 1, *last),
        [first, step, last] if *step != 0 => (*first, *step, *last),
        _ => return String::new(),
    };
    let next = |number: &i64| number.checked_add(step);
    let row = std::iter::successors(Some(first), next).take_while(|n| if step > 0 { *n <= last } else { *n >= last });
    row.take(NUMBERS_MAX).map(|number| format!("{number}\n")).collect()
}

async fn yes(shell: &mut Shell, words: &[&str], io: &Io) -> Flow {
    let line = if words.is_empty() { "y\n".to_owned() } else { words.join(" ") + "\n" };
    let block = line.repeat(1024);
    loop {
        // Ends when a pipe is full or the reader is gone.
        let flow = shell.write(&io.stdout, block.as_bytes()).await;
        if flow != Flow::Next {
            return flow;
        }
        if shell.is_prediction() {
            return Flow::OutOfTime;
        }
        tokio::task::yield_now().await;
    }
}

/// Programs that transform their input, or the given files, into output.
async fn filter(shell: &mut Shell, name: &str, arguments: &[&str], io: &Io) -> Flow {
    let (options, mut operands) = split_options(name, arguments);
    let pattern = match name {
        "grep" if !operands.is_empty() => operands.remove(0),
        _ => "",
    };
    if name == "tr" {
        let text = String::from_utf8_lossy(&io.stdin.read_all().await).into_owned();
        return shell.write(&io.stdout, translate(&text, &options, &operands).as_bytes()).await;
    }
    if name == "tee" {
        return tee(shell, &options, &operands, io).await;
    }
    // Copies for as long as there is input.
    if name == "cat" && operands.is_empty() {
        while let Some(piece) = io.stdin.read().await {
            let flow = shell.write(&io.stdout, &piece).await;
            if flow != Flow::Next {
                return flow;
            }
        }
        return Flow::Next;
    }
    let mut input = Vec::new();
    if operands.is_empty() {
        input = io.stdin.read_all().await;
    }
    for operand in &operands {
        let read = match *operand {
            "-" => Ok(io.stdin.read_all().await.into()),
            operand => shell.files.lock().read(&resolve(&shell.dir, operand)),
        };
        match read {
            Ok(bytes) => input.extend_from_slice(&bytes),
            Err(error) => {
                let flow = shell.complain(io, format!("{name}: {operand}: {error}"), 1).await;
                if flow != Flow::Next {
                    return flow;
                }
            }
        }
    }
    let out = transform(shell, name, &options, pattern, input);
    shell.write(&io.stdout, &out).await
}

/// Splits options from operands; `-n 5` counts as one option.
fn split_options<'a>(name: &str, arguments: &[&'a str]) -> (Vec<String>, Vec<&'a str>) {
    let takes_value = match name {
        "head" | "tail" => "nc",
        "cut" => "dfc",
        _ => "",
    };
    let (mut options, mut operands) = (Vec::new(), Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix('-') {
            Some(flag) if flag.len() == 1 && takes_value.contains(flag) => {
                options.push(format!("{flag}{}", words.next().unwrap_or(&"")));
            }
            Some(flag) if !flag.is_empty() => options.push(flag.to_owned()),
            _ => operands.push(*word),
        }
    }
    (options, operands)
}

fn transform(shell: &mut Shell, name: &str, options: &[String], pattern: &str, input: Vec<u8>) -> Vec<u8> {
    let has = |flag: char| options.iter().any(|option| option.contains(flag));
    if name == "cat" {
        return input;
    }
    if let ("head" | "tail", Some(bytes)) = (name, options.iter().find_map(|option| option.strip_prefix('c'))) {
        return cut_bytes(name, bytes, input);
    }
    if name == "base64" {
        return match has('d') {
            true => STANDARD
                .decode(String::from_utf8_lossy(&input).split_whitespace().collect::<String>())
                .unwrap_or_default(),
            false => format!("{}\n", STANDARD.encode(&input)).into_bytes(),
        };
    }
    let text = String::from_utf8_lossy(&input).into_owned();
    let mut lines: Vec<&str> = text.lines().collect();
    match name {
        "head" | "tail" => {
            let count =
                options.iter().find_map(|option| option.trim_start_matches('n').trim_start_matches('+').parse().ok());
            let count = count.unwrap_or(10).min(lines.len());
            lines = if name == "head" { lines[..count].to_vec() } else { lines[lines.len() - count..].to_vec() };
        }
        "sort" => {
            lines.sort_unstable();
            if has('r') {
                lines.reverse();
            }
            if has('u') {
                lines.dedup();
            }
        }
        "grep" => {
            let wanted = |line: &&str| match has('i') {
                true => line.to_lowercase().contains(&pattern.to_lowercase()),
                false => line.contains(pattern),
            };
            lines.retain(|line| wanted(line) != has('v'));
            shell.status = i32::from(lines.is_empty());
            if has('q') {
                lines.clear();
            }
            if has('c') {
                return format!("{}\n", lines.len()).into_bytes();
            }
        }
        "wc" => {
            let counts = [('l', lines.len()), ('w', text.split_whitespace().count()), ('c', input.len())];
            let all = !counts.iter().any(|(flag, _)| has(*flag));
            let shown = counts.iter().filter(|(flag, _)| all || has(*flag)).map(|(_, count)| count.to_string());
            return (shown.collect::<Vec<_>>().join(" ") + "\n").into_bytes();
        }
        "cut" => {
            let value = |flag: char| options.iter().find_map(|option| option.strip_prefix(flag));
            let (delimiter, field) =
                (value('d').unwrap_or("\t"), value('f').and_then(|field| field.parse::<usize>().ok()));
            let pick = |line: &&str| {
                line.split(delimiter).nth(field.unwrap_or(1).saturating_sub(1)).unwrap_or_default().to_owned()
            };
            return lines.iter().map(|line| pick(line) + "\n").collect::<String>().into_bytes();
        }
        _ => {}
    }
    lines.into_iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

fn cut_bytes(name: &str, count: &str, mut input: Vec<u8>) -> Vec<u8> {
    let number = |text: &str| text.parse::<usize>().unwrap_or(0);
    match (name, count.strip_prefix('+')) {
        ("head", _) => input.truncate(number(count)),
        (_, Some(from)) => drop(input.drain(..number(from).saturating_sub(1).min(input.len()))),
        _ => drop(input.drain(..input.len().saturating_sub(number(count)))),
    }
    input
}

fn translate(text: &str, options: &[String], sets: &[&str]) -> String {
    let from: Vec<char> = unescape(sets.first().unwrap_or(&"")).chars().collect();
    if options.iter().any(|option| option.contains('d')) {
        return text.chars().filter(|c| !from.contains(c)).collect();
    }
    let lower_to_upper = sets == ["a-z", "A-Z"] || sets == ["[:lower:]", "[:upper:]"];
    let upper_to_lower = sets == ["A-Z", "a-z"] || sets == ["[:upper:]", "[:lower:]"];
    if lower_to_upper || upper_to_lower {
        return if lower_to_upper { text.to_ascii_uppercase() } else { text.to_ascii_lowercase() };
    }
    let to: Vec<char> = unescape(sets.get(1).unwrap_or(&"")).chars().collect();
    let swap = |c: char| match from.iter().position(|known| *known == c) {
        Some(at) => to.get(at).or(to.last()).copied().unwrap_or(c),
        None => c,
    };
    text.chars().map(swap).collect()
}

async fn tee(shell: &mut Shell, options: &[String], operands: &[&str], io: &Io) -> Flow {
    let input = io.stdin.read_all().await;
    let is_append = options.iter().any(|option| option == "a");
    for operand in operands {
        let path = resolve(&shell.dir, operand);
        let written = {
            let mut files = shell.files.lock();
            match is_append {
                true => files.append(&path, &input),
                false => files.write(&path, input.clone().into(), 0o644),
            }
        };
        if let Err(error) = written {
            let flow = shell.complain(io, format!("tee: {operand}: {error}"), 1).await;
            if flow != Flow::Next {
                return flow;
            }
        }
    }
    shell.write(&io.stdout, &input).await
}

/// Evaluates a `test` expression.
pub fn test(shell: &Shell, words: &[&str]) -> bool {
    let files = shell.files.lock();
    let entry = |path: &str| files.get(&resolve(&shell.dir, path)).cloned();
    let numbers = |left: &str, right: &str| Some((left.parse::<i64>().ok()?, right.parse::<i64>().ok()?));
    match words {
        ["!", rest @ ..] => {
            drop(files);
            !test(shell, rest)
        }
        ["-d", path] => entry(path) == Some(FileEntry::Dir),
        ["-f", path] => matches!(entry(path), Some(FileEntry::File { .. })),
        ["-e" | "-r" | "-w", path] => entry(path).is_some(),
        ["-x", path] => entry(path) == Some(FileEntry::Dir) || is_known(path),
        ["-s", path] => matches!(entry(path), Some(FileEntry::File { bytes, .. }) if !bytes.is_empty()),
        ["-z", text] => text.is_empty(),
        ["-n", text] | [text] => !text.is_empty(),
        [left, "=" | "==", right] => left == right,
        [left, "!=", right] => left != right,
        [left, operator, right] => numbers(left, right).is_some_and(|(left, right)| match *operator {
            "-eq" => left == right,
            "-ne" => left != right,
            "-lt" => left < right,
            "-le" => left <= right,
            "-gt" => left > right,
            "-ge" => left >= right,
            _ => false,
        }),
        _ => false,
    }
}
