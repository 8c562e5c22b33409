//! A list with stable indexes: an entry keeps its index until it is removed.

#[derive(Clone, Debug)]
pub struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.places[at as usize] = Some(value);
                at
            }
            None => {
                self.places.push(Some(value));
                u32::try_from(self.places.len() - 1).expect("fewer than 2^32 entries")
            }
        }
    }

    pub fn remove(&mut self, at: u32) -> Option<T> {
        let taken = self.places.get_mut(at as usize)?.take();
        if taken.is_some() {
            self.free.push(at);
        }
        taken
    }

    pub fn get(&self, at: u32) -> Option<&T> {
        self.places.get(at as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.places.get_mut(at as usize)?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places.iter().enumerate().filter_map(|(at, place)| Some((at as u32, place.as_ref()?)))
    }

    /// One more than the highest index ever used: the size of a table over all indexes.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
