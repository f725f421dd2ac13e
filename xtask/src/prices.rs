//! `prices`: the table of prices, made again from the package that it is an extract of.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::program::{Failure, Outcome, cache, output, runs};

/// The package on PyPI, and the day on which its prices were read.
const PACKAGE: &str = "litellm";
const VERSION: &str = "1.108.4";
const DATE: &str = "2026-11-16";

/// The table in it.
const TABLE: &str = "litellm/model_prices_and_context_window_backup.json";

/// The table of ours.
const FILE: &str = "crates/agents/src/prices.toml";

/// Providers whose models agents use.
const PROVIDERS: [&str; 3] = ["anthropic", "openai", "gemini"];

/// Words in the names of models that no agent writes code with.
const OTHERS: [&str; 3] = ["ft:", "audio", "realtime"];

const HEAD: &str = "\
# Prices of models, in dollars for a million tokens. An extract of the table that `source` names; its copyright (c) 2023 is Berri AI's.
#
# in      input tokens
# cached  input tokens that are read from a cache; as dear as others if absent
# stored  input tokens that are stored in a cache; as dear as others if absent
# out     output tokens
# long    prices of a request with more than `above` input tokens
#
# `cargo xtask prices --write` makes this file.
";

/// Makes the table and compares it with the one in the repository, or writes it.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let made = table()?;
    match arguments {
        ["--write"] => fs::write(FILE, made).map_err(|error| Failure::new(format!("{FILE}: {error}"))),
        [] => match fs::read_to_string(FILE) {
            Ok(known) if known == made => Ok(()),
            _ => Err(Failure::new(format!("{FILE} differs; write it with `cargo xtask prices --write`"))),
        },
        _ => Err(Failure::new("prices [--write]")),
    }
}

fn table() -> Result<String, Failure> {
    let folder = cache()?.join("lastword").join("prices");
    fs::create_dir_all(&folder).map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
    let folder = folder.to_string_lossy().into_owned();
    let package = format!("{PACKAGE}=={VERSION}");
    runs("python3", &["-m", "pip", "download", "--quiet", "--no-deps", "--dest", &folder, &package])?;
    let read = format!(
        "import glob, zipfile; print(zipfile.ZipFile(glob.glob('{folder}/{PACKAGE}-{VERSION}-*.whl')[0]).read('{TABLE}').decode())"
    );
    let models: Value = serde_json::from_str(&output("python3", &["-c", &read])?)
        .map_err(|error| Failure::new(format!("{TABLE}: {error}")))?;
    let mut lines: Vec<String> = models
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, model)| line(name.strip_prefix("gemini/").unwrap_or(name), model))
        .collect();
    lines.sort();
    lines.dedup();
    let source = format!("{PACKAGE} {VERSION}, {TABLE} (MIT licence)");
    Ok(format!("{HEAD}\nsource = \"{source}\"\ndate = \"{DATE}\"\n\n[models]\n{}\n", lines.join("\n")))
}

/// Returns the line of a model that an agent can use.
fn line(name: &str, model: &Value) -> Option<String> {
    let is_known = PROVIDERS.iter().any(|provider| model["litellm_provider"] == *provider);
    let is_text = model["mode"] == "chat" || model["mode"] == "responses";
    let is_other = name.contains('/') || OTHERS.iter().any(|word| name.contains(word));
    if !is_known || !is_text || is_other {
        return None;
    }
    let long = model.as_object()?.keys().find_map(|key| {
        let rest = key.strip_prefix("input_cost_per_token_above_")?;
        let thousands: u64 = rest.strip_suffix("k_tokens")?.parse().ok()?;
        Some((thousands * 1_000, format!("_above_{rest}")))
    });
    let mut words = prices(model, "")?;
    if let Some((above, suffix)) = long {
        write!(words, ", long = {{ above = {above}, {} }}", prices(model, &suffix)?).ok()?;
    }
    Some(format!("\"{name}\" = {{ {words} }}"))
}

/// Returns the prices of a model under the names that end so. The output of a long request may cost as much as any other.
fn prices(model: &Value, suffix: &str) -> Option<String> {
    let dollars = |name: &str| {
        let dollars = model[format!("{name}{suffix}")].as_f64().filter(|dollars| *dollars > 0.0)? * 1e6;
        let text = format!("{dollars:.6}");
        Some(text.trim_end_matches('0').trim_end_matches('.').to_owned())
    };
    let plain =
        |name: &str| model[name].as_f64().map(|dollars| format!("{}", (dollars * 1e12).round() / 1e6));
    let mut words = format!("in = {}", dollars("input_cost_per_token")?);
    for (word, name) in
        [("cached", "cache_read_input_token_cost"), ("stored", "cache_creation_input_token_cost")]
    {
        if let Some(dollars) = dollars(name) {
            write!(words, ", {word} = {dollars}").ok()?;
        }
    }
    let out = dollars("output_cost_per_token").or_else(|| plain("output_cost_per_token"))?;
    write!(words, ", out = {out}").ok()?;
    Some(words)
}
