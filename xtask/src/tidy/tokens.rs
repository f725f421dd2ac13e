//! Rust source as tokens: names and punctuation, without comments, literals and lifetimes.

/// Drops every item under `#[cfg(test)]`.
pub(super) fn without_tests(tokens: &[String]) -> Vec<String> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_test = tokens[at..].iter().take(MARK.len()).eq(MARK.iter());
        if !is_test {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        at += MARK.len();
        while at < tokens.len() {
            match tokens[at].as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            at += 1;
            let is_end = matches!(tokens[at - 1].as_str(), ";" | "}");
            if depth == 0 && is_end {
                break;
            }
        }
    }
    kept
}

pub(super) fn is_name(token: &str) -> bool {
    token.starts_with(|char: char| char.is_alphabetic() || char == '_')
}

/// Splits Rust into names and punctuation, without comments, texts and lifetimes.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_text(rest) {
            length
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            character(rest)
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
            tokens.push(rest[..end].to_owned());
            end
        } else {
            let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            if !first.is_whitespace() {
                tokens.push(rest[..length].to_owned());
            }
            length
        };
        rest = &rest[length..];
    }
    tokens
}

/// Returns the length of the raw text that opens here, if one does.
fn raw_text(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let marks = after.bytes().take_while(|byte| *byte == b'#').count();
    let body = after[marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(rest.len() - body.len() + length)
}

/// Returns the length of the text that opens here, up to its end.
fn quoted(rest: &str, end: char) -> usize {
    let mut escaped = false;
    for (at, char) in rest.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if char == end => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of a character; of a lifetime, that of its mark.
fn character(rest: &str) -> usize {
    let mut chars = rest.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => quoted(rest, '\''),
        (Some(one), Some('\'')) => 2 + one.len_utf8(),
        _ => 1,
    }
}
