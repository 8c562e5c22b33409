//! Reads Dockerfiles as far as they can be followed without running anything.

use std::collections::BTreeMap;

use crate::image::builder::RunConfig;
use crate::name::Reference;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DockerfileError {
    /// Understood, but it takes a builder.
    #[error("line {line}: {instruction} needs a builder")]
    NeedsTool { line: usize, instruction: String },
    #[error("line {line}: {why}")]
    Wrong { line: usize, why: String },
    #[error("there is no FROM in it")]
    NoFrom,
}

/// The instructions of a Dockerfile in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dockerfile {
    /// None for `scratch`.
    pub from: Option<Reference>,
    pub copies: Vec<Copy>,
    pub config: RunConfig,
}

/// Files to bring in; without sources, a directory to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copy {
    pub line: usize,
    pub text: String,
    pub sources: Vec<String>,
    pub target: String,
    pub owner: Option<(u32, u32)>,
    pub mode: Option<u32>,
}

impl Dockerfile {
    /// `arguments` are what `--build-arg` said.
    pub fn parse(text: &str, arguments: &[(String, String)]) -> Result<Self, DockerfileError> {
        let mut reading = Reading {
            made: Self::default(),
            variables: BTreeMap::new(),
            given: arguments.iter().cloned().collect(),
            has_from: false,
            working_dir: "/".to_owned(),
        };
        for (line, text) in logical_lines(text) {
            reading.take(line, &text)?;
        }
        if reading.has_from { Ok(reading.made) } else { Err(DockerfileError::NoFrom) }
    }
}

/// Lines with their number, continued ones joined, comments left out.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut is_continued = false;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with('#') || (trimmed.is_empty() && !is_continued) {
            continue;
        }
        let (part, goes_on) = match trimmed.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (trimmed, false),
        };
        match lines.last_mut().filter(|_| is_continued) {
            Some((_, begun)) => {
                begun.push(' ');
                begun.push_str(part.trim());
            }
            None => lines.push((number + 1, part.trim().to_owned())),
        }
        is_continued = goes_on;
    }
    lines
}

struct Reading {
    made: Dockerfile,
    /// ARG and ENV so far.
    variables: BTreeMap<String, String>,
    given: BTreeMap<String, String>,
    has_from: bool,
    working_dir: String,
}

