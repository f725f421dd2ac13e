//! The list that followers are compared with.

use std::collections::BTreeMap;

use lastword_api::Row;
use lastword_client::jobs::{self, Filter};

use crate::product::Product;

/// Returns the rows of a whole list, by id.
pub(super) fn listed(product: &Product, filter: &Filter) -> Result<BTreeMap<String, Row>, String> {
    let (mut client, mut rows) = (product.client(), BTreeMap::new());
    let mut filter = Filter { limit: Some(500), ..filter.clone() };
    loop {
        let page = client.call(&jobs::list(&filter))?;
        rows.extend(page.items.into_iter().map(|row| (row.id.clone(), row)));
        match page.next_cursor {
            None => return Ok(rows),
            cursor => filter.cursor = cursor,
        }
    }
}
