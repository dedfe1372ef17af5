//! `preload/paths.c` sends paths of RDMA devices to the folder with their files, and no other path.
//!
//! What each function answers about a path is compared with what the C library alone answers about
//! the path that is meant.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The library, the program that asks, and a folder with the files of a device.
struct Scene {
    folder: TempDir,
    library: PathBuf,
    probe: PathBuf,
    root: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let library = folder.path().join("paths.so");
        let probe = folder.path().join("probe");
        compile(&["-shared", "-fPIC", "-fno-builtin"], "preload/paths.c", &library);
        compile(&[], "tests/paths/probe.c", &probe);

        let root = folder.path().canonicalize().unwrap().join("root");
        let device = root.join("sys/devices/virtual/ferroce/0/infiniband/ferroce0");
        for folder in ["sys/class/infiniband", "sys/class/infiniband_verbs", "dev/infiniband"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("node_guid"), "00fe:7fff:fe00:0001\n").unwrap();
        let link = "../../devices/virtual/ferroce/0/infiniband/ferroce0";
        symlink(link, root.join("sys/class/infiniband/ferroce0")).unwrap();
        symlink("/dev/null", root.join("dev/infiniband/uverbs0")).unwrap();
        // Where a path would lead that was taken for one of ours.
        for decoy in ["sys/class/infiniband_x", "dev/infinibandx", "sys/class/net", "tmp"] {
            fs::create_dir_all(root.join(decoy)).unwrap();
        }
        Self { folder, library, probe, root }
    }

    fn probe(&self, path: &str) -> Command {
        let mut command = Command::new(&self.probe);
        command.arg(path).env_remove("LD_PRELOAD");
        command
    }

    /// What the C library answers, where it speaks of our folder as if that were `/`.
    fn plain(&self, path: &str) -> String {
        run(&mut self.probe(path)).replace(self.root.to_str().unwrap(), "")
    }

    /// What is answered below `ferroce run`.
    fn preloaded(&self, path: &str) -> String {
        let mut command = self.probe(path);
        run(command.env("LD_PRELOAD", &self.library).env("FERROCE_SYSFS", &self.root))
    }
}

fn compile(flags: &[&str], source: &str, program: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-U_FORTIFY_SOURCE"]).args(flags);
    let status = command.arg("-o").arg(program).arg(source).arg("-ldl").status().unwrap();
    assert!(status.success());
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{:?}: {stdout}", output.status);
    stdout
}

#[test]
fn a_path_of_a_device_is_answered_from_the_folder() {
    let scene = Scene::new();
    for path in [
        "/sys/class/infiniband",
        "/sys/class/infiniband/",
        "/sys/class/infiniband/ferroce0",
        "/sys/class/infiniband/ferroce0/node_guid",
        "/sys/class/infiniband/ferroce0/../..",
        "/sys/class/infiniband/ferroce1",
        "/sys/class/infiniband_verbs",
        "/sys/devices/virtual/ferroce/0/infiniband",
        "/dev/infiniband",
        "/dev/infiniband/uverbs0",
        "/dev/infiniband/rdma_cm",
    ] {
        let meant = format!("{}{path}", scene.root.display());
        assert_eq!(scene.preloaded(path), scene.plain(&meant), "{path}");
    }
}

#[test]
fn the_folder_is_really_looked_into() {
    let scene = Scene::new();
    let answers = scene.preloaded("/sys/class/infiniband/ferroce0/node_guid");
    assert!(answers.contains("\nfopen64: opens 20 bytes: 30 30 66 65 3a"), "{answers}");
    let resolved = "realpath: /sys/devices/virtual/ferroce/0/infiniband/ferroce0/node_guid,";
    assert!(answers.contains(resolved), "{answers}");
    let answers = scene.preloaded("/dev/infiniband/uverbs0");
    assert!(answers.contains("\n__xstat: 0 mode 20666,"), "{answers}");
    assert!(answers.contains("\nreadlink: /dev/null,"), "{answers}");
    assert!(scene.preloaded("/sys/class/infiniband").contains("\nscandir: 1: ferroce0,"));
}

#[test]
fn a_path_that_only_looks_alike_is_left_alone() {
    let scene = Scene::new();
    let long = format!("/sys/class/infiniband/{}", "a/".repeat(600));
    for path in [
        "/sys/class/infiniband_x",
        "/sys/class/infiniban",
        "/sys/class/net",
        "/sys/class//infiniband",
        "/sys/devices/virtual/ferroce0",
        "/dev/infinibandx",
        "/dev/null",
        "/usr",
        "/etc/hostname",
        "sys/class/infiniband",
        ".",
        "/",
        "",
        long.as_str(),
    ] {
        assert_eq!(scene.preloaded(path), run(&mut scene.probe(path)), "{path}");
    }
}

#[test]
fn nothing_is_redirected_without_a_folder() {
    let scene = Scene::new();
    for folder in [None, Some(""), Some("relative")] {
        let path = "/sys/class/infiniband/ferroce0";
        let mut command = scene.probe(path);
        command.env("LD_PRELOAD", &scene.library).env_remove("FERROCE_SYSFS");
        if let Some(folder) = folder {
            command.env("FERROCE_SYSFS", folder);
        }
        assert_eq!(run(&mut command), run(&mut scene.probe(path)), "{folder:?}");
    }
}

#[test]
fn every_exported_function_is_asked() {
    let scene = Scene::new();
    let mut command = Command::new("nm");
    let symbols = run(command.args(["-D", "--defined-only"]).arg(&scene.library));
    let exported: BTreeSet<&str> = symbols
        .lines()
        .filter(|line| line.contains(" T "))
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    let answers = scene.preloaded("/");
    let asked: BTreeSet<&str> =
        answers.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    let asked: BTreeSet<&str> = asked.into_iter().filter(|name| *name != "NULL").collect();
    assert_eq!(exported, asked);
    assert!(exported.len() > 40);
}

#[test]
fn scripts_and_tools_see_the_devices() {
    let scene = Scene::new();
    let below = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", script]).current_dir(scene.folder.path());
        run(command.env("LD_PRELOAD", &scene.library).env("FERROCE_SYSFS", &scene.root))
    };
    assert_eq!(below("ls /sys/class/infiniband; ls -l /dev/infiniband | wc -l"), "ferroce0\n2\n");
    assert_eq!(below("cd /sys/class/infiniband/ferroce0; cat node_guid"), "00fe:7fff:fe00:0001\n");
    assert_eq!(below("cd /sys/class/infiniband; /bin/pwd; realpath ferroce0/../.."), {
        "/sys/class/infiniband\n/sys/devices/virtual/ferroce/0\n"
    });
    assert_eq!(below("test -c /dev/infiniband/uverbs0 && echo /sys/class/infiniband/f*"), {
        "/sys/class/infiniband/ferroce0\n"
    });
}
