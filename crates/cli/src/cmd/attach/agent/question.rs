//! A question that is answered where it is watched: its pages, and what a typed line means on each of them.

use lastword_api::{Answer, Question, QuestionKind, QuestionOption, QuestionPart, Time, Verdict};
use serde_json::Value;

use crate::ui::question::{chosen, of_group, whole};
use crate::ui::style::Style;

/// Lines of the screen that a page leaves free, for the lines of ours around it.
const FREE_LINES: usize = 3;

/// The fewest lines of a page.
const PAGE_MIN: usize = 4;

/// A question, as far as it was shown and answered.
pub(super) struct Asked {
    question: Question,
    lines: Vec<String>,
    /// Lines that were shown; `None` before the first.
    shown: Option<usize>,
    /// The answers to its first parts.
    words: Vec<String>,
}

/// What a typed line leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The next page is shown.
    Page,
    /// It means nothing here; it is said again what does.
    Again,
    /// The question is answered.
    Answer(Answer),
}

impl Asked {
    /// Returns a question of which nothing was shown.
    pub(super) fn new(question: Question, style: Style, width: usize) -> Asked {
        let lines = whole(&question, style, width);
        Asked { question, lines, shown: None, words: Vec::new() }
    }

    /// Returns the question.
    pub(super) fn question(&self) -> &Question {
        &self.question
    }

    /// Notes that its first page comes.
    pub(super) fn begin(&mut self) {
        self.shown.get_or_insert(0);
    }

    /// Begins with its first page again.
    pub(super) fn start_again(&mut self) {
        (self.shown, self.words) = (Some(0), Vec::new());
    }

    /// Reports whether some of it was shown.
    pub(super) fn is_begun(&self) -> bool {
        self.shown.is_some()
    }

    /// Reports whether all of it was shown.
    pub(super) fn is_shown(&self) -> bool {
        self.shown.is_some_and(|shown| shown >= self.lines.len())
    }

    /// Returns the next page for a screen of this height.
    pub(super) fn next_page(&mut self, height: usize) -> Vec<String> {
        let from = self.shown.unwrap_or(0);
        let page = height.saturating_sub(FREE_LINES).max(PAGE_MIN);
        let upto = self.lines.len().min(from + page);
        self.shown = Some(upto);
        self.lines[from..upto].to_vec()
    }

    /// Returns what can be typed now.
    pub(super) fn hint(&self) -> String {
        if !self.is_shown() {
            let (shown, all) = (self.shown.unwrap_or(0), self.lines.len());
            return format!("  -- line {shown} of {all}: [Enter] shows more, [n] denies --");
        }
        match self.part() {
            None if of_group(&self.question).is_some() => {
                "  raise the budget of its group (`lastword group set`), or type [n] to stop the job"
                    .to_owned()
            }
            None if self.is_at_limit() => "  type the new limit, or [n] to stop the job".to_owned(),
            None if self.question.kind.is_none() => "  [y] allow  [n] deny, or type an answer".to_owned(),
            None if self.can_be_ruled() => {
                "  [y] allow  [a] always allow exactly this  [n] deny  [n REASON] deny and say why".to_owned()
            }
            None => "  [y] allow  [n] deny  [n REASON] deny and say why".to_owned(),
            Some(part) => {
                let count = self.question.parts.len();
                let which = match count {
                    1 => String::new(),
                    _ => format!("answer {} of {count}: ", self.words.len() + 1),
                };
                match (part.options.is_empty(), part.several) {
                    (true, _) => format!("  {which}type an answer"),
                    (false, false) => format!("  {which}type a number, or an answer"),
                    (false, true) => format!("  {which}type numbers with a comma between them, or an answer"),
                }
            }
        }
    }

    /// Takes a line that was typed after the last hint.
    pub(super) fn hear(&mut self, line: &str) -> Step {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let denies = matches!(word.to_ascii_lowercase().as_str(), "n" | "no");
        let deny =
            || Answer { verdict: Some(Verdict::Deny), reason: rest.trim().to_owned(), ..self.answer() };
        if !self.is_shown() {
            return match line {
                "" => Step::Page,
                _ if denies => Step::Answer(deny()),
                _ => Step::Again,
            };
        }
        if line.is_empty() {
            return Step::Again;
        }
        if let Some(part) = self.part() {
            let Ok(words) = chosen(part, line) else { return Step::Again };
            self.words.push(words);
            return match self.words.len() < self.question.parts.len() {
                // What was typed so far does not answer the next part.
                true => Step::Page,
                false => Step::Answer(Answer { words: std::mem::take(&mut self.words), ..self.answer() }),
            };
        }
        match word.to_ascii_lowercase().as_str() {
            _ if of_group(&self.question).is_some() && !denies => Step::Again,
            _ if self.is_at_limit() && !denies => {
                Step::Answer(Answer { words: vec![line.to_owned()], ..self.answer() })
            }
            "y" | "yes" if rest.is_empty() => {
                Step::Answer(Answer { verdict: Some(Verdict::Allow), ..self.answer() })
            }
            "a" | "always" if rest.is_empty() && self.can_be_ruled() => {
                Step::Answer(Answer { verdict: Some(Verdict::Allow), always: true, ..self.answer() })
            }
            _ if denies => Step::Answer(deny()),
            _ if self.question.kind.is_none() => {
                Step::Answer(Answer { words: vec![line.to_owned()], ..self.answer() })
            }
            _ => Step::Again,
        }
    }

