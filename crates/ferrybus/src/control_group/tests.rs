use std::path::PathBuf;

use super::*;

/// A folder with these files, below a mount point of control groups.
fn mount(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ferrybus-control-group-{name}-{}", std::process::id()));
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn the_least_limit_of_the_group_and_of_those_above_it_counts() {
    const UNLIMITED: &str = "9223372036854771712\n";
    type Files = &'static [(&'static str, &'static str)];
    let cases: [(&str, &str, Files, Option<u64>); 9] = [
        ("none", "0::/\n", &[], None),
        ("container", "0::/\n", &[("memory.max", "1073741824\n")], Some(1 << 30)),
        ("unlimited", "0::/\n", &[("memory.max", "max\n")], None),
        (
            "service",
            "0::/system.slice/ferrybus.service\n",
            &[("system.slice/memory.max", "max\n"), ("system.slice/ferrybus.service/memory.max", "1000\n")],
            Some(1_000),
        ),
        ("above", "0::/a/b\n", &[("a/b/memory.max", "2000\n"), ("a/memory.max", "1000\n")], Some(1_000)),
        // The path is that of the host, which the container does not see.
        ("path-of-host", "0::/docker/0123\n", &[("memory.max", "3000\n")], Some(3_000)),
        (
            "version-1",
            "5:cpu,cpuacct:/x\n4:memory:/docker/0123\n",
            &[("memory/memory.limit_in_bytes", "4000\n"), ("memory.max", "max\n")],
            Some(4_000),
        ),
        ("version-1-unlimited", "4:memory:/\n", &[("memory/memory.limit_in_bytes", UNLIMITED)], None),
        ("damaged", "nonsense", &[("memory.max", "many\n")], None),
    ];
    for (name, own, files, expected) in cases {
        let files: Vec<_> = files.iter().copied().chain([("own", own)]).collect();
        let mount = mount(name, &files);
        assert_eq!(memory_limit(&mount, &mount.join("own")), expected, "{name}");
        assert_eq!(memory_limit(&mount.join("absent"), &mount.join("own")), None, "{name}");
        fs::remove_dir_all(mount).unwrap();
    }
}
