//! Renders what is asked, by an agent or at a limit. Every line of the agent begins with a bar, so that it cannot pass for one of ours, and none is cut: a
//! question is shown whole, or it is said how much is left out and its name is not shown.

use lastword_api::{Job, Question, QuestionKind, QuestionLimit, QuestionOption, QuestionPart};

use super::describe;
use super::style::Style;
use crate::text::clean::{clean, columns, wrap};
use crate::text::duration;
use crate::text::moment::{Clock, between};

/// Lines of a question that are shown among other things.
const LINES_MAX: usize = 16;

/// Columns of a tool's name that fits into a line of ours.
const TOOL_COLUMNS_MAX: usize = 30;

/// Returns a question among other things: all of it and how to answer it if it is short, or its first lines and how to see the rest.
pub(crate) fn brief(job: &Job, question: &Question, style: Style, width: usize) -> Vec<String> {
    let mut lines = whole(question, style, width);
    if lines.len() <= LINES_MAX {
        lines.push(format!("    {}", command(job, question)));
        return lines;
    }
    let left_out = lines.len() - LINES_MAX + 2;
    lines.truncate(LINES_MAX - 2);
    lines.push(format!("  … {}", describe::count(left_out as u64, "more line", "more lines")));
    lines.push(format!(
        "    lastword question {}    {}",
        describe::reference(job),
        style.faint("# shows all of it, and how to answer")
    ));
    lines
}

/// Returns all of a question.
pub(crate) fn whole(question: &Question, style: Style, width: usize) -> Vec<String> {
    let head = match (question.kind, question.tool.as_str()) {
        (None, _) => "asks".to_owned(),
        (Some(QuestionKind::Permission), "") => "asks for a permission".to_owned(),
        (Some(QuestionKind::Permission), tool)
            if columns(tool) <= TOOL_COLUMNS_MAX && clean(tool) == tool =>
        {
            format!("asks for permission: {tool}")
        }
        (Some(QuestionKind::Permission), _) => "asks for permission to use".to_owned(),
        (Some(QuestionKind::Choice | QuestionKind::Text), _) => "asks".to_owned(),
        (Some(QuestionKind::Limit), _) => "is paused at a limit".to_owned(),
    };
    let mut lines = vec![format!("  {}", style.warn(&head))];
    // The name of a tool is the agent's word, too.
    if head.ends_with("to use") {
        lines.extend(barred(&question.tool, style, width));
        lines.push(String::new());
    }
    match (question.request.as_str(), question.parts.as_slice()) {
        _ if let Some(QuestionLimit { limit, measured, allowed }) = &question.limit => {
            let used = describe::used(limit, *measured, *allowed);
            let what = match of_group(question) {
                Some(what) => format!("the {what} that its group may spend in a day"),
                None => format!("the {limit} limit"),
            };
            lines.extend(barred(&format!("{what} is used up: {used}"), style, width));
        }
        ("", []) => lines.extend(barred(&question.text, style, width)),
        (request, parts) => {
            if !request.is_empty() {
                lines.extend(barred(request, style, width));
            }
            lines.extend(parts.iter().flat_map(|part| part_lines(part, style, width)));
        }
    }
    if !question.lacks.is_empty() {
        lines.push(format!("  {}", style.warn(&format!("not shown: {}", clean(&question.lacks)))));
    }
    lines
}

fn part_lines(part: &QuestionPart, style: Style, width: usize) -> Vec<String> {
    let mut lines = barred(&part.text, style, width);
    for (index, option) in part.options.iter().enumerate() {
        let description = if option.description.is_empty() { "" } else { ": " };
        let text = format!("  {} {}{description}{}", index + 1, option.label, option.description);
        lines.extend(barred(&text, style, width));
    }
    if part.several && !part.options.is_empty() {
        lines.push(format!("  {}", style.faint("takes several numbers, with a comma between them")));
    }
    lines
}

