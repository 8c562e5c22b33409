//! Turns expression text into tokens.

use crate::source::{Issue, SourceText};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Ident,
    EscapedIdent,
    Int,
    Uint,
    Double,
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    True,
    False,
    Null,
    /// Operators and punctuation, `in` included.
    Sign(&'static str),
    End,
}

#[derive(Debug, Clone)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) start: usize,
    /// The source text, for error messages and number parsing.
    pub(crate) text: String,
}

/// Longest first, so that `<=` is not split.
const SIGNS: [&str; 23] = [
    "==", "!=", "<=", ">=", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*", "/", "%",
    "<",
];

pub(crate) fn lex(source: &SourceText) -> (Vec<Lexeme>, Vec<Issue>) {
    let mut lexer = Lexer { chars: &source.chars, at: 0, lexemes: Vec::new(), issues: Vec::new() };
    while lexer.skip_blank() {
        lexer.next_token();
    }
    let end = lexer.at;
    lexer.lexemes.push(Lexeme { token: Token::End, start: end, text: "<EOF>".to_owned() });
    (lexer.lexemes, lexer.issues)
}

struct Lexer<'s> {
    chars: &'s [char],
    at: usize,
    lexemes: Vec<Lexeme>,
    issues: Vec<Issue>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Skips white space and comments; returns false at the end of the text.
    fn skip_blank(&mut self) -> bool {
        loop {
            match self.peek(0) {
                None => return false,
                Some('\t' | ' ' | '\r' | '\n' | '\u{c}') => self.at += 1,
                Some('/') if self.peek(1) == Some('/') => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                Some(_) => return true,
            }
        }
    }

    fn push(&mut self, token: Token, start: usize) {
        let text = self.chars[start..self.at].iter().collect();
        self.lexemes.push(Lexeme { token, start, text });
    }

    fn next_token(&mut self) {
        let start = self.at;
        let first = self.chars[start];
        if self.string_prefix_length().is_some() {
            return self.string();
        }
        if first == '_' || first.is_ascii_alphabetic() {
            while self.peek(0).is_some_and(|c| c == '_' || c.is_ascii_alphanumeric()) {
                self.at += 1;
            }
            let text: String = self.chars[start..self.at].iter().collect();
            let token = match text.as_str() {
                "in" => Token::Sign("in"),
                "true" => Token::True,
                "false" => Token::False,
                "null" => Token::Null,
                _ => Token::Ident,
            };
            return self.push(token, start);
        }
        if first.is_ascii_digit() || (first == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return self.number();
        }
        if first == '`' {
            return self.escaped_ident();
        }
        self.sign();
    }

    fn sign(&mut self) {
        let start = self.at;
        let starts_with = |sign: &&str| sign.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c));
        let found = SIGNS.iter().copied().chain([">"]).find(|sign| starts_with(sign));
        if let Some(sign) = found {
            self.at += sign.chars().count();
            return self.push(Token::Sign(sign), start);
        }
        // A lone `=`, `&` or `|` is reported together with the next character.
        self.at += 1;
        if matches!(self.chars[start], '=' | '&' | '|') && self.at < self.chars.len() {
            self.at += 1;
        }
        self.unrecognized(start);
    }

    fn unrecognized(&mut self, start: usize) {
        let text: String = self.chars[start..self.at].iter().collect();
        let shown = text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
        self.issues.push(Issue::new(start, format!("Syntax error: token recognition error at: '{shown}'")));
    }

    fn escaped_ident(&mut self) {
        let start = self.at;
        self.at += 1;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        while self.peek(0).is_some_and(allowed) {
            self.at += 1;
        }
        if self.peek(0) != Some('`') {
            return self.unrecognized(start);
        }
        self.at += 1;
        self.push(Token::EscapedIdent, start);
    }

    fn digits(&mut self) {
        while self.peek(0).is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn number(&mut self) {
        let start = self.at;
        let mut token = Token::Int;
        if self.peek(0) == Some('0') && self.peek(1) == Some('x') && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            self.at += 2;
            while self.peek(0).is_some_and(|c| c.is_ascii_hexdigit()) {
                self.at += 1;
            }
        } else {
            self.digits();
            if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
                token = Token::Double;
                self.at += 1;
                self.digits();
            }
            let signed = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + signed).is_some_and(|c| c.is_ascii_digit()) {
                token = Token::Double;
                self.at += 1 + signed;
                self.digits();
            }
        }
        if token == Token::Int && matches!(self.peek(0), Some('u' | 'U')) {
            token = Token::Uint;
            self.at += 1;
        }
        self.push(token, start);
    }

    /// Length of `r`, `b`, `br`… before a quote, or none if no string starts here.
    fn string_prefix_length(&self) -> Option<usize> {
        let quote = |ahead| matches!(self.peek(ahead), Some('"' | '\''));
        let raw = |ahead| matches!(self.peek(ahead), Some('r' | 'R'));
        let bytes = |ahead| matches!(self.peek(ahead), Some('b' | 'B'));
        if quote(0) {
            return Some(0);
        }
        if (raw(0) || bytes(0)) && quote(1) {
            return Some(1);
        }
        (bytes(0) && raw(1) && quote(2)).then_some(2)
    }

    fn string(&mut self) {
        let start = self.at;
        let prefix = self.string_prefix_length().unwrap_or(0);
        let prefix: String = self.chars[start..start + prefix].iter().collect::<String>().to_ascii_lowercase();
        self.at += prefix.len();
        let quote = self.chars[self.at];
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        self.at += if triple { 3 } else { 1 };
        let is_raw = prefix.contains('r');
        let is_bytes = prefix.contains('b');
        let mut out = StringBuilder { text: String::new(), bytes: Vec::new(), is_bytes };
        loop {
            let Some(c) = self.peek(0) else { return self.unrecognized(start) };
            if c == quote && (!triple || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote))) {
                self.at += if triple { 3 } else { 1 };
                break;
            }
            if !triple && matches!(c, '\n' | '\r') {
                return self.unrecognized(start);
            }
            self.at += 1;
            if c == '\\' && !is_raw {
                match self.escape(&mut out) {
                    Ok(()) => {}
                    Err(BadEscape::Unknown) => {
                        self.at = (self.at + 1).min(self.chars.len());
                        return self.unrecognized(start);
                    }
                    Err(BadEscape::Meaningless(complaint)) => self.issues.push(Issue::new(start, complaint)),
                }
            } else if c == '\r' && triple {
                // Line ends inside triple quotes are normalized to a newline.
                if self.peek(0) == Some('\n') {
                    self.at += 1;
                }
                out.push('\n');
            } else {
                out.push(c);
            }
        }
        let token = if is_bytes { Token::Bytes(out.bytes.into()) } else { Token::String(out.text.into()) };
        self.push(token, start);
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, out: &mut StringBuilder) -> Result<(), BadEscape> {
        let c = self.peek(0).ok_or(BadEscape::Unknown)?;
        let simple = match c {
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            '\\' | '\'' | '"' | '`' | '?' => Some(c),
            _ => None,
        };
        if let Some(simple) = simple {
            self.at += 1;
            out.push(simple);
            return Ok(());
        }
        let (skip, digits, radix) = match c {
            'x' | 'X' => (1, 2, 16),
            'u' => (1, 4, 16),
            'U' => (1, 8, 16),
            '0'..='3' => (0, 3, 8),
            _ => return Err(BadEscape::Unknown),
        };
        let mut value = 0u64;
        for ahead in skip..skip + digits {
            let digit = self.peek(ahead).and_then(|c| c.to_digit(radix)).ok_or(BadEscape::Unknown)?;
            value = value * u64::from(radix) + u64::from(digit);
        }
        self.at += skip + digits;
        if out.is_bytes {
            if matches!(c, 'u' | 'U') {
                return Err(BadEscape::Meaningless("unable to unescape string"));
            }
            out.bytes.push(value as u8);
            return Ok(());
        }
        let code_point = u32::try_from(value).ok().and_then(char::from_u32);
        out.push(code_point.ok_or(BadEscape::Meaningless("invalid unicode code point"))?);
        Ok(())
    }
}

/// The reason why an escape sequence is invalid.
enum BadEscape {
    /// The sequence does not exist in the language.
    Unknown,
    /// The sequence is well-formed but denotes no character.
    Meaningless(&'static str),
}

struct StringBuilder {
    text: String,
    bytes: Vec<u8>,
    is_bytes: bool,
}

impl StringBuilder {
    fn push(&mut self, c: char) {
        if self.is_bytes {
            self.bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            self.text.push(c);
        }
    }
}
