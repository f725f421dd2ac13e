//! `prices`: what the tokens of a model cost, and where the figures come from.

use lastword_agents::{PriceTable, price_of};
use lastword_core::spec::Prices;
use lastword_server::own_prices;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::paths::Paths;
use crate::ui::Ui;
use crate::ui::table::Table;

/// Show the prices of models by which money is counted
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Money is counted while a turn runs, by the tokens that the agent reports; an agent's own total corrects it at the end of \
                  the turn. Prices are in dollars for a million tokens. Those of prices.toml, next to your settings, take precedence:\n\n  \
                  [models]\n  \"my-model\" = { in = 1.25, cached = 0.125, out = 10 }"
)]
pub(crate) struct Args {
    /// Only this model
    model: Option<String>,
}

/// All prices, as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    source: &'a str,
    date: &'a str,
    own: String,
    models: Vec<Model<'a>>,
}

/// The price of one model: dollars for a million tokens.
#[derive(Serialize)]
struct Model<'a> {
    model: &'a str,
    #[serde(rename = "in")]
    tokens_in: f64,
    cached: f64,
    stored: f64,
    out: f64,
    /// Input tokens of a request above which other prices count.
    #[serde(skip_serializing_if = "Option::is_none")]
    long_above: Option<u64>,
    /// Whether it is from the user's file.
    own: bool,
}

impl<'a> Model<'a> {
    fn of(model: &'a str, prices: Prices, own: bool) -> Model<'a> {
        let dollars = |micros: u64| micros as f64 / 1e6;
        Model {
            model,
            tokens_in: dollars(prices.tokens_in),
            cached: dollars(prices.cached),
            stored: dollars(prices.stored.unwrap_or(prices.tokens_in)),
            out: dollars(prices.tokens_out),
            long_above: prices.long.map(|long| long.above),
            own,
        }
    }
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Outcome {
    let file = Paths::find()?.prices();
    let own = own_prices(&file).map_err(|bad| Failure::usage(bad.to_string()))?.models;
    let table = PriceTable::built_in();
    let models: Vec<Model<'_>> = match &args.model {
        Some(model) => {
            let Some(prices) = price_of(&own, model) else {
                let unknown = Failure::usage(format!("no price is known for the model `{model}`"));
                return Err(
                    unknown.next(format!("add it to {}: `lastword prices --help` shows how", file.display()))
                );
            };
            vec![Model::of(model, prices, price_of(&own, model) != price_of(&Default::default(), model))]
        }
        None => {
            let mine = own.iter().map(|(model, prices)| Model::of(model, *prices, true));
            let others = table.models.iter().filter(|(model, _)| !own.contains_key(*model));
            mine.chain(others.map(|(model, prices)| Model::of(model, *prices, false))).collect()
        }
    };
    if ui.json {
        let own = file.display().to_string();
        ui.print_json(&Shown { source: &table.source, date: &table.date, own, models })?;
        return Ok(0);
    }
    let mut table_of = Table::new(vec!["MODEL", "IN", "CACHED", "STORED", "OUT", "FROM"]);
    for Model { model, tokens_in, cached, stored, out, own, .. } in &models {
        let cell = |dollars: &f64| dollars.to_string();
        let from = if *own { "your prices.toml" } else { "" };
        table_of.push(vec![
            model.to_string(),
            cell(tokens_in),
            cell(cached),
            cell(stored),
            cell(out),
            from.to_owned(),
        ]);
    }
    let lines = table_of.lines(ui.width, |row, _, text| match row {
        None => ui.out.strong(text),
        Some(_) => text.to_owned(),
    });
    ui.print(&lines.join("\n"))?;
    ui.print(
        &ui.out.faint(&format!("dollars for a million tokens; {}, read on {}", table.source, table.date)),
    )?;
    ui.print(&ui.out.faint(&format!("your own prices: {}", file.display())))?;
    Ok(0)
}
