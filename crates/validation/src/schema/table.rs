//! Reads the text of a table into types and fields.

/// A type: what it is for and its parts in order.
pub struct Type {
    pub about: &'static str,
    pub parts: Vec<Part>,
}

pub enum Part {
    Field(Field),
    /// The fields of another type stand here.
    Include(&'static str),
}

pub struct Field {
    pub name: &'static str,
    pub required: bool,
    pub ty: &'static str,
    /// Restrictions: `min=0`, `enum=A|B`, `default="x"`, `list=map:type`.
    pub words: Vec<(&'static str, &'static str)>,
    pub about: &'static str,
}

/// The types of one table. The tables are part of the program, so a mistake in one is a mistake in the program.
pub fn read(text: &'static str) -> Vec<(&'static str, Type)> {
    let mut types: Vec<(&'static str, Type)> = Vec::new();
    for line in text.lines() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with(' ') {
            let (_, ty) = types.last_mut().expect("fields stand below the name of their type");
            ty.parts.push(part(line.trim()));
        } else {
            let (name, about) = line.split_once(": ").expect("a type is a name, a colon and a description");
            types.push((name, Type { about, parts: Vec::new() }));
        }
    }
    types
}

fn part(line: &'static str) -> Part {
    if let Some(name) = line.strip_prefix("+ ") {
        return Part::Include(name.trim());
    }
    let (declared, about) = line.split_once(" -- ").expect("a field has a description after two dashes");
    let mut words = declared.split_whitespace();
    let name = words.next().expect("a field has a name");
    let ty = words.next().expect("a field has a type");
    let words = words.map(|word| word.split_once('=').expect("a restriction is a word, an equals sign and a value"));
    Part::Field(Field {
        name: name.trim_end_matches('!'),
        required: name.ends_with('!'),
        ty,
        words: words.collect(),
        about: about.trim(),
    })
}
