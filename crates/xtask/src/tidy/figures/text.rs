//! Counts of lines: code, and comments that ask instead of saying.
//!
//! Invariant: a line counts once, as code or as comment.

/// Words that turn the first sentence of a comment into a question.
const ASKING: [&str; 8] = ["What", "Whatever", "Who", "Whoever", "Whose", "Where", "How", "Why"];

/// Lines that are neither empty nor a comment.
pub(super) fn code_lines(text: &str) -> usize {
    text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// Comment lines that begin with a question word.
pub(super) fn questions(text: &str) -> usize {
    let comments = text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    comments
        .map(|comment| comment.trim_start_matches(['/', '!', ' ']))
        .filter(|comment| {
            let word = comment.split(|letter: char| !letter.is_alphanumeric()).next();
            word.is_some_and(|word| ASKING.contains(&word))
        })
        .count()
}

/// The words of a program: letters, digits and underscores, without those of comments and of texts in quotes.
pub(super) fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = code.flat_map(|line| line.split('"').step_by(2));
    code.flat_map(|part| part.split(|letter: char| !letter.is_alphanumeric() && letter != '_'))
        .filter(|word| !word.is_empty())
}
