//! Quotes words for a shell, so that a command can be copied from what is printed.

use std::path::Path;

/// Quotes a path for a shell.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+@%:,=".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_for_a_shell() {
        assert_eq!(quoted(Path::new("/home/ann/.local/state")), "/home/ann/.local/state");
        assert_eq!(quoted(Path::new("/my home/it's")), r"'/my home/it'\''s'");
    }
}