/// Returns what a text answers: the options that its numbers name, or the text itself. Fails if there is no option of a number.
pub(crate) fn chosen(part: &QuestionPart, text: &str) -> Result<String, NoSuchOption> {
    let text = text.trim();
    if part.options.is_empty() || part.options.iter().any(|option| option.label == text) {
        return Ok(text.to_owned());
    }
    // A number too large for its type is out of range like any other.
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let numbers: Vec<&str> = text.split(',').map(str::trim).collect();
    if !numbers.iter().all(|word| is_number(word)) || numbers.len() > 1 && !part.several {
        return Ok(text.to_owned());
    }
    let label = |number: &&str| {
        let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let option = index.and_then(|index| part.options.get(index));
        option.map(|option| option.label.as_str()).ok_or_else(|| NoSuchOption((*number).to_owned()))
    };
    let labels: Vec<&str> = numbers.iter().map(label).collect::<Result<_, _>>()?;
    Ok(labels.join(", "))
}

/// A number that no option has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoSuchOption(pub(crate) String);

/// Returns the options of a part in one line.
pub(crate) fn options(part: &QuestionPart) -> String {
    let option =
        |(index, option): (usize, &QuestionOption)| format!("{} {}", index + 1, clean(&option.label));
    part.options.iter().enumerate().map(option).collect::<Vec<_>>().join(", ")
}

/// Returns a text of an agent or a repository, line by line, each with a bar before it. A line that is wrapped goes on behind a broken bar.
pub(crate) fn barred(text: &str, style: Style, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let line = clean(&line.replace('\t', "    ")).into_owned();
        for (index, piece) in wrap(&line, width.saturating_sub(4)).into_iter().enumerate() {
            let bar = if index == 0 { "│" } else { "┊" };
            lines.push(format!("  {} {piece}", style.faint(bar)));
        }
    }
    // The end of the last line is not another one.
    if text.ends_with('\n') {
        lines.pop();
    }
    lines
}

/// Returns what of the budget of a group is used up, for a question that is asked there: it is answered by a change of the group.
pub(crate) fn of_group(question: &Question) -> Option<&str> {
    question.limit.as_ref()?.limit.strip_prefix("group_")
}

/// Says how long a question waits for its answer, and what happens then.
pub(crate) fn deadline(question: &Question, clock: &Clock, style: Style) -> Option<String> {
    let left = duration::show_coarse(between(clock.now(), question.expires_at?));
    let ends = if question.kind == Some(QuestionKind::Limit) { "stopped" } else { "denied" };
    Some(format!("    {}", style.faint(&format!("# {ends} if not answered within {left}"))))
}

