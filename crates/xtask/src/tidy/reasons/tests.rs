use super::read;

#[test]
fn the_list_is_the_comment_under_its_heading() {
    let text = "\
# Something else
#   ghost    not in the list

# Direct dependencies and why
#
#   bytes    shared slices
#   bare
#   tokio    sockets, in the server only

#   late     after the end
[bans]
";
    let rows: Vec<(String, String)> = read(text).into_iter().collect();
    let rows: Vec<(&str, &str)> =
        rows.iter().map(|(name, reason)| (name.as_str(), reason.as_str())).collect();
    assert_eq!(rows, [("bytes", "shared slices"), ("tokio", "sockets, in the server only")]);
}
