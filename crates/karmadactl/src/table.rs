//! Tables: read from a server, merged from several clusters, and printed as kubectl does.

use object::Object;
use serde_json::{Value, json};

use crate::durations;
use crate::tabs;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// Columns above 0 are shown only with -o wide.
    pub priority: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub cells: Vec<Value>,
    /// The object of the row; at least its metadata.
    pub object: Object,
}

/// Printing options of a table.
#[derive(Clone, Debug, Default)]
pub struct Look {
    pub wide: bool,
    pub no_headers: bool,
    pub with_namespace: bool,
    /// Prefix of names, as in `deployment.apps/nginx`.
    pub kind: Option<String>,
    pub show_labels: bool,
    pub label_columns: Vec<String>,
}

/// Columns of objects from a server without table support.
const PLAIN_COLUMNS: [&str; 2] = ["Name", "Age"];

impl Table {
    /// Reads the `Table` of a response, or builds one from its objects.
    pub fn read(answer: Value, now: jiff::Timestamp) -> Option<Self> {
        match answer["kind"].as_str()? {
            "Table" => Some(Self::from_server(answer)),
            kind if kind.ends_with("List") && answer["items"].is_array() => {
                let items = answer["items"].as_array().cloned().unwrap_or_default();
                Some(Self::plain(items.into_iter().filter_map(Object::from_value), now))
            }
            _ => Object::from_value(answer).map(|object| Self::plain([object], now)),
        }
    }

    fn from_server(mut answer: Value) -> Self {
        let columns = answer["columnDefinitions"].as_array().into_iter().flatten().map(|column| Column {
            name: column["name"].as_str().unwrap_or_default().to_owned(),
            priority: column["priority"].as_i64().unwrap_or(0),
        });
        let columns = columns.collect();
        let rows = match answer["rows"].take() {
            Value::Array(rows) => rows,
            _ => Vec::new(),
        };
        let rows = rows.into_iter().map(|mut row| Row {
            cells: row["cells"].take().as_array().cloned().unwrap_or_default(),
            object: Object::from_value(row["object"].take()).unwrap_or_default(),
        });
        Self { columns, rows: rows.collect() }
    }

    /// Builds a table with name and age.
    pub fn plain(objects: impl IntoIterator<Item = Object>, now: jiff::Timestamp) -> Self {
        let columns = PLAIN_COLUMNS.map(|name| Column { name: name.to_owned(), priority: 0 });
        let rows = objects.into_iter().map(|object| Row {
            cells: vec![json!(object.name()), json!(durations::since(object.creation_timestamp(), now))],
            object,
        });
        Self { columns: columns.into(), rows: rows.collect() }
    }

    /// Inserts a column after the first one.
    pub fn insert_second(&mut self, name: &str, cell: impl Fn(&Object) -> String) {
        let at = self.columns.len().min(1);
        self.columns.insert(at, Column { name: name.to_owned(), priority: 0 });
        for row in &mut self.rows {
            row.cells.insert(at.min(row.cells.len()), cell(&row.object).into());
        }
    }

    pub fn push(&mut self, name: &str, priority: i64, cell: impl Fn(&Object) -> String) {
        self.columns.push(Column { name: name.to_owned(), priority });
        let count = self.columns.len();
        for row in &mut self.rows {
            row.cells.resize(count - 1, Value::Null);
            row.cells.push(cell(&row.object).into());
        }
    }

    pub fn insert_first(&mut self, name: &str, cell: &str) {
        self.columns.insert(0, Column { name: name.to_owned(), priority: 0 });
        for row in &mut self.rows {
            row.cells.insert(0, cell.into());
        }
    }

    /// Adds the rows of another table. Cells are matched by column name, since clusters of different versions may have
    /// different columns; new columns are added at the end.
    pub fn extend(&mut self, other: Self) {
        if self.columns.is_empty() {
            *self = other;
            return;
        }
        if self.columns == other.columns {
            self.rows.extend(other.rows);
            return;
        }
        let places: Vec<usize> = other.columns.iter().map(|column| self.place_of(column)).collect();
        for row in other.rows {
            let mut cells = vec![Value::Null; self.columns.len()];
            for (place, cell) in places.iter().zip(row.cells) {
                cells[*place] = cell;
            }
            self.rows.push(Row { cells, object: row.object });
        }
    }

    fn place_of(&mut self, column: &Column) -> usize {
        if let Some(place) = self.columns.iter().position(|own| own.name == column.name) {
            return place;
        }
        self.columns.push(column.clone());
        for row in &mut self.rows {
            row.cells.resize(self.columns.len(), Value::Null);
        }
        self.columns.len() - 1
    }