    /// Reports whether it asks for a higher limit.
    fn is_at_limit(&self) -> bool {
        self.question.kind == Some(QuestionKind::Limit)
    }

    /// Reports whether a rule can allow it: it is a permission that was shown whole.
    fn can_be_ruled(&self) -> bool {
        let Question { kind, request, lacks, .. } = &self.question;
        *kind == Some(QuestionKind::Permission) && !request.is_empty() && lacks.is_empty()
    }

    /// Returns the part that is to be answered next.
    fn part(&self) -> Option<&QuestionPart> {
        self.question
            .parts
            .get(self.words.len())
            .filter(|_| self.question.kind != Some(QuestionKind::Permission))
    }

    fn answer(&self) -> Answer {
        Answer { question: self.question.id.clone(), ..Answer::default() }
    }
}

/// Returns the question that an event tells of.
pub(super) fn of_event(at: Time, data: &Value) -> Question {
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let part = |part: &Value| QuestionPart {
        text: part["text"].as_str().unwrap_or_default().to_owned(),
        options: serde_json::from_value::<Vec<QuestionOption>>(part["options"].clone()).unwrap_or_default(),
        several: part["several"] == true,
    };
    let id = text("name");
    Question {
        id: if id.is_empty() { text("question") } else { id },
        agent_id: text("question"),
        kind: serde_json::from_value(data["kind"].clone()).ok(),
        text: text("text"),
        tool: text("tool"),
        request: text("request"),
        lacks: text("lacks"),
        parts: data["parts"].as_array().into_iter().flatten().map(part).collect(),
        limit: None,
        asked_at: at,
        expires_at: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: Style = Style { on: false };

    fn asked(data: &Value) -> Asked {
        let mut asked = Asked::new(of_event(Time::default(), data), PLAIN, 80);
        asked.begin();
        asked
    }

    fn permission(request: &str) -> Value {
        json!({ "question": "r1", "name": "q1-0000", "kind": "permission", "text": "Bash", "request": request })
    }

    fn allows(step: &Step) -> bool {
        matches!(step, Step::Answer(answer) if answer.verdict == Some(Verdict::Allow))
    }

    #[test]
    fn c89_a_long_request_is_allowed_only_on_its_last_page() {
        let request: String = (0..100).map(|line| format!("echo {line}\n")).collect();
        let mut asked = asked(&permission(&format!("{request}rm -rf /")));
        let mut shown = asked.next_page(24);
        let mut pages = 1;
        while !asked.is_shown() {
            for word in ["y", "yes", "Y", "allow", "q1-0000"] {
                assert_eq!(asked.hear(word), Step::Again, "{word}");
            }
            assert_eq!(asked.hear(""), Step::Page);
            shown.extend(asked.next_page(24));
            pages += 1;
        }
        assert_eq!((shown.len(), pages), (102, 5));
        assert_eq!(shown.last().map(String::as_str), Some("  │ rm -rf /"));
        assert!(allows(&asked.hear("y")));
    }

    #[test]
    fn only_a_yes_allows_and_only_a_no_denies() {
        for (line, allow, reason) in [
            ("y", true, ""),
            (" YES ", true, ""),
            ("n", false, ""),
            ("No not that one", false, "not that one"),
        ] {
            let mut asked = asked(&permission("make"));
            asked.next_page(24);
            let Step::Answer(answer) = asked.hear(line) else { panic!("{line} is an answer") };
            let verdict = if allow { Verdict::Allow } else { Verdict::Deny };
            assert_eq!((answer.verdict, answer.reason.as_str()), (Some(verdict), reason), "{line}");
            assert_eq!(answer.question, "q1-0000");
        }
        let mut asked = asked(&permission("make"));
        asked.next_page(24);
        for line in ["", "ok", "yes please", "allow", "do it differently", "nope", "a lot"] {
            assert_eq!(asked.hear(line), Step::Again, "{line}");
        }
        let Step::Answer(always) = asked.hear("a") else { panic!("it is an answer") };
        assert_eq!((always.verdict, always.always), (Some(Verdict::Allow), true));
    }

    #[test]
    fn c89_what_cannot_be_shown_whole_is_allowed_once_only() {
        let mut data = permission("make");
        data["lacks"] = "the file cannot be read".into();
        let mut asked = asked(&data);
        asked.next_page(24);
        assert!(!asked.hint().contains("always"));
        assert_eq!(asked.hear("a"), Step::Again);
        assert!(allows(&asked.hear("y")));
    }

    #[test]
    fn each_part_takes_a_number_or_words() {
        let options = json!([{ "label": "SQLite" }, { "label": "PostgreSQL" }, { "label": "3" }]);
        let parts = json!([
            { "text": "Which?", "options": options },
            { "text": "Extras?", "options": options, "several": true },
            { "text": "Why?" },
        ]);
        let data = json!({ "question": "r1", "name": "q1-0000", "kind": "choice", "text": "Which?", "parts": parts });
        let mut asked = asked(&data);
        asked.next_page(24);
        assert_eq!(
            (asked.hear("2"), asked.hear("1, 3"), asked.hear("")),
            (Step::Page, Step::Page, Step::Again)
        );
        let Step::Answer(answer) = asked.hear("1") else { panic!("it is answered") };
        assert_eq!(answer.words, ["PostgreSQL", "SQLite, 3", "1"]);
        assert_eq!(asked.hear("9"), Step::Again, "there is no such option");
    }
}
