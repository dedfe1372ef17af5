//! `preload/paths.c` sends paths of RDMA devices to the folder with their files, and no other path.
//!
//! What each function answers about a path is compared with what the C library alone answers about
//! the path that is meant. A path of one of our libraries leads to ours ([`Libraries`]).

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
        compile_preload(&library);
        compile(&[], &["tests/paths/probe.c"], &probe);

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

/// As `cargo xtask dist` does.
fn compile_preload(library: &Path) {
    let flags = ["-shared", "-fPIC", "-fno-builtin", "-Wl,-z,defs"];
    compile(&flags, &["preload/paths.c", "preload/dlopen.S"], library);
}

fn compile(flags: &[&str], sources: &[&str], program: &Path) {
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-U_FORTIFY_SOURCE"]).args(flags);
    command.args(sources.iter().map(|source| crate_root.join(source)));
    let status = command.arg("-o").arg(program).args(["-lpthread", "-ldl"]).status().unwrap();
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

/// Libraries of the same names in two folders, of which `ferroce run` preloads `ours`, and a program that loads them.
struct Libraries {
    folder: TempDir,
}

impl Libraries {
    fn new() -> Self {
        let scene = Self { folder: TempDir::new().unwrap() };
        compile_preload(&scene.place("ours/libferroce-paths.so"));
        for file in ["libibverbs.so.1", "librdmacm.so.1"] {
            scene.library("ours", file, file);
            scene.library("theirs", file, file);
        }
        // The names that linkers look for, and others that are not ours to replace.
        for (file, soname) in [
            ("libibverbs.so", "libibverbs.so.9"),
            ("librdmacm.so", "librdmacm.so.9"),
            ("libibverbs.so.2", "libibverbs.so.2"),
            ("libibverbs.so.1.14.44.0", "libibverbs.so.9"),
            ("librdmacm.so.1.3.44.0", "librdmacm.so.9"),
            ("libibverbs.so.1.old", "libibverbs.so.1.old"),
            ("libibverbs.so.15", "libibverbs.so.15"),
            ("xlibibverbs.so.1", "xlibibverbs.so.1"),
            ("libibumad.so.3", "libibumad.so.3"),
            ("plugins/plugin.so", "plugin.so"),
        ] {
            scene.library("theirs", file, soname);
        }
        let host = ["-shared", "-fPIC", "-DHOST", "-fno-optimize-sibling-calls"];
        let run_path = ["-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/plugins"];
        let flags: Vec<&str> = host.into_iter().chain(run_path).collect();
        compile(&flags, &["tests/paths/loader.c"], &scene.place("theirs/host.so"));
        compile(&[], &["tests/paths/loader.c"], &scene.place("loader"));
        scene
    }

    fn place(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn library(&self, whose: &str, file: &str, soname: &str) {
        let whose_flag = format!("-DWHOSE=\"{whose}\"");
        let soname = format!("-Wl,-soname,{soname}");
        let flags = ["-shared", "-fPIC", &whose_flag, &soname];
        compile(&flags, &["tests/paths/loader.c"], &self.place(whose).join(file));
    }

    /// Whose library the program gets, in each way and of each path below our folder.
    fn loads(&self, preload: &[&str], ways: &[(&str, &str)]) -> Vec<String> {
        let preload = preload.iter().map(|name| self.place("ours").join(name));
        let preload: Vec<String> = preload.map(|path| path.display().to_string()).collect();
        let mut command = Command::new(self.place("loader"));
        command.env("LD_PRELOAD", preload.join(":")).env("LD_LIBRARY_PATH", self.place("ours"));
        for (way, path) in ways {
            match way.split_once('/') {
                Some(_) => command.arg(self.place(way)),
                None => command.arg(way),
            };
            match path.split_once('/') {
                Some(_) => command.arg(self.place(path)),
                None => command.arg(path),
            };
        }
        let said = run(&mut command).replace(self.folder.path().to_str().unwrap(), "");
        said.lines().map(str::to_owned).collect()
    }
}

const PRELOADED: [&str; 3] = ["libibverbs.so.1", "librdmacm.so.1", "libferroce-paths.so"];

#[test]
fn a_library_of_ours_is_loaded_from_wherever_a_program_names_it() {
    let scene = Libraries::new();
    let ways = [
        ("dlopen", "theirs/libibverbs.so.1"),
        ("dlopen", "theirs/libibverbs.so"),
        ("dlopen", "theirs/librdmacm.so.1"),
        ("dlopen", "theirs/librdmacm.so"),
        ("dlopen", "theirs/libibverbs.so.1.14.44.0"),
        ("dlopen", "theirs/librdmacm.so.1.3.44.0"),
        ("dlopen", "nowhere/libibverbs.so.1"),
        ("noload", "theirs/libibverbs.so.1"),
        ("dlmopen", "theirs/libibverbs.so.1"),
        ("namespace", "theirs/libibverbs.so.1"),
        ("dlopen", "libibverbs.so.1"),
        ("theirs/host.so", "theirs/libibverbs.so.1"),
    ];
    let loaded = scene.loads(&PRELOADED, &ways);
    assert_eq!(loaded, [["the program"].as_slice(), &["ours"; 12]].concat());
    // What it was without that.
    let loaded = scene.loads(&PRELOADED[..2], &ways[..2]);
    assert_eq!(loaded, ["the program", "theirs", "theirs"]);
}

#[test]
fn other_libraries_are_loaded_as_without_us() {
    let scene = Libraries::new();
    let ways = [
        ("noload", "theirs/libibverbs.so.2"),
        ("dlopen", "theirs/libibverbs.so.2"),
        ("noload", "theirs/libibverbs.so.2"),
        ("dlopen", "theirs/libibverbs.so.1.old"),
        ("dlopen", "theirs/libibverbs.so.15"),
        ("dlopen", "theirs/xlibibverbs.so.1"),
        ("dlmopen", "theirs/libibumad.so.3"),
        ("namespace", "theirs/libibumad.so.3"),
        ("dlopen", "theirs/nothing.so"),
        ("dlopen", "nothing.so"),
        // By the RUNPATH of who calls, and of nobody else.
        ("theirs/host.so", "plugin.so"),
        ("theirs/host.so", "libibverbs.so.1"),
    ];
    let loaded = scene.loads(&PRELOADED, &ways);
    let none = |path| format!("{path}: cannot open shared object file: No such file or directory");
    assert_eq!(
        loaded,
        [
            "the program",
            "nothing",
            "theirs",
            "theirs",
            "theirs",
            "theirs",
            "theirs",
            "theirs",
            "theirs",
            &none("/theirs/nothing.so"),
            &none("nothing.so"),
            "theirs",
            "ours",
        ]
    );
    assert_eq!(loaded, scene.loads(&PRELOADED[..2], &ways));
    let elsewhere = [("dlopen", "plugin.so")];
    assert_eq!(scene.loads(&PRELOADED, &elsewhere)[1], none("plugin.so"));
}
