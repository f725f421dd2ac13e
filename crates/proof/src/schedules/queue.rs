//! What is to happen in a schedule, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is to happen, soonest first; of two at the same moment, the one that was planned first.
pub(crate) struct Queue<D> {
    order: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// The doings themselves, which are too large to be moved about in a heap.
    slots: Vec<Option<D>>,
    free: Vec<u32>,
    made: u32,
}

impl<D> Default for Queue<D> {
    fn default() -> Queue<D> {
        Queue { order: BinaryHeap::new(), slots: Vec::new(), free: Vec::new(), made: 0 }
    }
}

impl<D> Queue<D> {
    /// Returns when the next one is to happen.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Plans something.
    pub(crate) fn push(&mut self, at: u64, doing: D) {
        self.made += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(doing);
                slot
            }
            None => {
                self.slots.push(Some(doing));
                self.slots.len() as u32 - 1
            }
        };
        self.order.push(Reverse((at, self.made, slot)));
    }

    /// Takes what is next, with its moment.
    pub(crate) fn pop(&mut self) -> Option<(u64, D)> {
        let Reverse((at, _, slot)) = self.order.pop()?;
        self.free.push(slot);
        Some((at, self.slots[slot as usize].take()?))
    }
}
