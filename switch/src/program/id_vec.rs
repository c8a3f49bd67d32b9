//! Vectors that are indexed by the id of an object instead of a bare number.

use super::signatures::{ActionId, TableId};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};

/// An id: the index of an object of one kind in its program.
pub(crate) trait Id: Copy {
    fn from_index(index: u16) -> Self;
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($id:ident)*) => {
        $(impl Id for $id {
            #[inline]
            fn from_index(index: u16) -> Self {
                $id(index)
            }
            #[inline]
            fn index(self) -> usize {
                usize::from(self.0)
            }
        })*
    };
}
ids!(TableId ActionId);

/// The objects of one kind, or what belongs to each of them, in the order of their ids.
#[derive(Clone, Debug)]
pub(crate) struct IdVec<I, T> {
    items: Vec<T>,
    ids: PhantomData<fn(I)>,
}

impl<I: Id, T> IdVec<I, T> {
    /// Returns the item of an id; `None` if the program has no such object.
    #[inline]
    pub(crate) fn of(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    /// Returns the items with their ids.
    pub(crate) fn enumerated(&self) -> impl Iterator<Item = (I, &T)> {
        (0..=u16::MAX).map(I::from_index).zip(&self.items)
    }

    /// Returns the id of the first item that satisfies the condition.
    pub(crate) fn find(&self, is_wanted: impl Fn(&T) -> bool) -> Option<I> {
        self.items.iter().position(is_wanted).map(|index| I::from_index(index as u16))
    }

    pub(crate) fn push(&mut self, item: T) {
        self.items.push(item);
    }
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> IdVec<I, T> {
        IdVec { items: Vec::new(), ids: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<S: IntoIterator<Item = T>>(items: S) -> IdVec<I, T> {
        IdVec { items: items.into_iter().collect(), ids: PhantomData }
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

/// All items, without their ids.
impl<I, T> Deref for IdVec<I, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<I, T> DerefMut for IdVec<I, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<I, T> Extend<T> for IdVec<I, T> {
    fn extend<S: IntoIterator<Item = T>>(&mut self, items: S) {
        self.items.extend(items);
    }
}
