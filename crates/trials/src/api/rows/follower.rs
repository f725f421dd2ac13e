//! A follower of a list: what it was told, and what it must never be told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lastword_api::{Row, Time};
use lastword_client::jobs::Filter;
use lastword_client::{Client, RowChange};

use super::cut::Cut;
use super::list::listed;
use super::writer;
use crate::product::Product;

/// A thread that follows a list.
pub(super) struct Follower {
    name: String,
    filter: Filter,
    held: Arc<Held>,
}

/// What a follower was told.
#[derive(Default)]
struct Held {
    rows: Mutex<BTreeMap<String, Row>>,
    told: AtomicU64,
    /// The first thing that must not be.
    wrong: Mutex<Option<String>>,
}

impl Held {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<String, Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrong(&self) -> MutexGuard<'_, Option<String>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    /// Starts the `n`th follower. It ends with the process.
    pub(super) fn start(product: &Product, n: u64, seed: u64, cuts: &Arc<AtomicU64>) -> Follower {
        let group = |name: &str| Filter { group: Some(name.to_owned()), ..Filter::default() };
        let filter = match n % 5 {
            0 | 1 => Filter::default(),
            2 => Filter { unread: Some(true), ..Filter::default() },
            3 => group(writer::BUSY),
            _ => Filter { label: Some("colour=red".to_owned()), ..Filter::default() },
        };
        let held = Arc::new(Held::default());
        let socket = product.home().join("lastword.sock");
        let cut = Cut::new(socket, seed ^ (n << 8) ^ 0xf0, Arc::clone(cuts));
        let (asked, told) = (filter.clone(), Arc::clone(&held));
        std::thread::spawn(move || follow(cut, &asked, &told));
        Follower { name: format!("follower {n}"), filter, held }
    }

    /// Returns how many rows it was told.
    pub(super) fn told(&self) -> u64 {
        self.held.told.load(Ordering::Relaxed)
    }

    /// Fails if it was told what must not be.
    pub(super) fn verdict(&self) -> Result<(), String> {
        self.held.wrong().clone().map_or(Ok(()), |why| Err(format!("{}: {why}", self.name)))
    }

    /// Compares what it has with the list.
    pub(super) fn check(&self, product: &Product) -> Result<(), String> {
        let expected = listed(product, &self.filter)?;
        let found = self.held.rows();
        let differs = |what: &str, id: &str| Err(format!("{} {what} {id}", self.name));
        for (id, row) in &expected {
            match found.get(id) {
                None => return differs("lacks", id),
                Some(found) if at_rest(found) != at_rest(row) => {
                    return Err(format!("{} has another row of {id}: {found:?}, not {row:?}", self.name));
                }
                Some(_) => {}
            }
        }
        match found.keys().find(|id| !expected.contains_key(*id)) {
            Some(id) => differs("still has", id),
            None => Ok(()),
        }
    }
}

/// Returns a row without the moment of its last output, which is not told as it changes.
fn at_rest(row: &Row) -> Row {
    Row { silent_since: None::<Time>, ..row.clone() }
}

/// Follows until the process ends.
fn follow(cut: Cut, filter: &Filter, held: &Held) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a trial that gets no descriptors has failed already");
    runtime.block_on(async {
        let client = Client::new(cut, |_| {});
        loop {
            let mut rows = client.follow_rows(filter);
            // A new follower begins with nothing.
            held.rows().clear();
            while let Ok(change) = rows.next().await {
                take(held, change);
            }
            // The daemon is dead, and the trial will start the next one.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
}

fn take(held: &Held, change: RowChange) {
    match change {
        RowChange::Row(row) => {
            held.told.fetch_add(1, Ordering::Relaxed);
            let before = held.rows().insert(row.id.clone(), (*row).clone());
            if let Some(before) = before.filter(|before| before.version > row.version) {
                let (id, was, is) = (&row.id, before.version, row.version);
                held.wrong().get_or_insert(format!("{id} was told at version {is} after {was}"));
            }
        }
        RowChange::Gone(id) => {
            if held.rows().remove(&id).is_none() {
                held.wrong().get_or_insert(format!("{id} is gone and was never told"));
            }
        }
        RowChange::Here => {}
    }
}
