//! The command blocks of a page, separated from other code blocks.
//!
//! A fence marked `console` is run: `$ ` starts a command, `> ` continues it, and everything up to the next command is
//! its output. A comment right before a fence changes how it is treated:
//!
//! - `<!-- not run: why -->`: the next block is skipped and reported with the reason;
//! - `<!-- unseen: command -->`: runs before the next block, and its output is dropped;
//! - `<!-- needs: program … -->`: the next block runs if these programs are installed, and is reported as skipped otherwise.

/// One command and the output that the page shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) command: String,
    pub(super) printed: Vec<String>,
}

/// One block of commands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The line of its fence, counted from one.
    pub(super) line: usize,
    /// Programs it needs.
    pub(super) needs: Vec<String>,
    /// Whether it is skipped because one of them is missing.
    pub(super) is_left_out: bool,
    /// Commands that run before it and are not shown.
    pub(super) unseen: Vec<String>,
    pub(super) exchanges: Vec<Exchange>,
}

/// A block that is not run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotRun {
    pub(super) line: usize,
    pub(super) why: String,
}

/// The blocks of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) run: Vec<Block>,
    pub(super) not_run: Vec<NotRun>,
}

/// Reads a page. Fails on a line with commands that would go unchecked.
pub(super) fn read(text: &str) -> Result<Blocks, String> {
    let mut blocks = Blocks::default();
    let (mut needs, mut unseen) = (Vec::new(), Vec::new());
    let mut why: Option<String> = None;
    let mut lines = text.lines().zip(1..).peekable();
    let mut blank_before = true;
    while let Some((line, number)) = lines.next() {
        if let Some(command) = comment(line, "unseen: ") {
            unseen.push(command.to_owned());
        } else if let Some(programs) = comment(line, "needs: ") {
            needs.extend(programs.split_whitespace().map(str::to_owned));
        } else if let Some(reason) = comment(line, "not run: ") {
            why = Some(reason.to_owned());
        } else if let Some(language) = line.strip_prefix("```") {
            let body: Vec<&str> =
                lines.by_ref().map(|(line, _)| line).take_while(|line| *line != "```").collect();
            match (why.take(), language) {
                (Some(why), _) => blocks.not_run.push(NotRun { line: number, why }),
                (None, "console") => {
                    let exchanges = exchanges(&body).map_err(|error| format!("line {number}: {error}"))?;
                    let (needs, unseen) = (std::mem::take(&mut needs), std::mem::take(&mut unseen));
                    blocks.run.push(Block { line: number, needs, is_left_out: false, unseen, exchanges });
                }
                (None, _) if has_commands(language, &body) => {
                    return Err(format!(
                        "line {number}: commands that are never run: mark the fence `console`"
                    ));
                }
                (None, _) => {}
            }
        } else if blank_before && is_command(line.strip_prefix("    ").unwrap_or_default()) {
            return Err(format!("line {number}: commands that are never run: use a fence marked `console`"));
        }
        blank_before = line.trim().is_empty();
    }
    match needs.is_empty() && unseen.is_empty() && why.is_none() {
        true => Ok(blocks),
        false => Err("the last comment has no block behind it".into()),
    }
}

/// Returns the page with its output replaced by what was printed. `printed` has a list for each exchange of each block that was run, or `None`
/// where the page stays as it is.
pub(super) fn rewrite(text: &str, printed: &[Vec<Option<Vec<String>>>]) -> String {
    let mut blocks = printed.iter();
    let mut page: Vec<String> = Vec::new();
    let mut lines = text.lines();
    let mut is_run = true;
    while let Some(line) = lines.next() {
        page.push(line.to_owned());
        is_run = match line {
            _ if comment(line, "not run: ").is_some() => false,
            _ if line.starts_with("```") => {
                let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
                let new = if is_run && line == "```console" { blocks.next() } else { None };
                page.extend(rewritten(&body, new));
                page.push("```".to_owned());
                true
            }
            _ => is_run,
        };
    }
    page.join("\n") + "\n"
}

