use super::*;

fn read(set: &[(&str, &str)]) -> Result<Variables, String> {
    let get = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    Variables::read(get).map_err(|failure| failure.to_string())
}

#[test]
fn the_port_is_used_and_the_database_named() {
    assert_eq!(read(&[]), Ok(Variables::default()));
    let compose = [
        ("ACCEPT_EULA", "Y"),
        ("SQL_SERVER", "mssql"),
        ("MSSQL_SA_PASSWORD", "secret word"),
        ("SQL_WAIT_INTERVAL", ""),
        ("EMULATOR_HTTP_PORT", " 8080 "),
    ];
    let found = read(&compose).unwrap();
    assert_eq!(found.http_port, Some(8080));
    let names: Vec<_> = found.notices.iter().filter_map(|notice| notice.split('`').nth(1)).collect();
    assert_eq!(names, ["SQL_SERVER", "MSSQL_SA_PASSWORD"]);
    assert!(!found.notices.concat().contains("secret"), "{:?}", found.notices);
}

#[test]
fn a_port_that_is_none_stops_the_start() {
    for text in ["x", "0", "65536", "-1"] {
        let refused = read(&[("EMULATOR_HTTP_PORT", text)]).unwrap_err();
        assert!(refused.contains(&format!("`EMULATOR_HTTP_PORT` is '{text}'")), "{refused}");
    }
    assert_eq!(read(&[("EMULATOR_HTTP_PORT", "")]), Ok(Variables::default()));
}
