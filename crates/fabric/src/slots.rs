//! Places that are given out, given back, and given out again.

/// Values by number. The last number to come back is the first to be given out again.
#[derive(Clone, Debug)]
pub(crate) struct Slots<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Takes in a value. Returns its number.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.values[number as usize] = value;
                number
            }
            None => {
                self.values.push(value);
                (self.values.len() - 1) as u32
            }
        }
    }

    /// Gives a number back. Its value stays until the number is given out again.
    pub(crate) fn free(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Whether no number is given out.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.len() == self.free.len()
    }

    pub(crate) fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.values[number as usize]
    }
}
