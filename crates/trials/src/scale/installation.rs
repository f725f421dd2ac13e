//! An installation of the product for one measurement, and how long its calls take.

use std::process::Stdio;
use std::time::Instant;

use crate::place::{self, Programs};
use crate::product::Product;
use crate::statistics::percentile;

/// An installation in a folder of its own, torn down with everything it started.
pub(super) struct Installation {
    pub(super) product: Product,
    // Removed after the product was torn down.
    _folder: tempfile::TempDir,
}

impl Installation {
    pub(super) fn make() -> Result<Installation, String> {
        let folder = place::temporary("scale")?;
        let home = folder.path().join("home");
        let product = Product::install(&Programs::beside()?.lastword, folder.path(), &home)?;
        Ok(Installation { product, _folder: folder })
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        self.product.tear_down();
    }
}

/// How long a call took, in milliseconds, many times.
#[derive(Default)]
pub(super) struct Times(Vec<f64>);

impl Times {
    /// Makes a call and notes how long it took.
    pub(super) fn time<T>(&mut self, call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let begin = Instant::now();
        let answer = call()?;
        self.0.push(begin.elapsed().as_secs_f64() * 1e3);
        Ok(answer)
    }

    pub(super) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    pub(super) fn p50(&mut self) -> f64 {
        percentile(&mut self.0, 50)
    }

    pub(super) fn p99(&mut self) -> f64 {
        percentile(&mut self.0, 99)
    }
}

/// Runs a command of the product whose words do not matter.
pub(super) fn quiet(product: &Product, words: &[&str]) -> Result<(), String> {
    let status = product.command(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("lastword {}: {status}", words.join(" "))),
        Err(error) => Err(format!("lastword {}: {error}", words.join(" "))),
    }
}
