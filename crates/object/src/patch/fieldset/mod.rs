//! Sets of field paths: who owns what in an object, in the form and order of Kubernetes' `FieldsV1`.

mod element;
mod json;

use std::cmp::Ordering;
use std::fmt;

pub use element::{PathElement, compare_values, values_equal};

/// The way from the root of an object to one field or list item.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

/// A set of paths as a tree. A path may be a member while paths below it are members too: a map item can be owned
/// apart from the fields inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Sorted by element, none of them empty.
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    element: PathElement,
    member: bool,
    children: Set,
}

/// The state of one path while a set is built from the leaves up.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub member: bool,
    pub children: Set,
}

impl Slot {
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    pub fn add_child(&mut self, element: PathElement, child: Slot) {
        if !child.is_empty() {
            self.children.put(element, child);
        }
    }
}

impl Entry {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl Path {
    /// A path of plain field names.
    pub fn fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| PathElement::field(name)).collect())
    }
}

impl FromIterator<Path> for Set {
    fn from_iter<T: IntoIterator<Item = Path>>(paths: T) -> Self {
        let mut set = Self::default();
        paths.into_iter().for_each(|path| set.insert(&path));
        set
    }
}

impl Set {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of member paths.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|entry| usize::from(entry.member) + entry.children.len()).sum()
    }

    /// Adds a path; the root itself is never a member.
    pub fn insert(&mut self, path: &Path) {
        let Some((last, parents)) = path.0.split_last() else { return };
        let mut set = self;
        for element in parents {
            set = &mut set.entry_mut(element).children;
        }
        set.entry_mut(last).member = true;
    }

    pub fn contains(&self, path: &Path) -> bool {
        let Some((last, parents)) = path.0.split_last() else { return false };
        let found = parents.iter().try_fold(self, |set, element| set.below(element));
        found.is_some_and(|set| set.has(last))
    }

    /// True when the element itself is a member.
    pub fn has(&self, element: &PathElement) -> bool {
        self.find(element).is_ok_and(|index| self.entries[index].member)
    }

    /// The members below an element, without it.
    pub fn below(&self, element: &PathElement) -> Option<&Set> {
        self.find(element).ok().map(|index| &self.entries[index].children).filter(|set| !set.is_empty())
    }

    pub fn elements(&self) -> impl Iterator<Item = &PathElement> {
        self.entries.iter().map(|entry| &entry.element)
    }

    /// All member paths; those of one level come before those below it.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut entries = Vec::with_capacity(self.entries.len() + other.entries.len());
        let (mut left, mut right) = (self.entries.into_iter().peekable(), other.entries.into_iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            match a.element.cmp(&b.element) {
                Ordering::Less => entries.extend(left.next()),
                Ordering::Greater => entries.extend(right.next()),
                Ordering::Equal => {
                    entries.extend(left.next().zip(right.next()).map(|(a, b)| Entry {
                        element: a.element,
                        member: a.member || b.member,
                        children: a.children.union(b.children),
                    }));
                }
            }
        }
        entries.extend(left);
        entries.extend(right);
        Self { entries }
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut entries = Vec::new();
        let mut right = other.entries.iter().peekable();
        for a in &self.entries {
            while right.next_if(|b| b.element < a.element).is_some() {}
            let Some(b) = right.next_if(|b| b.element == a.element) else { continue };
            let children = a.children.intersection(&b.children);
            let entry = Entry { element: a.element.clone(), member: a.member && b.member, children };
            if !entry.is_empty() {
                entries.push(entry);
            }
        }
        Self { entries }
    }

    /// Members of this set that are not members of the other.
    #[must_use]
    pub fn difference(self, other: &Self) -> Self {
        self.subtract(other, false)
    }

    /// Like `difference`, and a member of the other set takes all that is below it along.
    #[must_use]
    pub fn recursive_difference(self, other: &Self) -> Self {
        self.subtract(other, true)
    }

    fn subtract(self, other: &Self, recursive: bool) -> Self {
        if other.is_empty() {
            return self;
        }
        let mut right = other.entries.iter().peekable();
        let keep = |mut a: Entry| {
            while right.next_if(|b| b.element < a.element).is_some() {}
            let Some(b) = right.next_if(|b| b.element == a.element) else { return Some(a) };
            if recursive && b.member {
                return None;
            }
            a.member &= !b.member;
            a.children = a.children.subtract(&b.children, recursive);
            (!a.is_empty()).then_some(a)
        };
        Self { entries: self.entries.into_iter().filter_map(keep).collect() }
    }

    /// Rebuilds the set entry by entry: the closure gets each element, whether it is a member, and what is below.
    pub(super) fn map_entries(&self, mut rebuild: impl FnMut(&PathElement, bool, &Set) -> (bool, Set)) -> Self {
        let mut entries = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let (member, children) = rebuild(&entry.element, entry.member, &entry.children);
            let entry = Entry { element: entry.element.clone(), member, children };
            if !entry.is_empty() {
                entries.push(entry);
            }
        }
        Self { entries }
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Path>) {
        for entry in self.entries.iter().filter(|entry| entry.member) {
            let mut path = prefix.clone();
            path.push(entry.element.clone());
            paths.push(Path(path));
        }
        for entry in &self.entries {
            prefix.push(entry.element.clone());
            entry.children.collect_paths(prefix, paths);
            prefix.pop();
        }
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.element.cmp(element))
    }

    fn entry_mut(&mut self, element: &PathElement) -> &mut Entry {
        let index = self.find(element).unwrap_or_else(|index| {
            let entry = Entry { element: element.clone(), member: false, children: Set::default() };
            self.entries.insert(index, entry);
            index
        });
        &mut self.entries[index]
    }

    fn put(&mut self, element: PathElement, slot: Slot) {
        let entry = Entry { element, member: slot.member, children: slot.children };
        match self.entries.last().map(|last| last.element.cmp(&entry.element)) {
            None | Some(Ordering::Less) => self.entries.push(entry),
            _ => {
                let found = self.entry_mut(&entry.element);
                found.member |= entry.member;
                let children = std::mem::take(&mut found.children);
                found.children = children.union(entry.children);
            }
        }
    }
}

#[cfg(test)]
mod tests;
