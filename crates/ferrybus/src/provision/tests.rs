use super::*;

#[test]
fn entities_that_no_file_names_are_counted_and_ten_of_them_named() {
    let names = |count: usize| (0..count).map(|number| format!("q{number}")).collect::<Vec<_>>();
    assert_eq!(others_notice(&names(1)), "1 entity is not in the configuration and kept: `q0`");
    assert_eq!(others_notice(&names(2)), "2 entities are not in the configuration and kept: `q0`, `q1`");
    let ten = others_notice(&names(10));
    assert!(ten.ends_with(", `q9`"), "{ten}");
    let eleven = others_notice(&names(11));
    assert!(eleven.starts_with("11 entities") && eleven.ends_with(", `q9` and others"), "{eleven}");
}