impl Reading {
    fn take(&mut self, line: usize, text: &str) -> Result<(), DockerfileError> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let (instruction, rest) = (word.to_ascii_uppercase(), rest.trim());
        let wrong = |why: String| DockerfileError::Wrong { line, why };
        if !self.has_from && !matches!(instruction.as_str(), "FROM" | "ARG") {
            return Err(wrong(format!("{instruction} stands before FROM")));
        }
        let needs_tool = || DockerfileError::NeedsTool { line, instruction: instruction.clone() };
        let config = &mut self.made.config;
        match instruction.as_str() {
            "FROM" => return self.from(line, rest),
            "ARG" => self.argument(rest),
            "COPY" | "ADD" => return self.copy(line, text, &instruction, rest),
            "ENV" => {
                for (key, value) in self.pairs(line, rest)? {
                    self.variables.insert(key.clone(), value.clone());
                    let env = &mut self.made.config.env;
                    env.retain(|(known, _)| *known != key);
                    env.push((key, value));
                }
            }
            "LABEL" => {
                let pairs = self.pairs(line, rest)?;
                self.made.config.labels.extend(pairs);
            }
            "MAINTAINER" => drop(config.labels.insert("maintainer".to_owned(), rest.to_owned())),
            "CMD" => config.cmd = Some(command(rest)),
            "ENTRYPOINT" => {
                config.entrypoint = Some(command(rest));
                config.cmd = None;
            }
            "EXPOSE" => {
                for port in words(line, &self.filled(rest))? {
                    let port = if port.contains('/') { port } else { format!("{port}/tcp") };
                    self.made.config.exposed_ports.push(port);
                }
            }
            "VOLUME" => {
                let filled = self.filled(rest);
                let named: Option<Vec<String>> = serde_json::from_str(&filled).ok();
                self.made.config.volumes.extend(named.map_or_else(|| words(line, &filled), Ok)?);
            }
            "WORKDIR" => self.working_dir(line, text, rest),
            "USER" => config.user = Some(filled(&self.variables, rest)),
            "STOPSIGNAL" => config.stop_signal = Some(filled(&self.variables, rest)),
            "RUN" | "HEALTHCHECK" | "SHELL" | "ONBUILD" => return Err(needs_tool()),
            _ => return Err(wrong(format!("{word:?} is no instruction"))),
        }
        Ok(())
    }

    fn from(&mut self, line: usize, rest: &str) -> Result<(), DockerfileError> {
        let wrong = |why: String| DockerfileError::Wrong { line, why };
        let needs_tool = |what: &str| DockerfileError::NeedsTool { line, instruction: what.to_owned() };
        if self.has_from {
            return Err(needs_tool("a second FROM"));
        }
        let words = words(line, &self.filled(rest))?;
        let image = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [image] => image,
            [image, as_word, _] if as_word.eq_ignore_ascii_case("as") => image,
            [option, ..] if option.starts_with("--") => return Err(needs_tool("FROM --platform")),
            _ => return Err(wrong("FROM takes one image".to_owned())),
        };
        self.made.from = match image {
            "scratch" => None,
            image => Some(image.parse().map_err(|error: crate::name::NameError| wrong(error.to_string()))?),
        };
        self.has_from = true;
        Ok(())
    }

    fn argument(&mut self, rest: &str) {
        let (key, default) = match rest.split_once('=') {
            Some((key, default)) => (key.trim(), Some(self.filled(default.trim_matches(['"', '\''])))),
            None => (rest.trim(), None),
        };
        if let Some(value) = self.given.get(key).cloned().or(default) {
            self.variables.insert(key.to_owned(), value);
        }
    }

    fn copy(&mut self, line: usize, text: &str, instruction: &str, rest: &str) -> Result<(), DockerfileError> {
        let wrong = |why: &str| DockerfileError::Wrong { line, why: why.to_owned() };
        let needs_tool = |what: String| DockerfileError::NeedsTool { line, instruction: what };
        if rest.contains("<<") {
            return Err(needs_tool(format!("{instruction} with text in the Dockerfile")));
        }
        let mut made = Copy { line, text: text.to_owned(), ..Copy::default() };
        let filled = self.filled(rest);
        let mut rest = filled.as_str();
        while let Some(option) = rest.strip_prefix("--") {
            let (option, after) = option.split_once(char::is_whitespace).unwrap_or((option, ""));
            rest = after.trim_start();
            match option.split_once('=') {
                Some(("chown", owner)) => {
                    let owner =
                        owner_of(owner).ok_or_else(|| needs_tool(format!("{instruction} --chown with names")))?;
                    made.owner = Some(owner);
                }
                Some(("chmod", mode)) => {
                    made.mode = Some(u32::from_str_radix(mode, 8).map_err(|_| wrong("--chmod takes an octal number"))?);
                }
                _ => {
                    return Err(needs_tool(format!(
                        "{instruction} --{}",
                        option.split('=').next().unwrap_or_default()
                    )));
                }
            }
        }
        let mut words = match serde_json::from_str::<Vec<String>>(rest) {
            Ok(words) => words,
            Err(_) => words(line, rest)?,
        };
        let target = words.pop().ok_or_else(|| wrong("it takes files and a place for them"))?;
        if words.is_empty() {
            return Err(wrong("it takes files and a place for them"));
        }
        // ADD unpacks archives and fetches addresses; only what COPY does as well is done here.
        let is_special = |source: &String| {
            source.contains("://")
                || [".tar", ".gz", ".tgz", ".xz", ".bz2", ".zst"].iter().any(|end| source.ends_with(end))
        };
        if instruction == "ADD" && words.iter().any(is_special) {
            return Err(needs_tool("ADD of archives and addresses".to_owned()));
        }
        made.sources = words;
        made.target = self.below_working_dir(&target);
        self.made.copies.push(made);
        Ok(())
    }

    fn working_dir(&mut self, line: usize, text: &str, rest: &str) {
        let dir = self.below_working_dir(filled(&self.variables, rest).trim_matches('"'));
        self.made.copies.push(Copy { line, text: text.to_owned(), target: dir.clone(), ..Copy::default() });
        self.working_dir.clone_from(&dir);
        self.made.config.working_dir = Some(dir);
    }

    fn below_working_dir(&self, path: &str) -> String {
        let joined = if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", self.working_dir) };
        let mut parts: Vec<&str> = Vec::new();
        for part in joined.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let is_dir = path.ends_with('/') || matches!(path, "." | ".." | "") || path.ends_with("/.");
        let end = if is_dir && !parts.is_empty() { "/" } else { "" };
        format!("/{}{end}", parts.join("/"))
    }

    /// `KEY=VALUE …`, or the old form `KEY VALUE` for one.
    fn pairs(&self, line: usize, rest: &str) -> Result<Vec<(String, String)>, DockerfileError> {
        let wrong = || DockerfileError::Wrong { line, why: "it takes KEY=VALUE".to_owned() };
        let first = rest.split(char::is_whitespace).next().unwrap_or_default();
        if !first.contains('=') {
            let (key, value) = rest.split_once(char::is_whitespace).ok_or_else(wrong)?;
            return Ok(vec![(key.to_owned(), self.filled(value.trim()))]);
        }
        let pair = |word: String| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        words(line, &self.filled(rest))?.into_iter().map(|word| pair(word).ok_or_else(wrong)).collect()
    }

    fn filled(&self, text: &str) -> String {
        filled(&self.variables, text)
    }
}

