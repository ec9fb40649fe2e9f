use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ferrybus-node-id-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn random(bytes: [u8; 8]) -> impl FnOnce() -> Result<[u8; 8], RandomnessError> {
    move || Ok(bytes)
}

fn no_random() -> Result<[u8; 8], RandomnessError> {
    panic!("a node that has an id makes no other")
}

#[test]
fn a_node_keeps_the_id_of_its_first_start() {
    let folder = Folder::new("kept");
    let id = load(folder.path(), random([0xff; 8])).unwrap();
    assert_eq!(id, u64::MAX >> 1);
    assert_eq!(load(folder.path(), no_random).unwrap(), id);
    let file = folder.path().join("node");
    assert_eq!(fs::read_to_string(&file).unwrap(), "ferrybus-node-1 7fffffffffffffff\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn an_id_is_never_zero() {
    let folder = Folder::new("zero");
    assert_eq!(load(folder.path(), random([0; 8])).unwrap(), 1);
}

#[test]
fn a_write_that_a_crash_interrupted_is_begun_anew() {
    let folder = Folder::new("interrupted");
    fs::write(folder.path().join("node.new"), "ferrybus-no").unwrap();
    let id = load(folder.path(), random([0, 0, 0, 0, 0, 0, 0, 8])).unwrap();
    assert_eq!((id, load(folder.path(), no_random).unwrap()), (4, 4));
}

#[test]
fn a_file_that_is_none_of_a_node_is_refused_and_left_alone() {
    let texts = [
        "",
        "ferrybus-node-1 0000000000000000\n",
        "ferrybus-node-1 8000000000000000\n",
        "ferrybus-node-1 +000000000000001\n",
        "ferrybus-node-1 1\n",
        "ferrybus-node-1 0000000000000001",
        "ferrybus-node-2 0000000000000001\n",
    ];
    for text in texts {
        let folder = Folder::new("refused");
        fs::write(folder.path().join("node"), text).unwrap();
        let error = load(folder.path(), no_random).unwrap_err();
        assert!(error.to_string().contains("is no file of a node's id"), "{text:?}: {error}");
        assert_eq!(fs::read_to_string(folder.path().join("node")).unwrap(), text);
    }
}