fn rewritten(body: &[&str], new: Option<&Vec<Option<Vec<String>>>>) -> Vec<String> {
    let Some(new) = new else { return body.iter().map(|line| (*line).to_owned()).collect() };
    let mut lines = Vec::new();
    let mut exchange = 0_usize;
    for line in body {
        let is_input = line.starts_with("$ ") || line.starts_with("> ");
        if line.starts_with("$ ") {
            lines.extend(exchange.checked_sub(1).and_then(|at| new[at].clone()).unwrap_or_default());
            exchange += 1;
        }
        let stays = exchange.checked_sub(1).is_none_or(|at| new[at].is_none());
        if is_input || stays {
            lines.push((*line).to_owned());
        }
    }
    lines.extend(new.last().cloned().flatten().unwrap_or_default());
    lines
}

fn comment<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    line.strip_prefix("<!-- ")?.strip_prefix(kind)?.strip_suffix(" -->")
}

fn exchanges(body: &[&str]) -> Result<Vec<Exchange>, String> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for line in body {
        match (line.strip_prefix("$ "), line.strip_prefix("> "), exchanges.last_mut()) {
            (Some(command), _, _) => {
                exchanges.push(Exchange { command: command.to_owned(), printed: Vec::new() });
            }
            (None, Some(more), Some(last)) if last.printed.is_empty() => {
                last.command.push('\n');
                last.command.push_str(more);
            }
            (None, _, Some(last)) => last.printed.push((*line).to_owned()),
            (None, _, None) => return Err("the block does not start with a command: `$ `".into()),
        }
    }
    Ok(exchanges)
}

fn has_commands(language: &str, body: &[&str]) -> bool {
    ["sh", "bash", "shell"].contains(&language) || body.iter().any(|line| is_command(line))
}

/// Reports whether a line of code that is not in a `console` block looks like something to type.
fn is_command(line: &str) -> bool {
    ["$ ", "lastword ", "cargo "].iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
Words.

```console
$ echo one
one
$ for word in two three; do
>   echo $word
> done
two
three
```

<!-- not run: it takes an hour -->
```console
$ sleep 3600
```

<!-- needs: ls touch -->
<!-- unseen: touch there -->
```console
$ ls
there
```

```toml
slots = 4
```
";

    fn exchange(command: &str, printed: &[&str]) -> Exchange {
        let printed = printed.iter().map(|line| (*line).to_owned()).collect();
        Exchange { command: command.into(), printed }
    }

    #[test]
    fn a_page_is_read() {
        let blocks = read(PAGE).unwrap();
        assert_eq!(blocks.not_run, [NotRun { line: 14, why: "it takes an hour".into() }]);
        assert_eq!(
            blocks.run,
            [
                Block {
                    line: 3,
                    needs: vec![],
                    is_left_out: false,
                    unseen: vec![],
                    exchanges: vec![
                        exchange("echo one", &["one"]),
                        exchange("for word in two three; do\n  echo $word\ndone", &["two", "three"]),
                    ],
                },
                Block {
                    line: 20,
                    needs: vec!["ls".into(), "touch".into()],
                    is_left_out: false,
                    unseen: vec!["touch there".into()],
                    exchanges: vec![exchange("ls", &["there"])]
                },
            ]
        );
    }

    #[test]
    fn commands_that_are_never_run_are_refused() {
        for page in [
            "```sh\nmake\n```\n",
            "```text\n$ make\n```\n",
            "```\nlastword ls\n```\n",
            "Words.\n\n    cargo build\n",
            "```console\nmake\n```\n",
            "<!-- not run: there is no block -->\n",
            "<!-- unseen: true -->\n",
            "<!-- needs: ls -->\n",
        ] {
            assert!(read(page).is_err(), "{page}");
        }
        assert_eq!(read("- a point\n    lastword in the middle of it\n"), Ok(Blocks::default()));
    }

    #[test]
    fn what_was_printed_replaces_what_was_shown() {
        let lines = |lines: &[&str]| Some(lines.iter().map(|line| (*line).to_owned()).collect());
        let printed = [vec![None, lines(&["2", "3", "4"])], vec![lines(&[])]];
        let page = rewrite(PAGE, &printed);
        assert_eq!(page, PAGE.replace("two\nthree\n", "2\n3\n4\n").replace("$ ls\nthere\n", "$ ls\n"));
        assert_eq!(rewrite(PAGE, &[vec![None, None], vec![None]]), PAGE);
    }
}
