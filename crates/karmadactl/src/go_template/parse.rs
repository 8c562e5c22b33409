//! From the text of a Go template to what it says: text, and actions between `{{` and `}}`.

use anyhow::{Context, bail};

/// Maximum nesting depth of conditions and parentheses.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Text(String),
    /// Prints, or only sets a variable.
    Action(Pipeline),
    If(Vec<(Pipeline, Vec<Node>)>, Vec<Node>),
    With(Vec<(Pipeline, Vec<Node>)>, Vec<Node>),
    Range(Pipeline, Vec<Node>, Vec<Node>),
    Template(String, Option<Pipeline>),
    Break,
    Continue,
}

/// `$a, $b := first | second`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    pub variables: Vec<String>,
    /// `=` instead of `:=`.
    pub is_assignment: bool,
    pub commands: Vec<Vec<Operand>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Dot,
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// `.a.b`: of what is at hand.
    Field(Vec<String>),
    /// `$x.a.b`; the first name with its dollar.
    Variable(String, Vec<String>),
    /// `(…).a.b`.
    Nested(Pipeline, Vec<String>),
    Function(String),
}

/// A template and those it defines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    pub nodes: Vec<Node>,
    pub defined: Vec<(String, Vec<Node>)>,
}

pub fn parse(text: &str) -> anyhow::Result<Parsed> {
    let mut parser = Parser { pieces: pieces(text)?.into_iter().peekable(), defined: Vec::new(), depth: 0, loops: 0 };
    let (nodes, end) = parser.block()?;
    match end {
        End::Text => Ok(Parsed { nodes, defined: parser.defined }),
        End::Closed => bail!("unexpected {{{{end}}}}"),
        End::Else(_) => bail!("unexpected {{{{else}}}}"),
    }
}

enum Piece {
    Text(String),
    Action(Vec<Token>),
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A word such as `range`, `eq`, `true`.
    Word(String),
    /// `.a`, with the field's name; empty for the dot alone.
    Field(String),
    Variable(String),
    Text(String),
    Int(i64),
    Float(f64),
    Pipe,
    Declare,
    Assign,
    Comma,
    Open,
    Close,
    Space,
}

/// Splits text from actions, and takes away what `{{-` and `-}}` say.
fn pieces(text: &str) -> anyhow::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut is_trimmed = false;
    loop {
        let found = rest.find("{{");
        let mut plain = &rest[..found.unwrap_or(rest.len())];
        if is_trimmed {
            plain = plain.trim_start();
        }
        let Some(start) = found else {
            pieces.push(Piece::Text(plain.to_owned()));
            return Ok(pieces);
        };
        let mut action = &rest[start + 2..];
        if let Some(trimmed) = action.strip_prefix('-').filter(|after| after.starts_with(char::is_whitespace)) {
            plain = plain.trim_end();
            action = trimmed;
        }
        pieces.push(Piece::Text(plain.to_owned()));
        let end = end_of_action(action).context("unclosed action")?;
        rest = &action[end + 2..];
        let mut inner = &action[..end];
        let trimmed = inner.strip_suffix('-').filter(|before| before.ends_with(char::is_whitespace));
        is_trimmed = trimmed.is_some();
        inner = trimmed.unwrap_or(inner);
        let comment = inner.trim();
        if comment.starts_with("/*") && comment.ends_with("*/") {
            continue;
        }
        pieces.push(Piece::Action(tokens(inner)?));
    }
}

/// Returns the position of the first `}}` outside strings and comments.
fn end_of_action(text: &str) -> Option<usize> {
    let mut quote: Option<char> = None;
    let mut is_escaped = false;
    if text.trim_start().starts_with("/*") {
        let comment = text.find("*/")? + 2;
        return text[comment..].find("}}").map(|end| comment + end);
    }
    for (place, letter) in text.char_indices() {
        match quote {
            Some(open) => {
                if is_escaped {
                    is_escaped = false;
                } else if letter == '\\' && open != '`' {
                    is_escaped = true;
                } else if letter == open {
                    quote = None;
                }
            }
            None if matches!(letter, '"' | '`' | '\'') => quote = Some(letter),
            None if text[place..].starts_with("}}") => return Some(place),
            None => {}
        }
    }
    None
}

