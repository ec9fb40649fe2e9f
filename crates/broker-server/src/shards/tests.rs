use super::*;

#[test]
fn as_many_shards_are_opened_as_are_wanted_or_have_a_journal() {
    let folder = std::env::temp_dir().join(format!("ferrybus-shards-{}", std::process::id()));
    drop(fs::remove_dir_all(&folder));
    assert_eq!((count(&folder, 0).unwrap(), count(&folder, 3).unwrap()), (1, 3));
    for name in ["shard-0", "shard-2", "shard-x", "shard-64", "meta", "00000000.segment"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    assert_eq!((count(&folder, 1).unwrap(), count(&folder, 4).unwrap()), (3, 4));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_first_shard_has_the_data_folder_itself() {
    let data = Path::new("data");
    assert_eq!((folder(data, 0), folder(data, 2)), (data.to_owned(), data.join("shard-2")));
}
