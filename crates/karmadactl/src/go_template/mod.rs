//! Go's `text/template` over the JSON of objects, as `kubectl get -o go-template` has it.
//!
//! Has all actions (text, fields, variables, pipelines, if, with, range, break, continue, define, template, block, comments,
//! trimming) and all functions but `call`, which needs functions among the data. Data are as kubectl reads them: whole
//! numbers are integers, so `eq .spec.replicas 2.0` is an error there and here.

mod functions;
mod parse;
mod value;

use std::collections::HashMap;

use anyhow::{Context, bail};
use serde_json::Value;

use self::parse::{Node, Operand, Pipeline};
use self::value::Val;

/// Bytes one template may print.
const OUTPUT_MAX: usize = 256 * 1024 * 1024;
/// Maximum depth of template calls.
const CALLS_MAX: usize = 100;
/// Actions and iterations one template may run. Templates may count to any number, so a time limit is needed.
const STEPS_MAX: u64 = 10_000_000;

/// A template that can be read.
#[derive(Clone, Debug)]
pub struct GoTemplate {
    nodes: Vec<Node>,
    defined: HashMap<String, Vec<Node>>,
}

impl GoTemplate {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let parsed = parse::parse(text).context("error parsing template")?;
        Ok(Self { nodes: parsed.nodes, defined: parsed.defined.into_iter().collect() })
    }

    pub fn render(&self, data: &Value) -> anyhow::Result<String> {
        self.render_within(data, STEPS_MAX)
    }

    fn render_within(&self, data: &Value, steps_left: u64) -> anyhow::Result<String> {
        let root = Val::of(data);
        let variables = vec![("$".to_owned(), root.clone())];
        let mut run = Run { template: self, out: String::new(), variables, calls: 0, steps_left };
        run.nodes(&self.nodes, &root).context("error executing template")?;
        Ok(run.out)
    }
}

