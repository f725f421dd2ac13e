//! Prices of models: the built-in table, the user's own file, and which price counts for a model.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use lastword_core::spec::{LongPrices, Prices};
use serde::Deserialize;

/// The built-in table.
const BUILT_IN: &str = include_str!("prices.toml");

static TABLE: LazyLock<PriceTable> = LazyLock::new(|| PriceTable::read(BUILT_IN).expect("a test reads it"));

/// Prices by model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceTable {
    /// Where they come from.
    pub source: String,
    /// When they were read there.
    pub date: String,
    /// The prices of each model.
    pub models: BTreeMap<String, Prices>,
}

/// A file of prices cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadPrices {
    /// The file does not parse.
    #[error("{0}")]
    Malformed(String),
    /// A price in it is no price.
    #[error("model `{0}`: a price is not 0, or between 0.000001 and 1000000 dollars for a million tokens")]
    Unusable(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    source: String,
    #[serde(default)]
    date: String,
    #[serde(default)]
    models: BTreeMap<String, Dollars>,
}

/// Dollars per million tokens, as users write them.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dollars {
    #[serde(rename = "in")]
    tokens_in: f64,
    #[serde(default)]
    cached: Option<f64>,
    #[serde(default)]
    stored: Option<f64>,
    #[serde(rename = "out")]
    tokens_out: f64,
    #[serde(default)]
    long: Option<Long>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Long {
    above: u64,
    #[serde(rename = "in")]
    tokens_in: f64,
    #[serde(default)]
    cached: Option<f64>,
    #[serde(default)]
    stored: Option<f64>,
    #[serde(rename = "out")]
    tokens_out: f64,
}

impl PriceTable {
    /// Returns the built-in table.
    pub fn built_in() -> &'static PriceTable {
        &TABLE
    }

    /// Parses a file of prices.
    pub fn read(text: &str) -> Result<PriceTable, BadPrices> {
        let file: File = toml_edit::de::from_str(text)
            .map_err(|error| BadPrices::Malformed(error.message().to_owned()))?;
        let models = file.models.into_iter().map(|(model, dollars)| match dollars.prices() {
            Some(prices) => Ok((model, prices)),
            None => Err(BadPrices::Unusable(model)),
        });
        Ok(PriceTable { source: file.source, date: file.date, models: models.collect::<Result<_, _>>()? })
    }
}

/// Returns the price of a model: the user's own, or the built-in one.
pub fn price_of(own: &BTreeMap<String, Prices>, model: &str) -> Option<Prices> {
    names(model).find_map(|name| own.get(name).or_else(|| TABLE.models.get(name)).copied())
}

/// Returns the names under which a model can be listed: its own; without the words of its provider; without the size of its window or the
/// date of its version.
fn names(model: &str) -> impl Iterator<Item = &str> {
    let last = model.rsplit('/').next().unwrap_or(model);
    let plain = last.split(['[', '@']).next().unwrap_or(last);
    let undated = plain.rsplit_once('-').filter(|(_, date)| is_date(date)).map_or(plain, |(name, _)| name);
    [model, last, plain, undated].into_iter()
}

fn is_date(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Dollars {
    /// Converts to core's prices; `None` if one is no price. A cached token costs as much as any other, unless it has its own price.
    pub(crate) fn prices(self) -> Option<Prices> {
        let Dollars { tokens_in, cached, stored, tokens_out, long } = self;
        let long = match long {
            Some(long) => Some(LongPrices {
                above: long.above,
                tokens_in: micros(long.tokens_in)?,
                cached: micros(long.cached.unwrap_or(long.tokens_in))?,
                tokens_out: micros(long.tokens_out)?,
                stored: micros(long.stored.unwrap_or(long.tokens_in))?,
            }),
            None => None,
        };
        let stored = match stored {
            Some(stored) => Some(micros(stored)?),
            None => None,
        };
        Some(Prices {
            tokens_in: micros(tokens_in)?,
            cached: micros(cached.unwrap_or(tokens_in))?,
            tokens_out: micros(tokens_out)?,
            stored,
            long,
        })
    }
}

fn micros(dollars: f64) -> Option<u64> {
    let micros = (dollars * 1e6).round();
    // A price that is rounded to nothing would count nothing.
    let is_price = (0.0..=1e6).contains(&dollars) && (dollars == 0.0 || micros >= 1.0);
    is_price.then_some(micros as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_says_where_it_comes_from() {
        let table = PriceTable::read(BUILT_IN).unwrap();
        assert!(table.models.len() > 100 && table.date.len() == 10 && table.source.contains("MIT"));
        let opus = table.models["claude-opus-5-5"];
        let expected = Prices {
            tokens_in: 4_000_000,
            cached: 200_000,
            tokens_out: 20_000_000,
            stored: Some(5_000_000),
            long: None,
        };
        assert_eq!(opus, expected);
        assert_eq!(
            table.models["gpt-6.1-sol"].long.map(|long| (long.above, long.tokens_in)),
            Some((272_000, 4_000_000))
        );
    }

    #[test]
    fn a_model_is_found_under_its_names_and_the_users_price_counts() {
        let none = BTreeMap::new();
        let opus = price_of(&none, "claude-opus-5-5");
        assert!(opus.is_some());
        for name in [
            "anthropic/claude-opus-5-5",
            "claude-opus-5-5[1m]",
            "claude-opus-5-5-20261001",
            "a/b/claude-opus-5-5@x",
        ] {
            assert_eq!(price_of(&none, name), opus, "{name}");
        }
        assert_eq!(price_of(&none, "scripted"), None);
        assert_eq!(price_of(&none, ""), None);
        let own = PriceTable::read(
            "[models]\nscripted = { in = 1, out = 2 }\n'claude-opus-5-5' = { in = 9, out = 9 }",
        );
        let own = own.unwrap().models;
        assert_eq!(price_of(&own, "here/scripted").map(|price| price.tokens_out), Some(2_000_000));
        assert_eq!(price_of(&own, "claude-opus-5-5-20261001").map(|price| price.tokens_in), Some(9_000_000));
    }

    #[test]
    fn an_invalid_file_is_refused() {
        let refused = |text: &str| PriceTable::read(text).unwrap_err().to_string();
        assert!(refused("[models]\nx = { in = -1, out = 2 }").contains("model `x`"));
        assert!(refused("[models]\nx = { in = 1 }").contains("out"));
        assert!(refused("[models]\nx = { in = 1e-7, out = 0 }").contains("model `x`"));
        assert!(refused("[models]\nx = { in = 1, out = nan }").contains("model `x`"));
        assert!(refused("[models]\nx = { in = 1, out = 2, colour = 3 }").contains("colour"));
    }
}