fn tokens(text: &str) -> anyhow::Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let name_length = |text: &str| text.find(|letter| !is_name(letter)).unwrap_or(text.len());
        let (token, length) = match letter {
            letter if letter.is_whitespace() => {
                (Token::Space, rest.find(|letter: char| !letter.is_whitespace()).unwrap_or(rest.len()))
            }
            '|' => (Token::Pipe, 1),
            ',' => (Token::Comma, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ':' if rest.starts_with(":=") => (Token::Declare, 2),
            '=' => (Token::Assign, 1),
            '"' | '`' | '\'' => quoted(rest, letter)?,
            '$' => {
                let length = 1 + name_length(&rest[1..]);
                (Token::Variable(rest[..length].to_owned()), length)
            }
            letter if letter.is_ascii_digit() || is_signed_number(rest) => number(rest)?,
            '.' => {
                let length = name_length(&rest[1..]);
                (Token::Field(rest[1..=length].to_owned()), 1 + length)
            }
            letter if is_name(letter) => {
                let length = name_length(rest);
                (Token::Word(rest[..length].to_owned()), length)
            }
            other => bail!("unexpected {other:?} in action"),
        };
        tokens.push(token);
        rest = &rest[length..];
    }
    Ok(tokens)
}

fn is_signed_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-', '.']);
    text.len() - digits.len() <= 2
        && !text.starts_with("..")
        && digits.starts_with(|letter: char| letter.is_ascii_digit())
}

fn number(text: &str) -> anyhow::Result<(Token, usize)> {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '+' | '-' | '_');
    let mut length = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    // `1-2` is no number, `1e-2` is one.
    if let Some(sign) = text[1..length].find(['+', '-']).map(|place| place + 1)
        && !text[..sign].ends_with(['e', 'E'])
    {
        length = sign;
    }
    let word = &text[..length];
    let plain = word.replace('_', "");
    let hex = plain.strip_prefix("0x").and_then(|digits| i64::from_str_radix(digits, 16).ok());
    if let Some(number) = hex.or_else(|| plain.parse().ok()) {
        return Ok((Token::Int(number), length));
    }
    let number: f64 = plain.parse().ok().with_context(|| format!("bad number syntax: {word:?}"))?;
    Ok((Token::Float(number), length))
}

fn quoted(text: &str, quote: char) -> anyhow::Result<(Token, usize)> {
    let mut out = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((place, letter)) = letters.next() {
        match letter {
            letter if letter == quote => {
                let length = place + 1;
                if quote == '\'' {
                    let code = out.chars().next().map_or(0, |letter| i64::from(u32::from(letter)));
                    return Ok((Token::Int(code), length));
                }
                return Ok((Token::Text(out), length));
            }
            '\\' if quote != '`' => {
                let (_, escaped) = letters.next().context("unterminated quoted string")?;
                out.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    '0' => '\0',
                    '\\' | '"' | '\'' => escaped,
                    other => bail!("unknown escape \\{other} in a string"),
                });
            }
            letter => out.push(letter),
        }
    }
    bail!("unterminated quoted string")
}

struct Parser {
    pieces: std::iter::Peekable<std::vec::IntoIter<Piece>>,
    defined: Vec<(String, Vec<Node>)>,
    depth: usize,
    loops: usize,
}

/// A condition, and what stands under it.
type Arm = (Pipeline, Vec<Node>);

/// The end of a block.
enum End {
    Text,
    Closed,
    /// With what stands behind `else`.
    Else(Vec<Token>),
}