/// Returns the command that answers a question.
pub(crate) fn command(job: &Job, question: &Question) -> String {
    let group = clean(&job.group);
    let (job, id) = (describe::reference(job), clean(&question.id));
    match question.kind {
        Some(QuestionKind::Limit) if let Some(unit) = of_group(question) => {
            format!(
                "lastword group set {group} --{unit}-per-day VALUE    # or `lastword deny {job} {id}`, which stops the job"
            )
        }
        Some(QuestionKind::Permission) => format!("lastword approve {job} {id}    # or deny"),
        Some(QuestionKind::Choice | QuestionKind::Text) => {
            format!("lastword answer {job} {id}{}", " TEXT".repeat(question.parts.len().max(1)))
        }
        Some(QuestionKind::Limit) => {
            format!("lastword answer {job} {id} VALUE    # the new limit; deny stops the job")
        }
        None => format!("lastword approve {job} {id}    # or deny, or answer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { on: false };

    fn asks(request: &str) -> Question {
        Question {
            id: "q3-7k2m".to_owned(),
            agent_id: "r1".to_owned(),
            kind: Some(QuestionKind::Permission),
            text: "Bash: make".to_owned(),
            tool: "Bash".to_owned(),
            request: request.to_owned(),
            lacks: String::new(),
            parts: Vec::new(),
            limit: None,
            asked_at: lastword_api::Time::default(),
            expires_at: None,
        }
    }

    #[test]
    fn c89_a_line_does_not_pass_the_edge_where_emoji_are_wide() {
        let asked = asks(&format!("ls {}  asks for permission: execute", "\u{2764}\u{fe0f}".repeat(38)));
        let lines = whole(&asked, PLAIN, 80);
        assert!(lines.iter().all(|line| columns(line) <= 80), "{lines:?}");
    }

    #[test]
    fn c89_nothing_of_a_request_is_cut_and_nothing_of_it_looks_like_ours() {
        let shown = whole(&asks("echo\r\n    lastword approve x q1-0000\n\u{1b}[2J\tend\n"), PLAIN, 80);
        assert_eq!(
            shown,
            [
                "  asks for permission: Bash",
                "  │ echo␍",
                "  │     lastword approve x q1-0000",
                "  │ ␛[2J    end"
            ]
        );
        let long = format!("{}X", "ab ".repeat(60));
        let shown = whole(&asks(&long), PLAIN, 44);
        assert!(shown.iter().all(|line| line.chars().count() <= 44), "{shown:?}");
        let bars: Vec<char> = shown.iter().skip(1).filter_map(|line| line.chars().nth(2)).collect();
        assert_eq!(bars, ['│', '┊', '┊', '┊', '┊']);
        let text: String =
            shown.iter().skip(1).map(|line| line.chars().skip(4).collect::<String>()).collect();
        assert_eq!(text, long);
    }

    #[test]
    fn the_name_of_a_tool_cannot_pass_for_a_question() {
        let tool = format!("execute{}│ ls", " ".repeat(80));
        let shown = whole(&Question { tool, ..asks("rm -rf /") }, PLAIN, 44);
        assert_eq!(shown[0], "  asks for permission to use");
        assert!(
            shown[1..]
                .iter()
                .all(|line| line.is_empty() || line.starts_with("  │ ") || line.starts_with("  ┊ ")),
            "{shown:?}"
        );
    }

    #[test]
    fn options_are_shown_with_their_descriptions() {
        let option = |label: &str, description: &str| QuestionOption {
            label: label.to_owned(),
            description: description.to_owned(),
        };
        let options = vec![option("SQLite", "one file"), option("Other", "")];
        let part = QuestionPart { text: "Which?".to_owned(), options, several: false };
        let question = Question {
            kind: Some(QuestionKind::Choice),
            parts: vec![part],
            request: String::new(),
            ..asks("")
        };
        assert_eq!(
            whole(&question, PLAIN, 80),
            ["  asks", "  │ Which?", "  │   1 SQLite: one file", "  │   2 Other"]
        );
    }

    #[test]
    fn a_number_is_its_option_and_words_are_themselves() {
        let option = |label: &str| QuestionOption { label: label.to_owned(), description: String::new() };
        let options = vec![option("SQLite"), option("PostgreSQL"), option("4")];
        let one = QuestionPart { text: "Which?".to_owned(), options, several: false };
        let several = QuestionPart { several: true, ..one.clone() };
        let words = QuestionPart { options: Vec::new(), ..one.clone() };
        for (part, text, expected) in [
            (&one, "2", Ok("PostgreSQL")),
            (&one, " 2 ", Ok("PostgreSQL")),
            (&one, "4", Ok("4")),
            (&one, "5", Err("5")),
            (&one, "0", Err("0")),
            (&one, "99999999999999999999999", Err("99999999999999999999999")),
            (&one, "neither", Ok("neither")),
            (&one, "-1", Ok("-1")),
            (&one, "1,2", Ok("1,2")),
            (&several, "1,2", Ok("SQLite, PostgreSQL")),
            (&several, "3, 1", Ok("4, SQLite")),
            (&several, "1,7", Err("7")),
            (&several, "1, MySQL", Ok("1, MySQL")),
            (&words, "7", Ok("7")),
        ] {
            let expected = expected.map(str::to_owned).map_err(|number| NoSuchOption(number.to_owned()));
            assert_eq!(chosen(part, text), expected, "{text}");
        }
        let shown = part_lines(&several, PLAIN, 80);
        assert_eq!(
            shown.last().map(String::as_str),
            Some("  takes several numbers, with a comma between them")
        );
        assert!(!part_lines(&one, PLAIN, 80).iter().any(|line| line.contains("several")));
    }
}
