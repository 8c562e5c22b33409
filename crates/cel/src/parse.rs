//! Turns tokens into an expression tree; macros are expanded meanwhile (see `macros`).

use crate::ast::{Ast, Expr, ExprKind, Literal, MapEntry, NodeId, StructField};
use crate::escape::RESERVED;
use crate::lex::{Lexeme, Token, lex};
use crate::macros::{self, MacroSet};
use crate::source::{CompileError, Issue, SourceText};

/// Longest expression accepted, in code points.
pub const EXPRESSION_SIZE_MAX: usize = 100_000;
/// Deepest expression accepted: everything after the parser recurses over the tree.
pub const EXPRESSION_DEPTH_MAX: usize = 250;

const EXPRESSION_START: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
const EXPRESSION_START_OR_END_OF_CALL: &str = "{'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

const EXPRESSION_START_OR_OPTIONAL: &str = "{'[', '{', '(', '.', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

pub(crate) fn parse(source: &SourceText, macro_set: MacroSet) -> Result<Ast, CompileError> {
    if source.chars.len() > EXPRESSION_SIZE_MAX {
        return Err(CompileError::without_place(format!(
            "expression code point size exceeds limit: size: {}, limit {EXPRESSION_SIZE_MAX}",
            source.chars.len()
        )));
    }
    let (lexemes, issues) = lex(source);
    let mut parser = Parser {
        lexemes,
        at: 0,
        nesting: 0,
        nodes: NodeFactory { offsets: Vec::new(), depths: Vec::new() },
        issues,
        macro_set,
    };
    let root = parser.expr().and_then(|root| parser.expect_end().map(|()| root));
    match root {
        Ok(root) if parser.issues.is_empty() => Ok(Ast { root, offsets: parser.nodes.offsets }),
        Ok(_) => Err(CompileError::of_issues(source, parser.issues)),
        Err(Stop::Issue(issue)) => {
            parser.issues.push(issue);
            Err(CompileError::of_issues(source, parser.issues))
        }
        Err(Stop::TooDeep) => {
            Err(CompileError::without_place(format!("expression recursion limit exceeded: {EXPRESSION_DEPTH_MAX}")))
        }
    }
}

/// The reason why parsing stopped.
pub(crate) enum Stop {
    Issue(Issue),
    TooDeep,
}

type Parsed<T> = Result<T, Stop>;

/// Assigns node ids and checks the depth of the tree.
pub(crate) struct NodeFactory {
    offsets: Vec<usize>,
    depths: Vec<usize>,
}

impl NodeFactory {
    pub(crate) fn offset(&self, id: NodeId) -> usize {
        self.offsets[id]
    }

    pub(crate) fn node(&mut self, offset: usize, kind: ExprKind) -> Parsed<Expr> {
        let depths = &self.depths;
        let of = |expr: &Expr| depths[expr.id];
        let below = match &kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => 0,
            ExprKind::Select { operand, .. } => of(operand) + 1,
            ExprKind::Call { target, args, .. } => args.iter().chain(target.as_deref()).map(of).max().unwrap_or(0) + 1,
            ExprKind::List { elements, .. } => elements.iter().map(of).max().unwrap_or(0) + 1,
            ExprKind::Map { entries } => {
                entries.iter().flat_map(|entry| [&entry.key, &entry.value]).map(of).max().unwrap_or(0) + 1
            }
            ExprKind::Struct { fields, .. } => fields.iter().map(|field| of(&field.value)).max().unwrap_or(0) + 1,
            ExprKind::Comprehension(fold) => {
                [&fold.range, &fold.accu_init, &fold.condition, &fold.step, &fold.result]
                    .into_iter()
                    .map(of)
                    .max()
                    .unwrap_or(0)
                    + 2
            }
        };
        if below > EXPRESSION_DEPTH_MAX {
            return Err(Stop::TooDeep);
        }
        let id = self.offsets.len();
        self.offsets.push(offset);
        self.depths.push(below);
        Ok(Expr { id, kind })
    }
}