impl Parser {
    fn block(&mut self) -> anyhow::Result<(Vec<Node>, End)> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            bail!("the template is nested too deeply");
        }
        let mut nodes = Vec::new();
        let mut end = End::Text;
        while let Some(piece) = self.pieces.next() {
            let tokens = match piece {
                Piece::Text(text) => {
                    if !text.is_empty() {
                        nodes.push(Node::Text(text));
                    }
                    continue;
                }
                Piece::Action(tokens) => trimmed(&tokens).to_vec(),
            };
            let Some(Token::Word(word)) = tokens.first() else {
                nodes.push(Node::Action(pipeline(&tokens)?));
                continue;
            };
            let rest = trimmed(&tokens[1..]);
            match word.as_str() {
                "end" => {
                    end = End::Closed;
                    break;
                }
                "else" => {
                    end = End::Else(rest.to_vec());
                    break;
                }
                _ => nodes.extend(self.keyword(word, rest, &tokens)?),
            }
        }
        self.depth -= 1;
        Ok((nodes, end))
    }

    fn keyword(&mut self, word: &str, rest: &[Token], all: &[Token]) -> anyhow::Result<Option<Node>> {
        Ok(Some(match word {
            "if" => {
                let (arms, otherwise) = self.arms("if", rest)?;
                Node::If(arms, otherwise)
            }
            "with" => {
                let (arms, otherwise) = self.arms("with", rest)?;
                Node::With(arms, otherwise)
            }
            "range" => self.range(rest)?,
            "break" | "continue" if self.loops == 0 => bail!("{{{{{word}}}}} outside {{{{range}}}}"),
            "break" => Node::Break,
            "continue" => Node::Continue,
            "define" => {
                let name = name_of(rest)?;
                let body = self.closed("define")?;
                self.defined.push((name, body));
                return Ok(None);
            }
            "template" => {
                let name = name_of(rest)?;
                let argument = trimmed(&rest[1..]);
                let argument = if argument.is_empty() { None } else { Some(pipeline(argument)?) };
                Node::Template(name, argument)
            }
            "block" => {
                let (name, argument) = (name_of(rest)?, pipeline(trimmed(&rest[1..]))?);
                let body = self.closed("block")?;
                self.defined.push((name.clone(), body));
                Node::Template(name, Some(argument))
            }
            _ => Node::Action(pipeline(all)?),
        }))
    }

    fn closed(&mut self, word: &str) -> anyhow::Result<Vec<Node>> {
        match self.block()? {
            (nodes, End::Closed) => Ok(nodes),
            (_, End::Else(_)) => bail!("unexpected {{{{else}}}} in {{{{{word}}}}}"),
            (_, End::Text) => bail!("unexpected EOF: {{{{{word}}}}} has no {{{{end}}}}"),
        }
    }

    fn range(&mut self, condition: &[Token]) -> anyhow::Result<Node> {
        let over = pipeline(condition)?;
        self.loops += 1;
        let body = self.block();
        self.loops -= 1;
        let (body, end) = body?;
        let otherwise = match end {
            End::Closed => Vec::new(),
            End::Else(rest) if rest.is_empty() => self.closed("range")?,
            End::Else(_) => bail!("{{{{else}}}} of {{{{range}}}} takes no condition"),
            End::Text => bail!("unexpected EOF: {{{{range}}}} has no {{{{end}}}}"),
        };
        Ok(Node::Range(over, body, otherwise))
    }

    /// Conditions with what they lead to, and what is left when none holds.
    fn arms(&mut self, word: &str, condition: &[Token]) -> anyhow::Result<(Vec<Arm>, Vec<Node>)> {
        let mut arms = Vec::new();
        let mut condition = pipeline(condition)?;
        loop {
            let (body, end) = self.block()?;
            arms.push((condition, body));
            match end {
                End::Closed => return Ok((arms, Vec::new())),
                End::Text => bail!("unexpected EOF: {{{{{word}}}}} has no {{{{end}}}}"),
                End::Else(rest) => match rest.first() {
                    None => return Ok((arms, self.closed(word)?)),
                    Some(Token::Word(again)) if again == word => condition = pipeline(trimmed(&rest[1..]))?,
                    Some(_) => bail!("{{{{else}}}} takes nothing or {word}"),
                },
            }
        }
    }
}

