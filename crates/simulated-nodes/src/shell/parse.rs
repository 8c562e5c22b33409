//! Parses the subset of the shell grammar that manifests commonly use.

/// A command, simple or compound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellCommand {
    Simple { assignments: Vec<(String, Word)>, words: Vec<Word>, redirects: Vec<Redirect> },
    Pipe(Vec<ShellCommand>),
    Not(Box<ShellCommand>),
    And(Box<ShellCommand>, Box<ShellCommand>),
    Or(Box<ShellCommand>, Box<ShellCommand>),
    Sequence(Vec<ShellCommand>),
    If { arms: Vec<(ShellCommand, ShellCommand)>, otherwise: Option<Box<ShellCommand>> },
    While { condition: Box<ShellCommand>, is_until: bool, body: Box<ShellCommand> },
    For { name: String, words: Vec<Word>, body: Box<ShellCommand> },
    Group(Box<ShellCommand>, Vec<Redirect>),
    Subshell(Box<ShellCommand>),
}

pub type Word = Vec<WordPart>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WordPart {
    /// Text that is not split.
    Quoted(String),
    Bare(String),
    Variable {
        name: String,
        default: Option<String>,
        is_quoted: bool,
    },
    Command {
        node: Box<ShellCommand>,
        is_quoted: bool,
    },
    Arithmetic(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub from: OutputStream,
    pub to: RedirectTo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    Stdin,
    Stdout,
    Stderr,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedirectTo {
    File(Word),
    Append(Word),
    Same(OutputStream),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// More text may complete it.
    Incomplete,
    /// Invalid, or a part of the language that is not simulated.
    Unexpected(String),
}

/// Maximum nesting.
const DEPTH_MAX: usize = 60;

pub fn parse(text: &str) -> Result<ShellCommand, ParseError> {
    let tokens = Lexer { rest: text, depth: 0 }.tokens()?;
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let node = parser.sequence(&[])?;
    match parser.peek() {
        None => Ok(node),
        Some(token) => Err(ParseError::Unexpected(format!("{token:?}"))),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(Word),
    /// `;`, `&&`, `|`, `(` and so on; a newline is `;`.
    Operator(&'static str),
    Redirect(OutputStream, &'static str),
}

struct Lexer<'a> {
    rest: &'a str,
    depth: usize,
}

const OPERATORS: &[&str] = &["&&", "||", ";;", ";", "\n", "|", "(", ")"];
const REDIRECTS: &[(&str, OutputStream, &str)] = &[
    ("2>&1", OutputStream::Stderr, "&1"),
    ("1>&2", OutputStream::Stdout, "&2"),
    (">&2", OutputStream::Stdout, "&2"),
    ("2>>", OutputStream::Stderr, ">>"),
    ("2>", OutputStream::Stderr, ">"),
    ("1>", OutputStream::Stdout, ">"),
    (">>", OutputStream::Stdout, ">>"),
    (">", OutputStream::Stdout, ">"),
];

impl<'a> Lexer<'a> {
    fn tokens(mut self) -> Result<Vec<Token>, ParseError> {
        let mut tokens = Vec::new();
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\r']);
            if let Some(rest) = self.rest.strip_prefix("\\\n") {
                self.rest = rest;
                continue;
            }
            if self.rest.is_empty() {
                return Ok(tokens);
            }
            if self.rest.starts_with('#') {
                self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]);
                continue;
            }
            if self.rest.starts_with("<<") {
                return Err(ParseError::Unexpected("<<".to_owned()));
            }
            tokens.push(self.token()?);
        }
    }

    fn token(&mut self) -> Result<Token, ParseError> {
        if let Some((text, stream, kind)) = REDIRECTS.iter().find(|(text, ..)| self.rest.starts_with(text)) {
            self.rest = &self.rest[text.len()..];
            return Ok(Token::Redirect(*stream, kind));
        }
        if let Some(rest) = self.rest.strip_prefix('<') {
            self.rest = rest;
            return Ok(Token::Redirect(OutputStream::Stdin, "<"));
        }
        if let Some(operator) = OPERATORS.iter().find(|operator| self.rest.starts_with(**operator)) {
            self.rest = &self.rest[operator.len()..];
            return Ok(Token::Operator(if *operator == "\n" { ";" } else { operator }));
        }
        if self.rest.starts_with('&') {
            return Err(ParseError::Unexpected("&".to_owned()));
        }
        self.word().map(Token::Word)
    }

    fn word(&mut self) -> Result<Word, ParseError> {
        let mut word = Word::new();
        let mut bare = String::new();
        while let Some(first) = self.rest.chars().next() {
            match first {
                ' ' | '\t' | '\r' | '\n' | ';' | '|' | '(' | ')' | '<' | '>' | '&' => break,
                '\'' => {
                    flush(&mut word, &mut bare);
                    let (text, rest) = self.rest[1..].split_once('\'').ok_or(ParseError::Incomplete)?;
                    word.push(WordPart::Quoted(text.to_owned()));
                    self.rest = rest;
                }
                '"' => {
                    flush(&mut word, &mut bare);
                    self.rest = &self.rest[1..];
                    self.double_quoted(&mut word)?;
                }
                '\\' => {
                    flush(&mut word, &mut bare);
                    let next = self.rest[1..].chars().next().ok_or(ParseError::Incomplete)?;
                    if next != '\n' {
                        word.push(WordPart::Quoted(next.to_string()));
                    }
                    self.rest = &self.rest[1 + next.len_utf8()..];
                }
                '$' | '`' => {
                    flush(&mut word, &mut bare);
                    let part = self.expansion(false)?;
                    word.push(part);
                }
                other => {
                    bare.push(other);
                    self.rest = &self.rest[other.len_utf8()..];
                }
            }
        }
        flush(&mut word, &mut bare);
        Ok(word)
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), ParseError> {
        let mut text = String::new();
        loop {
            let next = self.rest.chars().next().ok_or(ParseError::Incomplete)?;
            match next {
                '"' => {
                    self.rest = &self.rest[1..];
                    word.push(WordPart::Quoted(text));
                    return Ok(());
                }
                '\\' => {
                    let escaped = self.rest[1..].chars().next().ok_or(ParseError::Incomplete)?;
                    match escaped {
                        '"' | '\\' | '$' | '`' => text.push(escaped),
                        '\n' => {}
                        other => text.extend(['\\', other]),
                    }
                    self.rest = &self.rest[1 + escaped.len_utf8()..];
                }
                '$' | '`' => {
                    word.push(WordPart::Quoted(std::mem::take(&mut text)));
                    let part = self.expansion(true)?;
                    word.push(part);
                }
                other => {
                    text.push(other);
                    self.rest = &self.rest[other.len_utf8()..];
                }
            }
        }
    }

    /// Parses an expansion at a `$` or a backquote.
    fn expansion(&mut self, is_quoted: bool) -> Result<WordPart, ParseError> {
        if let Some(rest) = self.rest.strip_prefix('`') {
            let (inner, rest) = rest.split_once('`').ok_or(ParseError::Incomplete)?;
            self.rest = rest;
            return self.command(inner, is_quoted);
        }
        let rest = &self.rest[1..];
        if let Some(inner) = rest.strip_prefix("((") {
            let end = inner.find("))").ok_or(ParseError::Incomplete)?;
            self.rest = &inner[end + 2..];
            return Ok(WordPart::Arithmetic(inner[..end].to_owned()));
        }
        if let Some(inner) = rest.strip_prefix('(') {
            let end = closing(inner).ok_or(ParseError::Incomplete)?;
            self.rest = &inner[end + 1..];
            return self.command(&inner[..end], is_quoted);
        }
        if let Some(inner) = rest.strip_prefix('{') {
            let (inner, rest) = inner.split_once('}').ok_or(ParseError::Incomplete)?;
            self.rest = rest;
            let (name, default) = match inner.split_once(":-").or_else(|| inner.split_once('-')) {
                Some((name, default)) => (name, Some(default.to_owned())),
                None => (inner, None),
            };
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_?#@*$".contains(c));
            if !is_name {
                return Err(ParseError::Unexpected(format!("${{{inner}}}")));
            }
            return Ok(WordPart::Variable { name: name.to_owned(), default, is_quoted });
        }
        let special = rest.starts_with(['?', '#', '@', '*', '$', '!']);
        let end = if special { 1 } else { name_length(rest) };
        let name = rest[..end].to_owned();
        self.rest = &rest[end..];
        Ok(match name.is_empty() {
            true => WordPart::Quoted("$".to_owned()),
            false => WordPart::Variable { name, default: None, is_quoted },
        })
    }

    fn command(&mut self, inner: &str, is_quoted: bool) -> Result<WordPart, ParseError> {
        if self.depth >= DEPTH_MAX {
            return Err(ParseError::Unexpected("nesting is too deep".to_owned()));
        }
        let tokens = Lexer { rest: inner, depth: self.depth + 1 }.tokens()?;
        let mut parser = Parser { tokens, at: 0, depth: self.depth };
        let node = parser.sequence(&[])?;
        match parser.peek() {
            None => Ok(WordPart::Command { node: Box::new(node), is_quoted }),
            Some(token) => Err(ParseError::Unexpected(format!("{token:?}"))),
        }
    }
}

fn flush(word: &mut Word, bare: &mut String) {
    if !bare.is_empty() {
        word.push(WordPart::Bare(std::mem::take(bare)));
    }
}

fn name_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 1;
    }
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Returns the position of the closing parenthesis.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return Some(at),
            (None, ')') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn is_operator(&self, operator: &str) -> bool {
        matches!(self.peek(), Some(Token::Operator(known)) if *known == operator)
    }

    fn take_operator(&mut self, operator: &str) -> bool {
        let is_there = self.is_operator(operator);
        self.at += usize::from(is_there);
        is_there
    }

    /// Returns the next word if it is a single bare one, as keywords are.
    fn keyword(&self) -> Option<&str> {
        match self.peek() {
            Some(Token::Word(word)) => match word.as_slice() {
                [WordPart::Bare(text)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    fn take_keyword(&mut self, keyword: &str) -> bool {
        let is_there = self.keyword() == Some(keyword);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect_keyword(&mut self, keyword: &str) -> Result<(), ParseError> {
        if self.take_keyword(keyword) {
            return Ok(());
        }
        Err(self.surprise())
    }

    fn surprise(&self) -> ParseError {
        match self.peek() {
            None => ParseError::Incomplete,
            Some(token) => ParseError::Unexpected(format!("{token:?}")),
        }
    }

    /// Parses commands up to one of the keywords, a closing parenthesis or the end.
    fn sequence(&mut self, ends: &[&str]) -> Result<ShellCommand, ParseError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(ParseError::Unexpected("nesting is too deep".to_owned()));
        }
        let mut nodes = Vec::new();
        loop {
            while self.take_operator(";") {}
            let is_end = self.peek().is_none()
                || self.is_operator(")")
                || self.keyword().is_some_and(|keyword| ends.contains(&keyword));
            if is_end {
                break;
            }
            nodes.push(self.and_or()?);
            if !self.is_operator(";") {
                break;
            }
        }
        self.depth -= 1;
        Ok(match nodes.len() {
            1 => nodes.remove(0),
            _ => ShellCommand::Sequence(nodes),
        })
    }

    fn and_or(&mut self) -> Result<ShellCommand, ParseError> {
        let mut left = self.pipeline()?;
        loop {
            let is_and = self.take_operator("&&");
            if !is_and && !self.take_operator("||") {
                return Ok(left);
            }
            while self.take_operator(";") {}
            let right = Box::new(self.pipeline()?);
            left =
                if is_and { ShellCommand::And(Box::new(left), right) } else { ShellCommand::Or(Box::new(left), right) };
        }
    }

    fn pipeline(&mut self) -> Result<ShellCommand, ParseError> {
        if self.take_keyword("!") {
            let inner = self.piped()?;
            return Ok(ShellCommand::Not(Box::new(inner)));
        }
        self.piped()
    }

    fn piped(&mut self) -> Result<ShellCommand, ParseError> {
        let mut nodes = vec![self.command()?];
        while self.take_operator("|") {
            nodes.push(self.command()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { ShellCommand::Pipe(nodes) })
    }

    fn command(&mut self) -> Result<ShellCommand, ParseError> {
        if self.take_operator("(") {
            let inner = self.sequence(&[])?;
            return if self.take_operator(")") {
                Ok(ShellCommand::Subshell(Box::new(inner)))
            } else {
                Err(self.surprise())
            };
        }
        let keyword = self.keyword().unwrap_or_default().to_owned();
        match keyword.as_str() {
            "if" => self.if_command(),
            "while" | "until" => {
                self.at += 1;
                let condition = Box::new(self.sequence(&["do"])?);
                let body = Box::new(self.loop_body()?);
                Ok(ShellCommand::While { condition, is_until: keyword == "until", body })
            }
            "for" => self.for_command(),
            "{" => {
                self.at += 1;
                let inner = self.sequence(&["}"])?;
                self.expect_keyword("}")?;
                let redirects = self.redirects()?;
                Ok(ShellCommand::Group(Box::new(inner), redirects))
            }
            "case" | "function" | "select" => Err(ParseError::Unexpected(keyword)),
            _ => self.simple(),
        }
    }

    fn loop_body(&mut self) -> Result<ShellCommand, ParseError> {
        self.expect_keyword("do")?;
        let body = self.sequence(&["done"])?;
        self.expect_keyword("done")?;
        let redirects = self.redirects()?;
        Ok(if redirects.is_empty() { body } else { ShellCommand::Group(Box::new(body), redirects) })
    }

    fn if_command(&mut self) -> Result<ShellCommand, ParseError> {
        self.at += 1;
        let mut arms = Vec::new();
        loop {
            let condition = self.sequence(&["then"])?;
            self.expect_keyword("then")?;
            arms.push((condition, self.sequence(&["elif", "else", "fi"])?));
            if !self.take_keyword("elif") {
                break;
            }
        }
        let otherwise = match self.take_keyword("else") {
            true => Some(Box::new(self.sequence(&["fi"])?)),
            false => None,
        };
        self.expect_keyword("fi")?;
        Ok(ShellCommand::If { arms, otherwise })
    }

    fn for_command(&mut self) -> Result<ShellCommand, ParseError> {
        self.at += 1;
        let name = self.keyword().ok_or_else(|| self.surprise())?.to_owned();
        self.at += 1;
        let mut words = Vec::new();
        if self.take_keyword("in") {
            while let Some(Token::Word(word)) = self.peek() {
                words.push(word.clone());
                self.at += 1;
            }
        }
        while self.take_operator(";") {}
        let body = Box::new(self.loop_body()?);
        Ok(ShellCommand::For { name, words, body })
    }

    fn simple(&mut self) -> Result<ShellCommand, ParseError> {
        let (mut assignments, mut words, mut redirects) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            match self.peek() {
                Some(Token::Word(word)) => {
                    match assignment(word).filter(|_| words.is_empty()) {
                        Some(assignment) => assignments.push(assignment),
                        None => words.push(word.clone()),
                    }
                    self.at += 1;
                }
                Some(Token::Redirect(..)) => redirects.push(self.redirect()?),
                _ => break,
            }
        }
        if assignments.is_empty() && words.is_empty() && redirects.is_empty() {
            return Err(self.surprise());
        }
        Ok(ShellCommand::Simple { assignments, words, redirects })
    }

    fn redirects(&mut self) -> Result<Vec<Redirect>, ParseError> {
        let mut redirects = Vec::new();
        while matches!(self.peek(), Some(Token::Redirect(..))) {
            redirects.push(self.redirect()?);
        }
        Ok(redirects)
    }

    fn redirect(&mut self) -> Result<Redirect, ParseError> {
        let Some(Token::Redirect(from, kind)) = self.peek().cloned() else { return Err(self.surprise()) };
        self.at += 1;
        let to = match kind {
            "&1" => RedirectTo::Same(OutputStream::Stdout),
            "&2" => RedirectTo::Same(OutputStream::Stderr),
            kind => {
                let Some(Token::Word(word)) = self.peek().cloned() else { return Err(self.surprise()) };
                self.at += 1;
                if kind == ">>" { RedirectTo::Append(word) } else { RedirectTo::File(word) }
            }
        };
        Ok(Redirect { from, to })
    }
}

fn assignment(word: &Word) -> Option<(String, Word)> {
    let [WordPart::Bare(first), rest @ ..] = word.as_slice() else { return None };
    let (name, value) = first.split_once('=')?;
    let is_name =
        !name.is_empty() && name_length(name) == name.len() && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then(|| {
        let mut parts = Word::new();
        if !value.is_empty() {
            parts.push(WordPart::Bare(value.to_owned()));
        }
        parts.extend_from_slice(rest);
        (name.to_owned(), parts)
    })
}
