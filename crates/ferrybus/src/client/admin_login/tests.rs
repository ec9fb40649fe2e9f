use super::*;

#[test]
fn the_login_comes_from_the_file_else_from_the_environment() {
    let folder = std::env::temp_dir();
    let path = folder.join(format!("ferrybus-admin-{}", std::process::id()));
    let of_file = |text: &str, variable: Option<&str>| {
        fs::write(&path, text).unwrap();
        admin_login(Some(&path), |name| variable.filter(|_| name == "FERRYBUS_ADMIN").map(Into::into))
    };
    let of_variable = |text: Option<&str>| admin_login(None, |_| text.map(Into::into));
    let login = of_file("root:p:w\r\n", Some("other:x")).unwrap().unwrap();
    assert_eq!(login, Login::Password { name: "root".into(), password: "p:w".into() });
    assert!(!format!("{login:?}").contains("p:w"));
    assert_eq!(of_variable(Some("root:p:w")).unwrap().unwrap(), login);
    assert_eq!((of_variable(None).unwrap(), of_variable(Some("")).unwrap()), (None, None));
    for bad in ["root", ":p", "root:", ""] {
        let failure = of_file(bad, None).unwrap_err().to_string();
        assert!(failure.ends_with("does not have the form `USER:PASSWORD`"), "{failure}");
    }
    fs::remove_file(&path).unwrap();
    let missing = admin_login(Some(&path), |_| None).unwrap_err().to_string();
    assert!(missing.contains("cannot read log-in of an administrator"), "{missing}");
}
