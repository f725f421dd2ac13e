//! Tests of core, one file per verb or part.

mod cancel;
mod claim;
mod common;
mod conversations;
mod end;
mod families;
mod golden;
mod idle;
mod limits;
mod outage;
mod owner;
mod pause;
mod property;
mod provider;
mod questions;
mod rig;
mod sessions;
mod submit;
mod turns;
mod views;

/// A test file that is not a module above would never run.
#[test]
fn every_test_file_is_included() {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let text = include_str!("runner.rs");
    let files = std::fs::read_dir(here).expect("the folder is there");
    let mut seen = 0;
    for file in files {
        let name = file.expect("it can be listed").file_name().into_string().expect("names are plain");
        let stem = name.trim_end_matches(".rs");
        assert!(stem == "runner" || text.contains(&format!("\nmod {stem};")), "tests/{name} is never run");
        seen += 1;
    }
    assert!(seen > 1);
}