/// Text with its variables filled in: `$NAME`, `${NAME}`, `${NAME:-else}`, `${NAME:+instead}`.
fn filled(variables: &BTreeMap<String, String>, text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '\\', '\'']) {
        made.push_str(&rest[..at]);
        let (sign, after) = rest[at..].split_at(1);
        match sign {
            "\\" => {
                let n = after.chars().next().map_or(0, char::len_utf8);
                made.push_str(&rest[at..at + 1 + n]);
                rest = &after[n..];
            }
            // Single quotes keep what is in them.
            "'" => {
                let end = after.find('\'').map_or(after.len(), |end| end + 1);
                made.push_str(&rest[at..at + 1 + end]);
                rest = &after[end..];
            }
            _ => {
                let (value, len) = variable(variables, after);
                made.push_str(&value);
                rest = &after[len..];
            }
        }
    }
    made.push_str(rest);
    made
}

/// The value behind a dollar sign, and how much of the text it was.
fn variable(variables: &BTreeMap<String, String>, text: &str) -> (String, usize) {
    let get = |name: &str| variables.get(name).cloned().unwrap_or_default();
    if let Some(braced) = text.strip_prefix('{') {
        let Some(end) = braced.find('}') else { return ("$".to_owned(), 0) };
        let inside = &braced[..end];
        let value = match (inside.split_once(":-"), inside.split_once(":+")) {
            (Some((name, other)), _) => Some(get(name)).filter(|v| !v.is_empty()).unwrap_or_else(|| other.to_owned()),
            (None, Some((name, other))) => {
                if get(name).is_empty() {
                    String::new()
                } else {
                    other.to_owned()
                }
            }
            (None, None) => get(inside),
        };
        return (value, end + 2);
    }
    let len = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if len == 0 { ("$".to_owned(), 0) } else { (get(&text[..len]), len) }
}

/// Splits text into words as a shell does: quotes group, a backslash escapes the next character.
fn words(line: usize, text: &str) -> Result<Vec<String>, DockerfileError> {
    let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    let mut quote = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(rest.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(DockerfileError::Wrong { line, why: "a quote is not closed".to_owned() });
    }
    words.extend(word);
    Ok(words)
}

/// A JSON list is run as it is; anything else by a shell.
fn command(rest: &str) -> Vec<String> {
    serde_json::from_str(rest).unwrap_or_else(|_| ["/bin/sh", "-c", rest].map(str::to_owned).to_vec())
}

fn owner_of(text: &str) -> Option<(u32, u32)> {
    let (user, group) = text.split_once(':').unwrap_or((text, text));
    Some((user.parse().ok()?, group.parse().ok()?))
}