struct Run<'t, 'a> {
    template: &'t GoTemplate,
    out: String,
    /// The innermost last.
    variables: Vec<(String, Val<'a>)>,
    calls: usize,
    steps_left: u64,
}

/// The way a list of nodes ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

impl<'a> Run<'_, 'a> {
    fn nodes(&mut self, nodes: &[Node], dot: &Val<'a>) -> anyhow::Result<Flow> {
        for node in nodes {
            self.step()?;
            let flow = self.node(node, dot)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    /// Runs nodes in a scope of their own: variables declared in it are removed at its end.
    fn scope(&mut self, nodes: &[Node], dot: &Val<'a>) -> anyhow::Result<Flow> {
        let known = self.variables.len();
        let flow = self.nodes(nodes, dot);
        self.variables.truncate(known);
        flow
    }

    fn node(&mut self, node: &Node, dot: &Val<'a>) -> anyhow::Result<Flow> {
        match node {
            Node::Text(text) => self.write(text)?,
            Node::Action(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    self.write(&value.print())?;
                }
            }
            Node::If(arms, otherwise) => return self.choose(arms, otherwise, dot, false),
            Node::With(arms, otherwise) => return self.choose(arms, otherwise, dot, true),
            Node::Range(over, body, otherwise) => return self.range(over, body, otherwise, dot),
            Node::Template(name, argument) => self.call(name, argument.as_ref(), dot)?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn step(&mut self) -> anyhow::Result<()> {
        let left = self.steps_left.checked_sub(1);
        self.steps_left = left.context("the template runs too many actions and iterations")?;
        Ok(())
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        if self.out.len() + text.len() > OUTPUT_MAX {
            bail!("the template prints more than {OUTPUT_MAX} bytes");
        }
        self.out += text;
        Ok(())
    }

    fn choose(
        &mut self,
        arms: &[(Pipeline, Vec<Node>)],
        otherwise: &[Node],
        dot: &Val<'a>,
        is_with: bool,
    ) -> anyhow::Result<Flow> {
        let known = self.variables.len();
        let mut flow = None;
        for (condition, body) in arms {
            let value = self.pipeline(condition, dot)?;
            if value.is_true() {
                flow = Some(self.scope(body, if is_with { &value } else { dot })?);
                break;
            }
        }
        let flow = match flow {
            Some(flow) => flow,
            None => self.scope(otherwise, dot)?,
        };
        self.variables.truncate(known);
        Ok(flow)
    }

    fn range(&mut self, over: &Pipeline, body: &[Node], otherwise: &[Node], dot: &Val<'a>) -> anyhow::Result<Flow> {
        let bare = Pipeline { variables: Vec::new(), ..over.clone() };
        let items: Box<dyn Iterator<Item = (Val<'a>, Val<'a>)> + 'a> = match self.pipeline(&bare, dot)? {
            Val::Part(items) => Box::new(items.iter().enumerate().map(|(place, item)| (number(place), Val::of(item)))),
            Val::Json(Value::Object(map)) => {
                let mut entries: Vec<(&String, &Value)> = map.iter().collect();
                entries.sort_by_key(|(key, _)| key.as_str());
                Box::new(entries.into_iter().map(|(key, value)| (Val::Text(key.into()), Val::of(value))))
            }
            Val::Int(count) if u64::try_from(count).is_ok_and(|count| count > self.steps_left) => {
                bail!("range over {count} has too many iterations")
            }
            Val::Int(count) => Box::new((0..count).map(|count| (Val::Int(count), Val::Int(count)))),
            Val::Missing => Box::new(std::iter::empty()),
            other => bail!("range can't iterate over {}", other.show()),
        };
        let mut items = items.peekable();
        if items.peek().is_none() {
            return self.scope(otherwise, dot);
        }
        let known = self.variables.len();
        for (key, item) in items {
            self.step()?;
            match &over.variables[..] {
                [] => {}
                [one] => self.bind(one, item.clone(), over.is_assignment)?,
                [first, second, ..] => {
                    self.bind(first, key, over.is_assignment)?;
                    self.bind(second, item.clone(), over.is_assignment)?;
                }
            }
            let flow = self.scope(body, &item)?;
            if !over.is_assignment {
                self.variables.truncate(known);
            }
            if flow == Flow::Break {
                break;
            }
        }
        self.variables.truncate(known);
        Ok(Flow::Next)
    }

    fn call(&mut self, name: &str, argument: Option<&Pipeline>, dot: &Val<'a>) -> anyhow::Result<()> {
        let template = self.template;
        let Some(nodes) = template.defined.get(name) else { bail!("template {name:?} not defined") };
        let argument = match argument {
            Some(pipeline) => self.pipeline(pipeline, dot)?,
            None => Val::Missing,
        };
        self.calls += 1;
        if self.calls > CALLS_MAX {
            bail!("exceeded maximum template depth ({CALLS_MAX})");
        }
        let outer = std::mem::replace(&mut self.variables, vec![("$".to_owned(), argument.clone())]);
        let result = self.nodes(nodes, &argument);
        self.variables = outer;
        self.calls -= 1;
        result.map(drop)
    }

    fn bind(&mut self, name: &str, value: Val<'a>, is_assignment: bool) -> anyhow::Result<()> {
        if !is_assignment {
            self.variables.push((name.to_owned(), value));
            return Ok(());
        }
        let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
        let Some((_, place)) = known else { bail!("undefined variable {name:?}") };
        *place = value;
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Val<'a>) -> anyhow::Result<Val<'a>> {
        let mut last: Option<Val<'a>> = None;
        for command in &pipeline.commands {
            last = Some(self.command(command, dot, last)?);
        }
        let value = last.unwrap_or(Val::Missing);
        if let [name] = &pipeline.variables[..] {
            self.bind(name, value.clone(), pipeline.is_assignment)?;
        } else if !pipeline.variables.is_empty() {
            bail!("too many declarations in command");
        }
        Ok(value)
    }

    fn command(&mut self, command: &[Operand], dot: &Val<'a>, last: Option<Val<'a>>) -> anyhow::Result<Val<'a>> {
        let Some((first, rest)) = command.split_first() else { bail!("missing value for command") };
        if let Operand::Function(name) = first {
            return self.function(name, rest, dot, last);
        }
        if !rest.is_empty() || last.is_some() {
            bail!("can't give argument to non-function {first:?}");
        }
        self.operand(first, dot)
    }

    fn function(
        &mut self,
        name: &str,
        operands: &[Operand],
        dot: &Val<'a>,
        last: Option<Val<'a>>,
    ) -> anyhow::Result<Val<'a>> {
        // These two look at no more than they must.
        if matches!(name, "and" | "or") {
            let mut value = None;
            for operand in operands {
                let next = self.operand(operand, dot)?;
                let is_decided = next.is_true() == (name == "or");
                value = Some(next);
                if is_decided {
                    return Ok(value.unwrap_or(Val::Missing));
                }
            }
            return last.or(value).with_context(|| format!("wrong number of args for {name}: want at least 1 got 0"));
        }
        let mut arguments = Vec::with_capacity(operands.len() + 1);
        for operand in operands {
            arguments.push(self.operand(operand, dot)?);
        }
        arguments.extend(last);
        functions::call(name, &arguments)
    }

    fn operand(&mut self, operand: &Operand, dot: &Val<'a>) -> anyhow::Result<Val<'a>> {
        match operand {
            Operand::Dot => Ok(dot.clone()),
            Operand::Nil => bail!("nil is not a command"),
            Operand::Bool(value) => Ok(Val::Bool(*value)),
            Operand::Int(number) => Ok(Val::Int(*number)),
            Operand::Float(number) => Ok(Val::Float(*number)),
            Operand::Text(text) => Ok(Val::Text(text.clone().into())),
            Operand::Field(path) => fields(dot.clone(), path),
            Operand::Variable(name, path) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                let value = known.with_context(|| format!("undefined variable {name:?}"))?.1.clone();
                fields(value, path)
            }
            Operand::Nested(pipeline, path) => {
                let value = self.pipeline(pipeline, dot)?;
                fields(value, path)
            }
            Operand::Function(name) => self.function(name, &[], dot, None),
        }
    }
}

fn number<'a>(place: usize) -> Val<'a> {
    Val::Int(i64::try_from(place).unwrap_or(i64::MAX))
}

/// One field after the other. A key that is not there is nothing; of nothing there is no field.
fn fields<'a>(value: Val<'a>, path: &[String]) -> anyhow::Result<Val<'a>> {
    path.iter().try_fold(value, |value, name| match &value {
        Val::Json(Value::Object(map)) => Ok(map.get(name).map_or(Val::Missing, Val::of)),
        Val::Missing => bail!("nil pointer evaluating interface {{}}.{name}"),
        other => bail!("can't evaluate field {name} in type {}", other.kind()),
    })
}

#[cfg(test)]
mod tests;