    /// Prints the table with aligned columns; empty if it has no rows.
    pub fn print(&self, look: &Look) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        tabs::align(&self.tabbed(look), tabs::TABLE)
    }

    /// Returns one line per row, with tab-separated cells.
    pub fn tabbed(&self, look: &Look) -> String {
        let shown: Vec<usize> =
            (0..self.columns.len()).filter(|i| look.wide || self.columns[*i].priority == 0).collect();
        let mut lines = String::new();
        if !look.no_headers {
            let mut cells: Vec<String> = Vec::new();
            if look.with_namespace {
                cells.push("NAMESPACE".into());
            }
            cells.extend(shown.iter().map(|i| self.columns[*i].name.to_uppercase()));
            cells.extend(look.label_columns.iter().map(|key| key.rsplit('/').next().unwrap_or(key).to_uppercase()));
            if look.show_labels {
                cells.push("LABELS".into());
            }
            push_line(&mut lines, &cells);
        }
        for row in &self.rows {
            push_line(&mut lines, &self.cells_of(row, &shown, look));
        }
        lines
    }

    fn cells_of(&self, row: &Row, shown: &[usize], look: &Look) -> Vec<String> {
        let name_column = self.columns.iter().position(|column| column.name.eq_ignore_ascii_case("name"));
        let mut cells: Vec<String> = Vec::new();
        if look.with_namespace {
            cells.push(row.object.namespace().to_owned());
        }
        for i in shown {
            let text = cell_text(row.cells.get(*i).unwrap_or(&Value::Null));
            cells.push(match &look.kind {
                Some(kind) if Some(*i) == name_column => format!("{kind}/{text}"),
                _ => text,
            });
        }
        let label = |key: &String| row.object.label(key).unwrap_or("<none>").to_owned();
        cells.extend(look.label_columns.iter().map(label));
        if look.show_labels {
            let labels: Vec<String> = row.object.labels().map(|(key, value)| format!("{key}={value}")).collect();
            cells.push(if labels.is_empty() { "<none>".into() } else { labels.join(",") });
        }
        cells
    }
}

fn push_line(lines: &mut String, cells: &[String]) {
    lines.push_str(&cells.join("\t"));
    lines.push('\n');
}

/// Removes line breaks and control characters.
fn cell_text(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (first, is_cut) = match text.find(['\n', '\r', '\u{c}']) {
        Some(end) => (&text[..end], true),
        None => (text.as_str(), false),
    };
    let clean: String = first.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if is_cut { clean + "..." } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[(&str, i64)], rows: &[(&str, &[&str])]) -> Table {
        let answer = json!({
            "kind": "Table",
            "columnDefinitions": columns.iter().map(|(name, priority)| json!({"name": name, "priority": priority})).collect::<Vec<_>>(),
            "rows": rows.iter().map(|(name, cells)| json!({
                "cells": cells,
                "object": {"kind": "PartialObjectMetadata", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}}},
            })).collect::<Vec<_>>(),
        });
        Table::read(answer, jiff::Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn the_wide_format_has_more_columns() {
        let table = table(&[("Name", 0), ("Ready", 0), ("Node", 1)], &[("a", &["a", "1/1", "n1"])]);
        assert_eq!(table.print(&Look::default()), "NAME   READY\na      1/1\n");
        let wide = Look { wide: true, with_namespace: true, show_labels: true, ..Look::default() };
        assert_eq!(
            table.print(&wide),
            "NAMESPACE   NAME   READY   NODE   LABELS\ndefault     a      1/1     n1     app=a\n"
        );
        let kind = Look { kind: Some("deployment.apps".into()), no_headers: true, ..Look::default() };
        assert_eq!(table.print(&kind), "deployment.apps/a   1/1\n");
    }

    #[test]
    fn tables_of_different_servers_become_one() {
        let mut one = table(&[("Name", 0), ("Age", 0)], &[("a", &["a", "5s"])]);
        one.extend(table(&[("Name", 0), ("Status", 0), ("Age", 0)], &[("b", &["b", "Ready", "9s"])]));
        assert_eq!(one.print(&Look::default()), "NAME   AGE   STATUS\na      5s    \nb      9s    Ready\n");
    }

    #[test]
    fn a_cell_is_one_line() {
        let table = table(&[("Name", 0), ("Note", 0)], &[("a", &["a", "one\ntwo"]), ("b", &["b", "\u{1b}[31mred"])]);
        assert_eq!(table.print(&Look::default()), "NAME   NOTE\na      one...\nb       [31mred\n");
    }
}
