//! The proof as a program: one verb each, called by `cargo xtask`.

use std::process::ExitCode;

use lastword_proof::model;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let verb = arguments.first().map_or("", String::as_str);
    let rest = arguments.get(1..).unwrap_or_default();
    let result = match verb {
        "model" => model::main(rest),
        other => Err(format!("there is no verb `{other}`")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            #[expect(clippy::print_stderr, reason = "a failed verb says why")]
            {
                eprintln!("{verb}: {why}");
            }
            ExitCode::FAILURE
        }
    }
}