fn trimmed(mut tokens: &[Token]) -> &[Token] {
    while let [Token::Space, rest @ ..] | [rest @ .., Token::Space] = tokens {
        tokens = rest;
    }
    tokens
}

fn name_of(tokens: &[Token]) -> anyhow::Result<String> {
    match tokens.first() {
        Some(Token::Text(name)) => Ok(name.clone()),
        _ => bail!("a template's name must be a string"),
    }
}

fn pipeline(tokens: &[Token]) -> anyhow::Result<Pipeline> {
    let mut reader = Reader { tokens, place: 0, depth: 0 };
    let pipeline = reader.pipeline()?;
    match reader.peek() {
        None => Ok(pipeline),
        Some(token) => bail!("unexpected {token:?} in action"),
    }
}

struct Reader<'a> {
    tokens: &'a [Token],
    place: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.place)
    }

    fn skip_space(&mut self) {
        while self.peek() == Some(&Token::Space) {
            self.place += 1;
        }
    }

    fn pipeline(&mut self) -> anyhow::Result<Pipeline> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            bail!("the template is nested too deeply");
        }
        let mut pipeline = self.declaration();
        loop {
            let command = self.command()?;
            if command.is_empty() {
                bail!("missing value for command");
            }
            pipeline.commands.push(command);
            if self.peek() != Some(&Token::Pipe) {
                break;
            }
            self.place += 1;
        }
        self.depth -= 1;
        Ok(pipeline)
    }

    /// `$a :=`, `$a, $b :=`, `$a =`, or nothing.
    fn declaration(&mut self) -> Pipeline {
        let start = self.place;
        let mut variables = Vec::new();
        self.skip_space();
        while let Some(Token::Variable(name)) = self.peek().cloned() {
            variables.push(name);
            self.place += 1;
            self.skip_space();
            match self.peek() {
                Some(Token::Comma) => {
                    self.place += 1;
                    self.skip_space();
                }
                Some(token @ (Token::Declare | Token::Assign)) => {
                    let is_assignment = *token == Token::Assign;
                    self.place += 1;
                    return Pipeline { variables, is_assignment, commands: Vec::new() };
                }
                _ => break,
            }
        }
        self.place = start;
        Pipeline::default()
    }

    fn command(&mut self) -> anyhow::Result<Vec<Operand>> {
        let mut operands = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                None | Some(Token::Pipe | Token::Close) => return Ok(operands),
                Some(_) => operands.push(self.operand()?),
            }
        }
    }

    fn operand(&mut self) -> anyhow::Result<Operand> {
        let Some(token) = self.peek().cloned() else { bail!("missing value for command") };
        self.place += 1;
        Ok(match token {
            Token::Text(text) => Operand::Text(text),
            Token::Int(number) => Operand::Int(number),
            Token::Float(number) => Operand::Float(number),
            Token::Variable(name) => Operand::Variable(name, self.fields()),
            Token::Field(name) if name.is_empty() => Operand::Dot,
            Token::Field(name) => {
                let mut path = vec![name];
                path.extend(self.fields());
                Operand::Field(path)
            }
            Token::Word(word) => match word.as_str() {
                "true" | "false" => Operand::Bool(word == "true"),
                "nil" => Operand::Nil,
                _ => Operand::Function(word),
            },
            Token::Open => {
                let nested = self.pipeline()?;
                if self.peek() != Some(&Token::Close) {
                    bail!("unclosed left paren");
                }
                self.place += 1;
                Operand::Nested(nested, self.fields())
            }
            other => bail!("unexpected {other:?} in operand"),
        })
    }

    /// The `.a.b` that follows without a space.
    fn fields(&mut self) -> Vec<String> {
        let mut fields = Vec::new();
        while let Some(Token::Field(name)) = self.peek() {
            if name.is_empty() {
                break;
            }
            fields.push(name.clone());
            self.place += 1;
        }
        fields
    }
}