/// Functions between one nested expression and the next are kept out of line, so that each uses little stack: nesting
/// is bounded, but so is the stack of a worker thread.
struct Parser {
    lexemes: Vec<Lexeme>,
    at: usize,
    nesting: usize,
    nodes: NodeFactory,
    issues: Vec<Issue>,
    macro_set: MacroSet,
}

/// A binary operator between two operands; a higher level binds tighter.
struct Operator {
    sign: &'static str,
    level: u8,
    start: usize,
}

impl Parser {
    fn current(&self) -> &Lexeme {
        &self.lexemes[self.at]
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.current().token, Token::Sign(found) if found == sign)
    }

    /// Consumes the sign if it is next, and returns its position.
    fn take(&mut self, sign: &str) -> Option<usize> {
        self.is_sign(sign).then(|| {
            let start = self.current().start;
            self.at += 1;
            start
        })
    }

    fn syntax_error(&self, message: String) -> Stop {
        Stop::Issue(Issue::new(self.current().start, format!("Syntax error: {message}")))
    }

    fn starts_expression(lexeme: &Lexeme) -> bool {
        match &lexeme.token {
            Token::Sign(sign) => matches!(*sign, "[" | "{" | "(" | "." | "-" | "!"),
            Token::End | Token::EscapedIdent => false,
            _ => true,
        }
    }

    fn unexpected(&self, expecting: &str) -> Stop {
        self.syntax_error(format!("mismatched input '{}' expecting {expecting}", self.current().text))
    }

    /// Reports a token that cannot start an expression; skips it if the next one can.
    #[inline(never)]
    fn skip_extraneous(&mut self, expecting: &str, next_fits: impl Fn(&Lexeme) -> bool) -> Parsed<()> {
        if !self.lexemes.get(self.at + 1).is_some_and(next_fits) {
            return Err(self.unexpected(expecting));
        }
        let complaint = format!("Syntax error: extraneous input '{}' expecting {expecting}", self.current().text);
        self.issues.push(Issue::new(self.current().start, complaint));
        self.at += 1;
        Ok(())
    }

    fn expect_end(&self) -> Parsed<()> {
        if self.current().token == Token::End {
            return Ok(());
        }
        let last = self.lexemes.get(self.at + 1).is_some_and(|next| next.token == Token::End);
        let kind = if last { "extraneous" } else { "mismatched" };
        Err(self.syntax_error(format!("{kind} input '{}' expecting <EOF>", self.current().text)))
    }

    fn expr(&mut self) -> Parsed<Expr> {
        self.nesting += 1;
        if self.nesting > EXPRESSION_DEPTH_MAX {
            return Err(Stop::TooDeep);
        }
        let condition = self.operation()?;
        let result = match self.take("?") {
            None => condition,
            Some(start) => {
                let then = self.operation()?;
                if self.take(":").is_none() {
                    return Err(self.unexpected("':'"));
                }
                let otherwise = self.expr()?;
                self.call(start, "_?_:_", vec![condition, then, otherwise])?
            }
        };
        self.nesting -= 1;
        Ok(result)
    }

    #[inline(never)]
    fn call(&mut self, offset: usize, function: &str, args: Vec<Expr>) -> Parsed<Expr> {
        self.nodes.node(offset, ExprKind::Call { function: function.to_owned(), target: None, args })
    }

    /// Operands joined by binary operators. They are read in one loop and joined level by level, because descending
    /// through the levels would exhaust the stack on nested expressions.
    #[inline(never)]
    fn operation(&mut self) -> Parsed<Expr> {
        let mut terms = vec![self.unary()?];
        let mut operators = Vec::new();
        while let Some(operator) = self.take_operator() {
            operators.push(operator);
            terms.push(self.unary()?);
        }
        if operators.is_empty() {
            return Ok(terms.remove(0));
        }
        for level in [5, 4, 3] {
            self.join_left(&mut terms, &mut operators, level)?;
        }
        self.join_balanced(&mut terms, &mut operators, 2, "_&&_")?;
        self.join_balanced(&mut terms, &mut operators, 1, "_||_")?;
        Ok(terms.remove(0))
    }

    fn take_operator(&mut self) -> Option<Operator> {
        let Token::Sign(sign) = self.current().token else { return None };
        let level = match sign {
            "||" => 1,
            "&&" => 2,
            "<" | "<=" | ">" | ">=" | "==" | "!=" | "in" => 3,
            "+" | "-" => 4,
            "*" | "/" | "%" => 5,
            _ => return None,
        };
        let start = self.current().start;
        self.at += 1;
        Some(Operator { sign, level, start })
    }

    /// Joins the operands of all operators of a level, from left to right.
    #[inline(never)]
    fn join_left(&mut self, terms: &mut Vec<Expr>, operators: &mut Vec<Operator>, level: u8) -> Parsed<()> {
        let mut rest = std::mem::take(terms).into_iter();
        terms.extend(rest.next());
        for (operator, right) in std::mem::take(operators).into_iter().zip(rest) {
            match terms.pop() {
                Some(left) if operator.level == level => {
                    let function =
                        if operator.sign == "in" { "@in".to_owned() } else { format!("_{}_", operator.sign) };
                    terms.push(self.call(operator.start, &function, vec![left, right])?);
                }
                left => {
                    terms.extend(left);
                    terms.push(right);
                    operators.push(operator);
                }
            }
        }
        Ok(())
    }

    /// Joins chains of one logical operator into balanced trees, so that long chains stay shallow.
    #[inline(never)]
    fn join_balanced(
        &mut self,
        terms: &mut Vec<Expr>,
        operators: &mut Vec<Operator>,
        level: u8,
        function: &str,
    ) -> Parsed<()> {
        let mut rest = std::mem::take(terms).into_iter();
        let mut chain: Vec<Option<Expr>> = vec![rest.next()];
        let mut starts = Vec::new();
        for (operator, right) in std::mem::take(operators).into_iter().zip(rest) {
            if operator.level == level {
                starts.push(operator.start);
            } else {
                terms.push(self.balanced(function, &mut chain, &starts, 0..starts.len())?);
                operators.push(operator);
                chain.clear();
                starts.clear();
            }
            chain.push(Some(right));
        }
        let last = self.balanced(function, &mut chain, &starts, 0..starts.len())?;
        terms.push(last);
        Ok(())
    }

    #[inline(never)]
    fn balanced(
        &mut self,
        function: &str,
        terms: &mut [Option<Expr>],
        starts: &[usize],
        operators: std::ops::Range<usize>,
    ) -> Parsed<Expr> {
        if operators.is_empty() {
            return Ok(terms[operators.start].take().expect("each term belongs to exactly one leaf"));
        }
        let middle = (operators.start + operators.end) / 2;
        let left = self.balanced(function, terms, starts, operators.start..middle)?;
        let right = self.balanced(function, terms, starts, middle + 1..operators.end)?;
        self.call(starts[middle], function, vec![left, right])
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let first = self.current().start;
        let sign = if self.is_sign("!") { "!" } else { "-" };
        let mut count = 0usize;
        while self.is_sign(sign) {
            let next = &self.lexemes[self.at + 1].token;
            if sign == "-" && count == 0 && matches!(next, Token::Int | Token::Double) {
                return self.member();
            }
            self.at += 1;
            count += 1;
        }
        let operand = self.member()?;
        if count.is_multiple_of(2) {
            return Ok(operand);
        }
        self.call(first, if sign == "!" { "!_" } else { "-_" }, vec![operand])
    }

    fn member(&mut self) -> Parsed<Expr> {
        let mut operand = self.primary()?;
        loop {
            if let Some(start) = self.take(".") {
                operand = self.selection(operand, start)?;
            } else if let Some(start) = self.take("[") {
                let optional = self.take("?").is_some();
                if !optional && !Self::starts_expression(self.current()) {
                    return Err(self.unexpected(EXPRESSION_START_OR_OPTIONAL));
                }
                let index = self.expr()?;
                self.close("]", "']'")?;
                operand = self.call(start, if optional { "_[?_]" } else { "_[_]" }, vec![operand, index])?;
            } else if self.is_sign("{") {
                let Some(type_name) = operand.qualified_name() else { return Ok(operand) };
                operand = self.struct_literal(type_name)?;
            } else {
                return Ok(operand);
            }
        }
    }

    #[inline(never)]
    fn selection(&mut self, operand: Expr, start: usize) -> Parsed<Expr> {
        let optional = self.take("?").is_some();
        let field = self.current().clone();
        match field.token {
            Token::Ident => self.at += 1,
            Token::EscapedIdent => {
                return Err(Stop::Issue(Issue::new(field.start, "unsupported syntax: '`'")));
            }
            _ if optional => return Err(self.unexpected("{IDENTIFIER, ESC_IDENTIFIER}")),
            _ => return Err(self.syntax_error(format!("no viable alternative at input '.{}'", eof_blank(&field)))),
        }
        if optional {
            let name = self.nodes.node(field.start, ExprKind::Literal(Literal::String(field.text.into())))?;
            return self.call(start, "_?._", vec![operand, name]);
        }
        let Some(open) = self.take("(") else {
            return self
                .nodes
                .node(start, ExprKind::Select { operand: Box::new(operand), field: field.text, test_only: false });
        };
        let args = self.arguments()?;
        let expanded = macros::expand_member(&mut self.nodes, self.macro_set, open, &field.text, &operand, &args)?;
        match expanded {
            Some(expanded) => Ok(expanded),
            None => {
                let target = Some(Box::new(operand));
                self.nodes.node(open, ExprKind::Call { function: field.text, target, args })
            }
        }
    }

    fn close(&mut self, sign: &'static str, shown: &str) -> Parsed<()> {
        if self.take(sign).is_some() {
            return Ok(());
        }
        if self.current().token == Token::End {
            return Err(self.syntax_error(format!("missing {shown} at '<EOF>'")));
        }
        Err(self.unexpected(shown))
    }

    /// Arguments of a call, past the opening parenthesis.
    #[inline(never)]
    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut args = Vec::new();
        if self.take(")").is_some() {
            return Ok(args);
        }
        if !Self::starts_expression(self.current()) {
            let fits = |next: &Lexeme| Self::starts_expression(next) || next.token == Token::Sign(")");
            self.skip_extraneous(EXPRESSION_START_OR_END_OF_CALL, fits)?;
            return self.arguments();
        }
        loop {
            args.push(self.expr()?);
            if self.take(",").is_some() {
                continue;
            }
            if self.take(")").is_some() {
                return Ok(args);
            }
            return Err(self.unexpected("{')', ','}"));
        }
    }

    #[inline(never)]
    fn primary(&mut self) -> Parsed<Expr> {
        let leading_dot = self.take(".").is_some();
        if leading_dot || self.current().token == Token::Ident {
            return self.identifier(leading_dot);
        }
        if self.take("(").is_some() {
            let inner = self.expr()?;
            self.close(")", "')'")?;
            return Ok(inner);
        }
        self.atom()
    }

    /// An expression that starts with its own sign: a list, a map or a literal.
    #[inline(never)]
    fn atom(&mut self) -> Parsed<Expr> {
        let start = self.current().start;
        match self.current().token.clone() {
            Token::Sign("[") => self.list_literal(),
            Token::Sign("{") => self.map_literal(),
            Token::Sign("-") if matches!(self.lexemes[self.at + 1].token, Token::Int | Token::Double) => {
                self.at += 1;
                self.number(start, "-")
            }
            Token::Int | Token::Uint | Token::Double => self.number(start, ""),
            Token::String(text) => self.literal(Literal::String(text)),
            Token::Bytes(bytes) => self.literal(Literal::Bytes(bytes)),
            Token::True => self.literal(Literal::Bool(true)),
            Token::False => self.literal(Literal::Bool(false)),
            Token::Null => self.literal(Literal::Null),
            _ => {
                self.skip_extraneous(EXPRESSION_START, Self::starts_expression)?;
                self.primary()
            }
        }
    }

    #[inline(never)]
    fn literal(&mut self, literal: Literal) -> Parsed<Expr> {
        let start = self.current().start;
        self.at += 1;
        self.nodes.node(start, ExprKind::Literal(literal))
    }

    #[inline(never)]
    fn number(&mut self, start: usize, sign: &str) -> Parsed<Expr> {
        let lexeme = self.current().clone();
        self.at += 1;
        let text = format!("{sign}{}", lexeme.text);
        let digits = lexeme.text.trim_end_matches(['u', 'U']);
        let (parsed, name) = match lexeme.token {
            Token::Double => (text.parse().ok().filter(|d: &f64| d.is_finite()).map(Literal::Double), "double"),
            Token::Uint => {
                let value = match digits.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => digits.parse(),
                };
                (value.ok().map(Literal::Uint), "uint")
            }
            _ => {
                let value = match digits.strip_prefix("0x") {
                    Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16),
                    None => text.parse(),
                };
                (value.ok().map(Literal::Int), "int")
            }
        };
        let Some(literal) = parsed else {
            return Err(Stop::Issue(Issue::new(start, format!("invalid {name} literal"))));
        };
        self.nodes.node(start, ExprKind::Literal(literal))
    }

    #[inline(never)]
    fn identifier(&mut self, leading_dot: bool) -> Parsed<Expr> {
        let lexeme = self.current().clone();
        if lexeme.token != Token::Ident {
            return Err(self.unexpected("IDENTIFIER"));
        }
        self.at += 1;
        if RESERVED.contains(&lexeme.text.as_str()) {
            return Err(Stop::Issue(Issue::new(lexeme.start, format!("reserved identifier: {}", lexeme.text))));
        }
        let Some(open) = self.take("(") else {
            // A leading dot selects the outermost scope, which is the only one with declarations.
            return self.nodes.node(lexeme.start, ExprKind::Ident(lexeme.text));
        };
        let args = self.arguments()?;
        if !leading_dot {
            let expanded = macros::expand_global(&mut self.nodes, open, &lexeme.text, &args)?;
            if let Some(expanded) = expanded {
                return Ok(expanded);
            }
        }
        self.call(open, &lexeme.text, args)
    }

    #[inline(never)]
    fn list_literal(&mut self) -> Parsed<Expr> {
        let start = self.current().start;
        self.at += 1;
        let (mut elements, mut optional) = (Vec::new(), Vec::new());
        loop {
            if self.take("]").is_some() {
                break;
            }
            optional.push(self.take("?").is_some());
            elements.push(self.expr()?);
            if self.take(",").is_none() && !self.is_sign("]") {
                return Err(self.unexpected("{']', ','}"));
            }
        }
        self.nodes.node(start, ExprKind::List { elements, optional })
    }

    #[inline(never)]
    fn map_literal(&mut self) -> Parsed<Expr> {
        let start = self.current().start;
        self.at += 1;
        let mut entries = Vec::new();
        loop {
            if self.take("}").is_some() {
                break;
            }
            let optional = self.take("?").is_some();
            let key = self.expr()?;
            if self.take(":").is_none() {
                return Err(self.unexpected("':'"));
            }
            let value = self.expr()?;
            entries.push(MapEntry { key, value, optional });
            if self.take(",").is_none() && !self.is_sign("}") {
                return Err(self.unexpected("{'}', ','}"));
            }
        }
        self.nodes.node(start, ExprKind::Map { entries })
    }

    #[inline(never)]
    fn struct_literal(&mut self, type_name: String) -> Parsed<Expr> {
        let start = self.current().start;
        self.at += 1;
        let mut fields = Vec::new();
        loop {
            if self.take("}").is_some() {
                break;
            }
            let optional = self.take("?").is_some();
            if self.current().token != Token::Ident {
                return Err(self.unexpected("IDENTIFIER"));
            }
            let name = self.current().text.to_string();
            self.at += 1;
            if self.take(":").is_none() {
                return Err(self.unexpected("':'"));
            }
            fields.push(StructField { name, value: self.expr()?, optional });
            if self.take(",").is_none() && !self.is_sign("}") {
                return Err(self.unexpected("{'}', ','}"));
            }
        }
        self.nodes.node(start, ExprKind::Struct { type_name, fields })
    }
}

fn eof_blank(lexeme: &Lexeme) -> &str {
    if lexeme.token == Token::End { "" } else { &lexeme.text }
}
